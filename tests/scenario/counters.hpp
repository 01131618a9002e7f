// SPDX-License-Identifier: Apache-2.0
/// The counters of a context that `expect <name> N` can ask for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <millstream/untyped.hpp>

namespace millstream::scenario {

struct counter {
  std::string_view name;
  std::uint64_t context_stats::* value;
};

inline constexpr std::array<counter, 8> counters{{
    {"tasks", &context_stats::tasks},
    {"records", &context_stats::records},
    {"waits", &context_stats::waits},
    {"host_waits", &context_stats::host_waits},
    {"allocations", &context_stats::allocations},
    {"reused_blocks", &context_stats::reused_blocks},
    {"copied_bytes", &context_stats::copied_bytes},
    {"queues", &context_stats::queues},
}};

/// Null if there is no counter of this name.
[[nodiscard]] constexpr const counter* find_counter(std::string_view name) noexcept {
  for (const counter& one : counters) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

}  // namespace millstream::scenario
