// SPDX-License-Identifier: Apache-2.0
#include "backend/host/lane_pool.hpp"

#include <new>
#include <utility>

namespace millstream::backend::host {
lane_pool::lane_ref lane_pool::take(int place, const std::function<lane_ref()>& make) noexcept {
  const std::scoped_lock hold(mutex_);
  if (closed_) return nullptr;
  try {
    if (free_.size() <= slot_of(place)) free_.resize(slot_of(place) + 1);
    auto& mine = free_[slot_of(place)];
    if (mine.empty()) return make();
    lane_ref found = std::move(mine.back());
    mine.pop_back();
    return found;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void lane_pool::give_back(int place, const lane_ref& used) noexcept {
  const std::scoped_lock hold(mutex_);
  try {
    if (!closed_) {
      free_[slot_of(place)].push_back(used);
      return;
    }
  } catch (const std::bad_alloc&) {
    // Closed below.
  }
  used->close();
}

void lane_pool::close() noexcept {
  const std::scoped_lock hold(mutex_);
  closed_ = true;
  for (auto& place : free_) {
    for (const lane_ref& each : place)
      each->close();
    place.clear();
  }
}

}  // namespace millstream::backend::host
