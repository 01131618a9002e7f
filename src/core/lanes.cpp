// SPDX-License-Identifier: Apache-2.0
#include "core/lanes.hpp"

#include <algorithm>
#include <utility>

#include <millstream/error.hpp>

#include "backend/missing.hpp"
#include "base/fork_guard.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "core/notifier.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {
namespace {

// So many take turns on the host side before it matters whether one is idle.
constexpr std::size_t host_lanes = 8;
constexpr std::uint8_t most_unused_marks = 4;
// Each may have a thread. Up to here host functions, and the copies that must not come behind them,
// come behind nothing that they have nothing to do with.
constexpr std::size_t most_host_lanes = 512;

void merge(std::vector<std::uint64_t>& into, const std::vector<std::uint64_t>& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}

void raise_to(std::vector<std::uint64_t>& clock, lane_index lane, std::uint64_t sequence) {
  if (clock.size() <= lane) clock.resize(std::size_t{lane} + 1, 0);
  clock[lane] = std::max(clock[lane], sequence);
}

}  // namespace

void check(backend::status status) {
  if (!status.ok()) throw error(status.code(), status.text());
}

// Captures of the caller's take the launches in, but nothing of the bodies.
void lane_set::leave_recorder() noexcept {
  const bool is_open = recorder_ != nullptr && launch_lane_ != no_lane &&
                       lanes_[launch_lane_]->lease.queue != nullptr;
  if (!is_open || is_recorded_ || base::forked_child() || has_waits(launch_lane_)) return;
  try {
    recorder_->leave_streams(queue(launch_lane_));
  } catch (const error& broken) {
    base::log(base::log_level::debug, base::cat("streams of bodies: ", broken.what()));
  }
}

void lane_set::close() noexcept {
  leave_recorder();
  pools_.clear();  // what comes later gets lanes of its own
  if (base::forked_child()) {
    [[maybe_unused]] const auto* const entry = entry_.release();
  } else if (entry_ != nullptr) {
    machine_.give_back(std::move(entry_));
  }
  for (auto& each : lanes_) {
    if (each->lease.queue == nullptr) continue;
    if (std::exchange(each->parked, false)) machine_.unpark();
    if (base::forked_child()) {
      [[maybe_unused]] const auto* const queue = each->lease.queue.release();
      [[maybe_unused]] const auto* const mark = each->lease.mark.release();
    } else if (each->foreign) {
      each->lease = {};  // the user may end the stream now
    } else {
      each->lease.recorded = is_recorded_;
      each->lease.busy = is_behind_host_function(static_cast<lane_index>(&each - lanes_.data()));
      machine_.give_back(each->place, std::move(each->lease));
    }
  }
}

void lane_set::leave_leases(held_leases& to) {
  for (auto& each : lanes_) {
    if (each->foreign || each->place == host_place) continue;
    if (std::exchange(each->parked, false)) machine_.unpark();
    each->lease.recorded = true;
    to.add(each->place, std::move(each->lease));
  }
  if (recorder_ != nullptr) recorder_->leave_streams(to);
}

// Whose mark is set then, so that the next context gets the queue after that.
bool lane_set::is_behind_host_function(lane_index of) noexcept {
  if (is_recorded_) return false;
  const bool may_wait = lanes_[of]->place == host_place ||
                        (!machine_.has(backend::capability::runs_jobs) && has_waits(of));
  return may_wait && !is_idle(of) && set_mark(of).ok();
}

lane_set::place_pool& lane_set::pool_of(place_index place) {
  for (place_pool& pool : pools_) {
    if (pool.place == place) return pool;
  }
  pools_.push_back({place, 0, {}});
  return pools_.back();
}

// A mark inside of a capture is passed by launches, which no thread of the host knows of.
lane_index lane_set::open(place_index place) {
  if (is_recorded_ && place == host_place) {
    throw error(errc::usage,
                "host functions cannot be a part of what the caller's stream is captured into; "
                "submit it before the capture begins or after it has ended, or add it to the "
                "stream yourself in a task of the device (cuLaunchHostFunc)");
  }
  auto lease = machine_.lease(place);
  if (!lease) check(lease.take_status());
  auto opened = std::make_unique<lane>();
  opened->lease = std::move(lease.value());
  opened->number = opened->lease.queue->handle();
  opened->place = place;
  lanes_.push_back(std::move(opened));
  const auto fresh = static_cast<lane_index>(lanes_.size() - 1);
  if (has_caller_) {
    // Nothing here may begin before what the caller's stream had in it; by this wait, tasks without
    // inputs too become part of a recording of that stream. It is an operation of the lane, so that
    // a lane with nothing else in it joins the stream again.
    if (!is_done({0, 1})) {
      check(queue(fresh).wait(*entry_));
      ++counts_.waits;
      raise_to(lanes_[fresh]->clock, 0, 1);
    }
    advance(fresh);
  }
  return fresh;
}

