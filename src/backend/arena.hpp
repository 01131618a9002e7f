// SPDX-License-Identifier: Apache-2.0
/// An address range of its own from which a simulated device hands out memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "backend/request.hpp"
#include "backend/status.hpp"
#include "base/sanitizer.hpp"

namespace millstream::backend {

/// What `take` leaves in a block.
enum class fresh_content : std::uint8_t {
  as_it_comes,
  marked,  ///< bytes of `fresh_byte` in all of a block up to 64 KiB, in the first and last 4 KiB of
           ///< a larger one, so that reading what nothing wrote is a wrong value and not luck
};
/// As floating point of any size a number far out of every useful range.
inline constexpr std::byte fresh_byte{0x7f};

/// What a machine takes for the capacity if nobody said another. Sanitizers keep a shadow of every
/// byte that a block has, touched or not, so there the whole is small.
[[nodiscard]] constexpr std::size_t default_capacity(std::size_t wanted) noexcept {
  constexpr std::size_t sanitized = std::size_t{1} << 30U;
  const bool is_small = base::address_sanitizer || base::thread_sanitizer;
  return is_small ? std::min(wanted, sanitized) : wanted;
}

struct arena_options {
  std::string owner;         ///< begins texts: "device 'host:0'"
  std::size_t capacity = 0;  ///< sum of the bytes of all blocks handed out at one time
  std::string way_out;       ///< ends the text of out_of_memory
  fresh_content fresh = fresh_content::marked;
};

/// Any thread. The range is reserved at once and filled with memory as blocks need it. With the
/// address sanitizer, memory outside of handed-out blocks must not be touched.
class arena {
 public:
  static constexpr std::size_t alignment = 256;

  /// `unavailable` where the address range cannot be reserved.
  [[nodiscard]] static result<std::unique_ptr<arena>> reserve(arena_options options) noexcept;
  ~arena();
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// Zero bytes give null. `out_of_memory` beyond the capacity, with the sizes in the text.
  [[nodiscard]] result<void*> take(std::size_t bytes) noexcept;

  /// The owner gives a block up: from now on `take_back` may be called, once. `invalid_value`, and
  /// nothing changed, for what is no block of that size or was given up before.
  status give_up(void* block, std::size_t bytes) noexcept;
  /// Undoes `give_up`.
  void keep(void* block) noexcept;
  /// The memory of a block that was given up can be handed out again.
  void take_back(void* block) noexcept;

  [[nodiscard]] bool owns(const byte_span& span) const noexcept {
    return span.first >= first_ && span.past <= first_ + reserved_;
  }
  [[nodiscard]] bool meets(const byte_span& span) const noexcept {
    return span.meets({first_, first_ + reserved_});
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return options_.capacity; }
  [[nodiscard]] std::size_t used() const noexcept;

 private:
  struct live_block {
    std::size_t bytes = 0;
    bool given_up = false;
  };
  using offset = std::size_t;

  arena(arena_options options, std::uintptr_t first, std::size_t reserved);
  [[nodiscard]] result<void*> take_locked(std::size_t bytes);
  [[nodiscard]] status no_room(std::size_t bytes) const;
  [[nodiscard]] bool commit(offset end) noexcept;
  void add_free(offset at, std::size_t bytes);
  void remove_free(offset at, std::size_t bytes);
  void free_range(offset at, std::size_t bytes);
  [[nodiscard]] void* address(offset at) const noexcept;
  [[nodiscard]] offset offset_of(const void* block) const noexcept;

  const arena_options options_;
  const std::uintptr_t first_;
  const std::size_t reserved_;

  mutable std::mutex mutex_;  // guards the members below; innermost
  std::pmr::unsynchronized_pool_resource nodes_;
  std::pmr::map<offset, std::size_t> free_by_offset_{&nodes_};
  std::pmr::set<std::pair<std::size_t, offset>> free_by_size_{&nodes_};
  std::pmr::map<offset, live_block> live_{&nodes_};
  std::size_t committed_ = 0;  // memory behind the range, from its start
  std::size_t used_ = 0;
  std::size_t given_up_ = 0;  // part of used_ that comes back by itself
};

}  // namespace millstream::backend
