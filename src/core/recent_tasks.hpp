// SPDX-License-Identifier: Apache-2.0
/// The names of the tasks that were queued for devices last.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/cache_line.hpp"
#include "core/completion.hpp"
#include "core/lanes.hpp"
#include "core/plan.hpp"

namespace millstream::core {

/// Kept so that a device that fails, or refuses what was recorded, can be told with the tasks.
/// Under the context's lock. Allocates nothing until it is asked.
class recent_tasks {
 public:
  /// The task was queued and ends there.
  void note(const plan& of, completion end) noexcept;
  /// "task 'a' (file:12)", "one of task 'a' (file:12), task 7 and 3 more": those that are not
  /// known to have ended, in order; empty if there is none.
  [[nodiscard]] std::string unfinished(const lane_set& in) const;
  /// "task 'a' (file:12) to task 7" or "tasks up to task 7": the first and the last one that was
  /// recorded in that stage, as far as they are known; empty if there is none.
  [[nodiscard]] std::string of_stage(std::uint32_t stage) const;

 private:
  static constexpr std::size_t room = 64;
  static constexpr std::size_t longest_name = 31;
  static constexpr std::size_t most_listed = 4;
  /// In parts, so that it fills one line of the cache.
  struct entry {
    std::uint64_t id = 0;
    std::uint64_t end_sequence = 0;
    lane_index end_lane = no_lane;
    std::uint32_t line = 0;
    const char* file = nullptr;
    std::uint8_t length = 0;
    std::array<char, longest_name> name{};
  };
  static_assert(sizeof(entry) == base::cache_line);
  [[nodiscard]] static std::string text(const entry& of);

  std::uint64_t count_ = 0;  // so far; the newest is at (count_ - 1) % room
  std::array<entry, room> entries_;
};

}  // namespace millstream::core