void lane_set::adopt_caller(std::uint64_t stream) {
  adopted_queue adopted = machine_.adopt(stream, /*one_thread=*/false);
  auto recorded = adopted.queue->is_capturing();
  if (!recorded) check(recorded.take_status());
  is_recorded_ = recorded.value();
  if (is_recorded_) check_may_take_part(stream);
  auto mark = machine_.at(adopted.place).make_event();
  if (!mark) check(mark.take_status());
  auto caller = std::make_unique<lane>();
  caller->lease = {std::move(adopted.queue), std::move(mark.value()), false, false};
  caller->number = caller->lease.queue->handle();
  caller->place = adopted.place;
  caller->foreign = true;
  lanes_.push_back(std::move(caller));
  pool_of(adopted.place).lanes.push_back(0);
  advance(0);  // everything that was in it before
  // An event of its own: the lane's mark may be set again, behind host functions.
  auto entry = machine_.take_event();
  if (!entry) check(entry.take_status());
  entry_ = std::move(entry.value());
  check(queue(0).record(*entry_));
  ++counts_.records;
  has_caller_ = true;
}

// The recording has to be found, and to keep what the context used.
void lane_set::check_may_take_part(std::uint64_t stream) const {
  for (const auto bit : {backend::capability::capture_to_graph, backend::capability::graphs}) {
    if (machine_.has(bit)) continue;
    check(backend::missing(base::cat("stream ", stream),
                           "have a context while it is being captured (open it when the capture "
                           "has ended)",
                           bit));
  }
}

completion lane_set::behind(std::uint64_t stream) {
  if (const lane_index own = find(stream); own != no_lane && lanes_[own]->place != host_place)
    return advance(own);
  const adopted_queue producer = machine_.adopt(stream, /*one_thread=*/true);
  auto recorded = producer.queue->is_capturing();
  if (!recorded) check(recorded.take_status());
  if (recorded.value() && !is_recorded_) {
    throw error(errc::usage,
                base::cat("stream ", stream,
                          " is being captured; open the context on it, so that it takes part"));
  }
  auto mark = machine_.take_event();
  if (!mark) check(mark.take_status());
  const lane_index follower = from_pool(producer.place);
  check(producer.queue->record(*mark.value()));
  check(queue(follower).wait(*mark.value()));
  machine_.give_back(std::move(mark.value()));
  return advance(follower);
}

void lane_set::join_into_caller() {
  completion_set all;
  for (lane_index i = 1; i < lanes_.size(); ++i)
    all.add(tail(i));
  if (is_held_up(all)) {
    leave_recorder();  // streams of bodies come behind the launches, not behind host functions
    park(0);
  }
  wait(0, all);
  advance(0);
}

completion_set lane_set::tails() const {
  completion_set all;
  for (lane_index i = 0; i < lanes_.size(); ++i)
    all.add(tail(i));
  return all;
}

// In turn, but not a parked one: what goes there would wait for host functions
// it does not need.
lane_index lane_set::from_pool(place_index place) {
  place_pool& pool = pool_of(place);
  if (place == host_place) return host_lane_in_turn();
  const int hint = machine_.at(place).queue_hint();
  for (std::size_t i = 0; i < pool.lanes.size(); ++i) {
    if (pool.lanes.size() < static_cast<std::size_t>(std::max(hint, 1))) break;
    pool.next = (pool.next + 1) % pool.lanes.size();
    if (!lanes_[pool.lanes[pool.next]]->parked) return pool.lanes[pool.next];
  }
  pool.lanes.push_back(open(place));
  return pool.lanes.back();
}

lane_index lane_set::host_lane_in_turn() {
  place_pool& pool = pool_of(host_place);
  if (pool.lanes.size() >= host_lanes) {
    if (const lane_index idle = find_idle_host_lane(); idle != no_lane) return idle;
  }
  if (pool.lanes.size() >= most_host_lanes) {
    pool.next = (pool.next + 1) % pool.lanes.size();
    return pool.lanes[pool.next];
  }
  pool.lanes.push_back(open(host_place));
  return pool.lanes.back();
}

lane_index lane_set::idle_host_lane() {
  const lane_index idle = find_idle_host_lane();
  return idle != no_lane ? idle : host_lane_in_turn();
}

