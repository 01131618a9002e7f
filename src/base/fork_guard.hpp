// SPDX-License-Identifier: Apache-2.0
/// Whether this process can still use the machines that were opened in it.
#pragma once

#include <atomic>
#include <cstdint>

namespace millstream::base {

namespace detail {
// Together, so that each use of the library looks at one place.
inline constexpr std::uint8_t forked_bit = 1;
inline constexpr std::uint8_t shut_down_bit = 2;
extern std::atomic<std::uint8_t> process_end;
}  // namespace detail

/// Called by whoever opens a machine, before it is opened. Any thread.
void note_machine_opened() noexcept;

/// True in a process that was forked from one that had opened a machine: the machine's threads and
/// device state did not come along, so every use of it must answer `unavailable`. One load.
[[nodiscard]] inline bool forked_child() noexcept {
  return (detail::process_end.load(std::memory_order_relaxed) & detail::forked_bit) != 0;
}

/// From now on the library is not used any more, because the process is ending.
void mark_shut_down() noexcept;
[[nodiscard]] inline bool is_shut_down() noexcept {
  return (detail::process_end.load(std::memory_order_relaxed) & detail::shut_down_bit) != 0;
}

/// Neither of them. One load.
[[nodiscard]] inline bool is_usable() noexcept {
  return detail::process_end.load(std::memory_order_relaxed) == 0;
}

}  // namespace millstream::base
