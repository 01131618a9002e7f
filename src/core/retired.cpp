// SPDX-License-Identifier: Apache-2.0
#include "core/retired.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/lanes.hpp"

namespace millstream::core {
namespace {

// More than one, so that they do not pile up where they end as fast as they come.
constexpr std::size_t some = 8;

}  // namespace

void retired_buffers::add(completion_set uses, std::shared_ptr<void> owner, const void* block,
                          std::size_t bytes, std::uint64_t since) {
  last_.remove_if(block, bytes, [&](place each) {
    if (each->bytes != bytes || each->number >= since) return false;
    each->is_last = false;
    if (each->owner == nullptr) all_.erase(each);
    return true;
  });
  all_.push_back({std::move(uses), std::move(owner), block, bytes, count_++, true});
  last_.add(block, bytes, std::prev(all_.end()));
}

completion_set retired_buffers::uses_of(const void* block, std::size_t bytes) const {
  completion_set found;
  last_.for_each_overlap(block, bytes, [&](place each) { found.add(each->uses); });
  return found;
}

completion_set retired_buffers::uses(const lane_set& lanes) const {
  completion_set found;
  for (const buffer& each : all_)
    found.add(lanes.settled(each.uses));
  return found;
}

void retired_buffers::collect_some(lane_set& lanes, owners& dropped) {
  collect(lanes, dropped, some);
}

void retired_buffers::collect(lane_set& lanes, owners& dropped) {
  collect(lanes, dropped, all_.size());
}

void retired_buffers::collect(lane_set& lanes, owners& dropped, std::size_t most) {
  for (std::size_t left = std::min(most, all_.size()); left > 0; --left) {
    const place first = all_.begin();
    lanes.poll(first->uses);
    if (!lanes.are_done(first->uses)) {
      all_.splice(all_.end(), all_, first);
      continue;
    }
    dropped.push_back(std::move(first->owner));
    forget(first);
  }
}

void retired_buffers::forget(place which) noexcept {
  if (which->is_last) {
    last_.remove_if(which->block, which->bytes, [&](place each) { return each == which; });
  }
  all_.erase(which);
}

void retired_buffers::take(owners& dropped) {
  for (buffer& each : all_)
    dropped.push_back(std::move(each.owner));
  last_.clear();
  all_.clear();
}

}  // namespace millstream::core