lane_index lane_set::shared_host_lane() {
  if (const lane_index idle = find_idle_host_lane(); idle != no_lane) return idle;
  if (shared_.lanes.size() < host_lanes) {
    shared_.lanes.push_back(host_lane_in_turn());
    return shared_.lanes.back();
  }
  shared_.next = (shared_.next + 1) % shared_.lanes.size();
  return shared_.lanes[shared_.next];
}

// From the one that was taken longest ago, which is the likeliest.
lane_index lane_set::find_idle_host_lane() {
  place_pool& pool = pool_of(host_place);
  for (std::size_t i = 0; i < pool.lanes.size(); ++i) {
    pool.next = (pool.next + 1) % pool.lanes.size();
    if (is_idle(pool.lanes[pool.next])) return pool.lanes[pool.next];
  }
  return no_lane;
}

// A host function that has ended is known before its queue has counted it.
bool lane_set::is_idle(lane_index host) const noexcept {
  return is_done(tail(host)) || lanes_[host]->lease.queue->has_ended();
}

lane_index lane_set::newest_tail(place_index place, const completion_set& before) const {
  lane_index best = no_lane;
  for (const completion& each : before) {
    if (each.is_recorded()) continue;
    const lane& candidate = *lanes_[each.lane];
    if (candidate.place != place || candidate.tail != each.sequence || is_done(each)) continue;
    // The newest: completions are added last to first use, so a later entry of
    // a set is newer.
    best = each.lane;
  }
  return best;
}

bool lane_set::is_unfinished(lane_index host, std::uint64_t up_to) const noexcept {
  const lane& in = *lanes_[host];
  if (in.place != host_place) return false;
  const std::uint64_t ended = std::max(in.done, in.settled.load(std::memory_order_acquire));
  return std::min(up_to, in.last_job) > ended;
}

// Whether work behind this position waits for a host function. What the present stage waits for is
// looked at when it is launched.
bool lane_set::is_held_up(completion what) const noexcept {
  bool any = false;
  for_each_settled(what, [&](completion each) {
    if (each.is_recorded() || is_done(each)) return;
    any = any || is_unfinished(each.lane, each.sequence) || has_waits(each.lane);
  });
  return any;
}

// Whether the lane was told to wait for a host function that has not returned.
bool lane_set::has_waits(lane_index of) const noexcept {
  const std::vector<std::uint64_t>& clock = lanes_[of]->clock;
  for (lane_index i = 0; i < clock.size(); ++i) {
    if (clock[i] != 0 && is_unfinished(i, clock[i])) return true;
  }
  return false;
}

bool lane_set::is_any_noted_unfinished() const noexcept {
  return std::any_of(noted_.begin(), noted_.end(),
                     [&](lane_index each) { return is_unfinished(each, lanes_[each]->last_job); });
}

bool lane_set::is_any_held_up(const completion_set& what) const noexcept {
  return std::any_of(what.begin(), what.end(),
                     [&](const completion& each) { return is_held_up(each); });
}

// By what a lane waits for, not by its tail: a task that is open has not moved the tail yet.
void lane_set::unpark() noexcept {
  for (lane_index i = 0; i < lanes_.size(); ++i) {
    lane& each = *lanes_[i];
    if (!each.parked || has_waits(i)) continue;
    each.parked = false;
    --parked_;
    machine_.unpark();
  }
}

void lane_set::forget_settled() noexcept {
  std::erase_if(noted_, [&](lane_index each) {
    if (is_unfinished(each, lanes_[each]->last_job)) return false;
    lanes_[each]->noted = false;
    return true;
  });
}

bool lane_set::hand_over_parked() noexcept {
  if (!std::exchange(lanes_[0]->parked, false)) return false;
  --parked_;
  return true;
}

bool lane_set::has_unfinished_move() const noexcept {
  for (lane_index i = 0; i < lanes_.size(); ++i) {
    if (is_unfinished(i, lanes_[i]->last_move)) return true;
  }
  return false;
}

void lane_set::park(lane_index which) noexcept {
  if (std::exchange(lanes_[which]->parked, true)) return;
  ++parked_;
  machine_.park();
}

void lane_set::add_unfinished(completion what, completion_set& to) const {
  for_each_settled(what, [&](completion each) {
    if (each.is_recorded() || is_done(each)) return;
    if (is_unfinished(each.lane, each.sequence)) to.add(each);
    const std::vector<std::uint64_t>& clock = lanes_[each.lane]->clock;
    for (lane_index i = 0; i < clock.size(); ++i) {
      if (is_unfinished(i, clock[i])) to.add({i, clock[i]});
    }
  });
}

