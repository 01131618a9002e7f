// SPDX-License-Identifier: Apache-2.0
#include "core/lanes.hpp"

#include <algorithm>
#include <utility>

#include <millstream/error.hpp>

#include "base/fork_guard.hpp"

namespace millstream::core {
namespace {

// Host functions may take long, so they get more lanes than a device, which keeps itself busy.
constexpr int host_lanes = 8;

void merge(std::vector<std::uint64_t>& into, const std::vector<std::uint64_t>& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}

void raise_to(std::vector<std::uint64_t>& clock, lane_index lane, std::uint64_t sequence) {
  if (clock.size() <= lane) clock.resize(std::size_t{lane} + 1, 0);
  clock[lane] = std::max(clock[lane], sequence);
}

bool covers(const std::vector<std::uint64_t>& clock, completion what) {
  return what.lane < clock.size() && clock[what.lane] >= what.sequence;
}

}  // namespace

void check(backend::status status) {
  if (!status.ok()) throw error(status.code(), status.text());
}

void lane_set::close() noexcept {
  for (auto& each : lanes_) {
    if (each->lease.queue == nullptr) continue;
    if (base::forked_child()) {
      (void)each->lease.queue.release();
      (void)each->lease.mark.release();
    } else {
      machine_.give_back(each->place, std::move(each->lease));
    }
  }
}

lane_set::place_pool& lane_set::pool_of(place_index place) {
  for (place_pool& pool : pools_) {
    if (pool.place == place) return pool;
  }
  pools_.push_back({place, 0, {}});
  return pools_.back();
}

lane_index lane_set::open(place_index place) {
  auto lease = machine_.lease(place);
  if (!lease) check(lease.take_status());
  auto opened = std::make_unique<lane>();
  opened->lease = std::move(lease.value());
  opened->place = place;
  lanes_.push_back(std::move(opened));
  return static_cast<lane_index>(lanes_.size() - 1);
}

lane_index lane_set::from_pool(place_index place) {
  place_pool& pool = pool_of(place);
  const int hint = place == host_place ? host_lanes : machine_.at(place).queue_hint();
  if (pool.lanes.size() < static_cast<std::size_t>(std::max(hint, 1))) {
    pool.lanes.push_back(open(place));
    return pool.lanes.back();
  }
  pool.next = (pool.next + 1) % pool.lanes.size();
  return pool.lanes[pool.next];
}

lane_index lane_set::choose(place_index place, const completion_set& before) {
  lane_index best = no_lane;
  for (const completion& each : before) {
    const lane& candidate = *lanes_[each.lane];
    if (candidate.place != place || candidate.tail != each.sequence) continue;
    if (candidate.done >= each.sequence) continue;
    // The newest: completions are added last to first use, so a later entry of a set is newer.
    best = each.lane;
  }
  return best != no_lane ? best : from_pool(place);
}

lane_index lane_set::find(std::uint64_t handle) const noexcept {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const backend::queue* const queue = lanes_[i]->lease.queue.get();
    if (queue != nullptr && queue->handle() == handle) return static_cast<lane_index>(i);
  }
  return no_lane;
}

bool lane_set::are_done(const completion_set& what) const noexcept {
  return std::all_of(what.begin(), what.end(),
                     [&](const completion& each) { return is_done(each); });
}

void lane_set::note_done(completion what) noexcept {
  if (what.is_past()) return;
  lane& ended = *lanes_[what.lane];
  ended.done = std::max(ended.done, what.sequence);
}

void lane_set::poll(const completion_set& what) {
  for (const completion& each : what) {
    lane& asked = *lanes_[each.lane];
    if (is_done(each) || asked.recorded < each.sequence) continue;
    auto passed = asked.lease.mark->is_done();
    if (passed && passed.value()) {
      note_done({each.lane, asked.recorded});
    }
  }
}

void lane_set::wait(lane_index waiter, completion what) {
  if (what.is_past() || what.lane == waiter || is_done(what)) return;
  lane& waiting = *lanes_[waiter];
  if (covers(waiting.clock, what)) return;
  lane& producer = *lanes_[what.lane];
  if (producer.recorded < what.sequence) record(what.lane);
  check(waiting.lease.queue->wait(*producer.lease.mark));
  ++counts_.waits;
  merge(waiting.clock, producer.recorded_clock);
  raise_to(waiting.clock, what.lane, producer.recorded);
}

void lane_set::record(lane_index on) {
  lane& marked = *lanes_[on];
  if (marked.recorded == marked.tail) return;
  check(marked.lease.queue->record(*marked.lease.mark));
  ++counts_.records;
  marked.recorded = marked.tail;
  marked.recorded_clock = marked.clock;
}

void lane_set::join_all(lane_index waiter) {
  for (lane_index i = 0; i < lanes_.size(); ++i)
    wait(waiter, tail(i));
}

}  // namespace millstream::core
