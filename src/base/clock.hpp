// SPDX-License-Identifier: Apache-2.0
/// The clock of traces and limits.
#pragma once

#include <chrono>
#include <cstdint>

namespace millstream::base {

/// Nanoseconds of a clock that never goes back; only differences mean something. Any thread.
[[nodiscard]] inline std::uint64_t now_ns() noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace millstream::base