void lane_set::hold_back(const completion_set& before) const {
  completion_set behind;
  for (const completion& each : before)
    add_unfinished(each, behind);
  throw held_back(std::move(behind));
}

lane_index lane_set::parked_lane(place_index place, const completion_set& before) {
  if (current_job().owner == nullptr && !is_notifier_thread()) hold_back(before);
  for (const lane_index each : pool_of(place).lanes) {
    if (lanes_[each]->parked) return each;
  }
  const lane_index chosen = lane_without_open_task(place);
  park(chosen);
  return chosen;
}

// What an open task is yet to queue must not come after host functions that it does not need.
lane_index lane_set::lane_without_open_task(place_index place) {
  place_pool& pool = pool_of(place);
  for (const lane_index each : pool.lanes) {
    if (lanes_[each]->open == 0 && !lanes_[each]->foreign) return each;
  }
  pool.lanes.push_back(open(place));
  return pool.lanes.back();
}

lane_index lane_set::choose(place_index place, const completion_set& before) {
  const lane_index newest = newest_tail(place, before);
  if (place != host_place && parked_ > 0) unpark();
  if (holds_back(place, before)) return parked_lane(place, before);
  return newest != no_lane ? newest : from_pool(place);
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
  for_each_settled(what, [&](completion each) {
    if (each.is_past() || each.is_recorded()) return;
    lane& ended = *lanes_[each.lane];
    ended.done = std::max(ended.done, each.sequence);
    // Every lane begins behind what the caller's stream had in it.
    if (has_caller_) lanes_[0]->done = std::max<std::uint64_t>(lanes_[0]->done, 1);
  });
}

void lane_set::poll(const completion_set& what) {
  const auto look = [&](completion each) {
    if (each.is_past() || each.is_recorded()) return;
    lane& asked = *lanes_[each.lane];
    if (is_done(each) || asked.recorded < each.sequence) return;
    auto passed = asked.lease.mark->is_done();
    if (passed && passed.value()) note_done({each.lane, asked.recorded});
  };
  for (const completion& each : what)
    for_each_settled(each, look);
}

void lane_set::wait(lane_index waiter, completion what) {
  if (recorder_ != nullptr) {
    if (const completion_set* before = given_up(what)) return wait(waiter, *before);
    what = settled(what);
    if (is_recorded_lane(waiter)) {
      wait_recorded(waiter, what);
      return;
    }
    if (what.is_recorded()) {
      throw error(errc::internal, "recorded work was waited for before its stage was launched");
    }
  }
  if (what.is_past() || what.lane == waiter) return;
  lane& waiting = *lanes_[waiter];
  if (waiting.comes_after(what) || is_done(what)) return;
  lane& producer = *lanes_[what.lane];
  mark_before_wait(waiter);
  if (producer.recorded < what.sequence) {
    // What the lane waits for since then would have been avoided.
    if (producer.waited >= what.sequence) producer.early_marks = most_unused_marks;
    record(what.lane);
  } else if (producer.early_marks > 0) {
    producer.early_marks = most_unused_marks;
  }
  check(waiting.lease.queue->wait(*producer.lease.mark));
  waiting.waited = waiting.tail;
  ++counts_.waits;
  merge(waiting.clock, producer.recorded_clock);
  raise_to(waiting.clock, what.lane, producer.recorded);
}

void lane_set::mark_before_wait(lane_index waiter) {
  lane& waiting = *lanes_[waiter];
  if (waiting.early_marks == 0 || waiting.recorded == waiting.tail) return;
  if (is_done(tail(waiter))) return;
  --waiting.early_marks;
  record(waiter);
}

void lane_set::record(lane_index on) {
  if (is_recorded_lane(on)) return;
  if (lanes_[on]->recorded == lanes_[on]->tail) return;
  check(set_mark(on));
  ++counts_.records;
}

void lane_set::poll_host_ends() {
  completion_set noted;
  for (const lane_index each : noted_)
    noted.add({each, lanes_[each]->last_job});
  poll(noted);
}

// Without the mark, whoever waits for the lane sets one.
void lane_set::mark_host_end(lane_index on) {
  (void)set_mark(on);
  lane& marked = *lanes_[on];
  if (!std::exchange(marked.noted, true)) noted_.push_back(on);
  marked.last_job = marked.tail;
}

backend::status lane_set::set_mark(lane_index on) {
  lane& marked = *lanes_[on];
  backend::status set = marked.lease.queue->record(*marked.lease.mark);
  if (!set) return set;
  marked.recorded = marked.tail;
  marked.recorded_clock = marked.clock;
  return set;
}

}  // namespace millstream::core
