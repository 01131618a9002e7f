// SPDX-License-Identifier: Apache-2.0
/// Begin and end times by id, written by any thread without a lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <millstream/trace.hpp>

namespace millstream::trace {

/// When a task or copy ran.
struct stamp {
  std::uint64_t began_ns = 0;  ///< 0 = not yet
  std::uint64_t ended_ns = 0;  ///< 0 = not yet
  outcome how = outcome::done;
};

/// A table that grows and never moves: segment k has 2^(k+10) slots, so a handful of pointers
/// serves every id. `began` and `ended` cost a few stores and allocate only where they are the
/// first to touch a segment; any thread may call anything at any time. Ids are expected to be
/// dense; those near 2^40 and beyond are dropped. Running out of memory drops times, never the
/// program.
class stamp_table {
 public:
  stamp_table() = default;
  stamp_table(const stamp_table&) = delete;
  stamp_table& operator=(const stamp_table&) = delete;
  ~stamp_table();

  void began(std::uint64_t id, std::uint64_t at_ns) noexcept;
  void ended(std::uint64_t id, std::uint64_t at_ns, outcome how) noexcept;
  /// What is known so far; an end that is seen comes with its outcome and its begin.
  [[nodiscard]] stamp at(std::uint64_t id) const noexcept;

 private:
  struct slot {
    std::atomic<std::uint64_t> began_ns{0};
    std::atomic<std::uint64_t> ended_ns{0};
    std::atomic<outcome> how{outcome::done};
  };
  static constexpr std::size_t first_bits = 10;
  static constexpr std::size_t most_bits = 40;

  /// Where the slot of an id is: the id is shifted by the size of segment 0, so that its highest
  /// bit names the segment and the bits below it the slot.
  struct position {
    std::size_t segment;
    std::size_t offset;
    std::size_t size;
  };
  static position locate(std::uint64_t id) noexcept;
  static bool is_kept(std::uint64_t id) noexcept;

  slot* make(std::uint64_t id) noexcept;

  std::array<std::atomic<slot*>, most_bits - first_bits> segments_{};
};

}  // namespace millstream::trace
