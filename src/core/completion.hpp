// SPDX-License-Identifier: Apache-2.0
/// Positions in queues: how the engine says "after that".
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/small_vector.hpp"

namespace millstream::core {

/// Number of a lane (a leased queue) of one context.
using lane_index = std::uint32_t;
inline constexpr lane_index no_lane = ~lane_index{0};
/// Lanes from this number on are recorded (recorder.hpp): each belongs to one task or copy.
inline constexpr lane_index first_recorded_lane = lane_index{1} << 30U;

/// "When the operation number `sequence` of that lane has ended." The default
/// value is something that ended long ago.
struct completion {
  lane_index lane = no_lane;
  std::uint64_t sequence = 0;

  [[nodiscard]] bool is_past() const noexcept { return lane == no_lane; }
  [[nodiscard]] bool is_recorded() const noexcept {
    return lane >= first_recorded_lane && lane != no_lane;
  }
  /// Of a recorded one: the number of the stage it belongs to.
  [[nodiscard]] std::uint32_t stage() const noexcept {
    return static_cast<std::uint32_t>(sequence >> 32U);
  }
  friend bool operator==(const completion&, const completion&) noexcept = default;
};
static_assert(sizeof(completion) == 16);

/// What has to end before something may begin: per lane the highest sequence,
/// so that a set is pruned by construction and never longer than the number of
/// lanes. Recorded lanes are one for each use, so that they are not searched for: there the set is
/// a list, which may name a lane twice.
class completion_set {
 public:
  void add(completion what) {
    if (what.is_past()) return;
    if (what.is_recorded()) {
      add_recorded(what);
      return;
    }
    for (completion& held : held_) {
      if (held.lane != what.lane) continue;
      if (held.sequence < what.sequence) held.sequence = what.sequence;
      return;
    }
    held_.push_back(what);
  }
  void add(const completion_set& other) {
    for (const completion& what : other)
      add(what);
  }
  void clear() noexcept { held_.clear(); }

  [[nodiscard]] bool empty() const noexcept { return held_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return held_.size(); }
  [[nodiscard]] const completion* begin() const noexcept { return held_.begin(); }
  [[nodiscard]] const completion* end() const noexcept { return held_.end(); }

 private:
  [[gnu::noinline]] void add_recorded(completion what) {
    if (!held_.empty() && held_.back().lane == what.lane) {
      held_.back().sequence = std::max(held_.back().sequence, what.sequence);
    } else {
      held_.push_back(what);
    }
  }
  base::small_vector<completion, 2> held_;
};

}  // namespace millstream::core
