// SPDX-License-Identifier: Apache-2.0
/// Memory whose allocation and freeing by the driver is slow and may block.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backend/cuda/event.hpp"
#include "backend/request.hpp"

namespace millstream::backend::cuda {

/// Takes large pieces from the driver, hands out parts of them, and keeps what comes back for the
/// next one; nothing returns to the driver before `close`. Any thread.
class block_cache {
 public:
  enum class kind : std::uint8_t { pinned, managed };
  static constexpr std::size_t alignment = 256;

  block_cache(machine_state& of, kind what) : of_(of), kind_(what) {}
  /// Frees all memory. Nobody may use it any more, queued work included.
  void close() noexcept;

  /// Null for zero bytes. Not null: `give` or `give_after` it once. May take the driver a while,
  /// and then waits for nothing but the driver's own locks.
  [[nodiscard]] result<void*> take(std::size_t bytes, const std::string& who);
  /// From now on anybody may have it.
  void give(void* block) noexcept;
  /// The same when the mark was passed; never, if it is a captured one, as the graph may be
  /// replayed.
  void give_after(void* block, mark last_use) noexcept;
  /// From now on no block that waits for its last use is given to anybody.
  void forget_last_uses() noexcept;

  /// Whether all of the span is memory of this cache.
  [[nodiscard]] bool owns(const byte_span& span) const noexcept;

 private:
  static constexpr std::size_t class_count = 13;  // 256 bytes to 1 MiB
  struct pending {
    void* block;
    mark last_use;
  };

  [[nodiscard]] void* take_free(std::size_t rounded);
  void add_free(void* block) noexcept;
  void sweep(std::size_t looks) noexcept;
  [[nodiscard]] result<void*> take_from_driver(std::size_t rounded, const std::string& who);
  [[nodiscard]] abi::result call_driver(void** block, std::size_t bytes) noexcept;

  machine_state& of_;
  const kind kind_;
  mutable std::mutex mutex_;  // guards the members below; the driver is only asked for marks
  std::map<std::uintptr_t, std::size_t> pieces_;
  std::unordered_map<void*, std::size_t> sizes_;  // of all blocks, in use or free
  std::array<std::vector<void*>, class_count> small_;
  std::multimap<std::size_t, void*> large_;
  std::deque<pending> pending_;
  bool forgets_ = false;
};

}  // namespace millstream::backend::cuda
