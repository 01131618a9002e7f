// SPDX-License-Identifier: Apache-2.0
#include "backend/host/launch.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/guarded.hpp"

namespace millstream::backend::host {
namespace {

// Host functions may wait for each other, so each that is ready gets a runner of its own, up to a
// number that is there for memory only.
constexpr std::size_t most_host_runners = 512;

}  // namespace

launch::launch(std::shared_ptr<machine_state> machine, std::shared_ptr<const plan> what,
               std::shared_ptr<launch> before)
    : machine_(std::move(machine)),
      what_(std::move(what)),
      missing_(what_->size()),
      taken_(what_->size(), false),
      left_(what_->size()),
      before_(std::move(before)) {
  starter_.of = this;
  for (index step = 0; step < missing_.size(); ++step)
    missing_[step] = what_->predecessors(step);
  make_stations();
}

// All memory that the launch needs, since nothing may fail once it is queued.
void launch::make_stations() {
  stations_.resize(machine_->memory.devices.size() + 1);
  std::vector<std::size_t> steps(stations_.size(), 0);
  for (index step = 0; step < missing_.size(); ++step)
    ++steps[slot_of(what_->place(step))];
  for (std::size_t slot = 0; slot < stations_.size(); ++slot) {
    station& made = stations_[slot];
    made.ready.reserve(steps[slot]);
    made.runners =
        std::min(steps[slot], slot == slot_of(-1) ? most_host_runners : machine_->node_lanes);
    made.all = std::make_unique<runner[]>(made.runners);
    for (std::size_t i = 0; i < made.runners; ++i) {
      made.all[i].of = this;
      made.all[i].place = static_cast<int>(slot) - 1;
    }
  }
}

status launch::queue_on(lane& on) {
  const auto self = std::static_pointer_cast<launch>(shared_from_this());
  std::array<operation, 3> all{wait_turn{before_, end}, job_turn{&starter_}, wait_turn{self, end}};
  const bool first = before_ == nullptr || before_->passed(end);
  return on.add_all(std::span(all).subspan(first ? 1 : 0));
}

status launch::add_all(std::span<operation> /*next*/) {
  return status(errc::internal);
}

bool launch::wait_until(std::uint64_t position, time_limit limit) noexcept {
  if (passed(position)) return true;  // without the mutex: the caller may hold the scheduler's
  std::unique_lock hold(mutex_);
  const auto done = [&] { return passed(position); };
  if (limit == no_limit) {
    passed_.wait(hold, done);
    return true;
  }
  return passed_.wait_until(hold, limit, done);
}

void launch::start() noexcept {
  const auto self = shared_from_this();
  bool empty = false;
  {
    const std::scoped_lock hold(mutex_);
    for (index step = 0; step < missing_.size(); ++step) {
      if (missing_[step] == 0) make_ready(step);
    }
    empty = left_ == 0;
  }
  if (empty) {
    all_done();
  } else {
    post_runners();
  }
}

void launch::make_ready(index step) noexcept {
  station_of(what_->place(step)).ready.push_back(step);
}

/// Under a seed any of those that are ready.
launch::index launch::take(station& from) noexcept {
  if (machine_->order != nullptr) {
    const std::size_t chosen = from.first + machine_->order->choose(from.waiting());
    std::swap(from.ready[from.first], from.ready[chosen]);
  }
  const index step = from.ready[from.first++];
  taken_[step] = true;
  return step;
}

void launch::serve(runner& by) noexcept {
  const auto self = std::move(by.keep);
  bool goes_on = true;
  while (goes_on) {
    index step = 0;
    {
      const std::scoped_lock hold(mutex_);
      if (dropped_) return;
      station& from = station_of(by.place);
      --from.posted;
      step = take(from);
    }
    if (!what_->is_empty(step)) {
      operation turn = what_->turn_of(step);
      carry_out(turn, false);
    }
    goes_on = finish(step, by);
    // Under a seed its lane is one among others after each step.
    if (goes_on && machine_->order != nullptr) goes_on = !post(by);
  }
}

void launch::count(index step) noexcept {
  --left_;
  if (dropped_) return;
  for (const index later : what_->successors(step)) {
    if (--missing_[later] == 0) make_ready(later);
  }
}

/// Whether the runner has another step to take.
bool launch::finish(index step, runner& by) noexcept {
  bool last = false;
  bool goes_on = false;
  {
    const std::scoped_lock hold(mutex_);
    count(step);
    last = left_ == 0;
    station& mine = station_of(by.place);
    goes_on = !dropped_ && mine.waiting() > mine.posted;
    by.busy = goes_on;
    if (goes_on) ++mine.posted;
  }
  if (last) {
    all_done();
  } else {
    post_runners();
  }
  return goes_on;
}

/// An idle runner for a step that has none yet. Each that was called finds a step, since the others
/// leave as many as there are runners on their way.
launch::runner* launch::call_runner() noexcept {
  const std::scoped_lock hold(mutex_);
  if (dropped_) return nullptr;
  for (station& each : stations_) {
    if (each.waiting() <= each.posted) continue;
    const std::span all(each.all.get(), each.runners);
    const auto idle =
        std::find_if(all.begin(), all.end(), [](const runner& one) { return !one.busy; });
    if (idle == all.end()) continue;
    idle->busy = true;
    ++each.posted;
    return &*idle;
  }
  return nullptr;
}

void launch::post_runners() noexcept {
  while (runner* called = call_runner()) {
    // Without a lane the thread that is here has to do.
    if (!post(*called)) serve(*called);
  }
}

/// Null without one, and when the launch was dropped while it was looked for: then its lanes go
/// back.
std::shared_ptr<lane> launch::lane_of(runner& one) noexcept {
  {
    const std::scoped_lock hold(mutex_);
    if (dropped_ || one.on != nullptr) return dropped_ ? nullptr : one.on;
  }
  auto leased = machine_->nodes.take(
      one.place, [&] { return make_lane(machine_, machine_->who_of(one.place)); });
  if (leased == nullptr) return nullptr;
  {
    const std::scoped_lock hold(mutex_);
    if (!dropped_) return one.on = std::move(leased);
  }
  machine_->nodes.give_back(one.place, leased);
  return nullptr;
}

bool launch::post(runner& one) noexcept {
  const std::shared_ptr<lane> on = lane_of(one);
  if (on == nullptr) return false;
  one.keep = std::static_pointer_cast<launch>(shared_from_this());
  if (on->add(job_turn{&one})) return true;
  one.keep = nullptr;
  return false;
}

void launch::drop() noexcept {
  const auto self = shared_from_this();
  discard_rest();
}

void launch::drop(runner& by) noexcept {
  const auto self = std::move(by.keep);
  discard_rest();
}

void launch::discard_rest() noexcept {
  {
    const std::scoped_lock hold(mutex_);
    if (std::exchange(dropped_, true)) return;
  }
  std::size_t discarded = 0;
  for (index step = 0; step < taken_.size(); ++step) {  // nobody takes one any more
    if (taken_[step]) continue;
    ++discarded;
    if (job* gone = what_->job_of(step)) gone->discard();
  }
  bool last = false;
  {
    const std::scoped_lock hold(mutex_);
    left_ -= discarded;
    last = left_ == 0;
  }
  if (last) all_done();
}

void launch::all_done() noexcept {
  return_lanes();
  // One that was discarded may be done before the one that it was not to overlap with.
  std::shared_ptr<launch> before;
  {
    const std::scoped_lock hold(mutex_);
    before = before_;
  }
  const auto self = std::static_pointer_cast<launch>(shared_from_this());
  if (before == nullptr || before->ended_or_then(self)) pass();
}

void launch::return_lanes() noexcept {
  for (station& each : stations_) {
    for (runner& one : std::span(each.all.get(), each.runners)) {
      std::shared_ptr<lane> used;
      {
        const std::scoped_lock hold(mutex_);
        used.swap(one.on);
      }
      if (used != nullptr) machine_->nodes.give_back(one.place, used);
    }
  }
}

bool launch::ended_or_then(std::shared_ptr<launch> later) noexcept {
  const std::scoped_lock hold(mutex_);
  if (passed(end)) return true;
  next_ = std::move(later);
  return false;
}

void launch::pass() noexcept {
  auto now = std::static_pointer_cast<launch>(shared_from_this());
  while (now != nullptr) {
    std::shared_ptr<launch> later;
    std::shared_ptr<launch> gone;
    {
      const std::scoped_lock hold(now->mutex_);
      now->done_.store(end, std::memory_order_release);
      later = std::move(now->next_);
      gone = std::move(now->before_);
    }
    now->passed_.notify_all();
    now = std::move(later);
  }
  if (machine_->order != nullptr) machine_->order->wake();
}

}  // namespace millstream::backend::host
