// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/engine.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

namespace fake_cuda {

namespace {

using millstream::backend::cuda::abi::result;

// Words of memory change without a notice, so parked operations are looked at this often.
constexpr std::chrono::microseconds look_again{100};

// Under a seed the streams have random ranks, and the ranks change now and then: that finds orders
// that fair drawing does not (one stream far ahead of the others).
constexpr std::uint64_t turns_per_epoch = 16;
constexpr std::uint64_t one_in_fair = 4;

std::uint64_t mix(std::uint64_t word) noexcept {
  word = (word ^ (word >> 30U)) * 0xbf58476d1ce4e5b9U;
  word = (word ^ (word >> 27U)) * 0x94d049bb133111ebU;
  return word ^ (word >> 31U);
}

}  // namespace

void engine::seed(std::uint64_t number) {
  seed_ = number;
  epoch_ = 0;
  submitted_ = 0;
  lanes_.clear();
  random_ = millstream::base::random_source(number);
}

// Numbers count from the seeding, so that the same seed and calls give the same order again.
std::uint64_t engine::rank_of(const operation& what) {
  ++submitted_;
  if (what.lane == 0) return ~submitted_;
  return lanes_.emplace(what.lane, lanes_.size()).first->second;
}

void engine::submit(const op_ptr& what) {
  what->phase_ = operation::phase::blocked;
  what->rank_ = rank_of(*what);
  for (op_ptr& one : what->after) {
    if (one == nullptr || one->done()) continue;
    one->later_.push_back(what.get());
    what->earlier_.push_back(std::move(one));
    ++what->blockers_;
  }
  what->after.clear();
  pending_.insert(what);
  if (what->blockers_ == 0) unblock(*what);
  if (what->host_sees_it) hurry(what);
}

void engine::unblock(operation& what) {
  what.earlier_.clear();
  if (what.may_start && !what.may_start()) {
    what.phase_ = operation::phase::parked;
    parked_.push_back(&what);
    return;
  }
  what.phase_ = operation::phase::ready;
  ready_.push_back(&what);
}

void engine::look_at_parked() {
  // By index: the list may not be touched by may_start, but grows while others complete.
  for (std::size_t i = 0; i < parked_.size();) {
    operation* const one = parked_[i];
    if (!one->may_start()) {
      ++i;
      continue;
    }
    parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(i));
    one->phase_ = operation::phase::ready;
    ready_.push_back(one);
  }
}

std::size_t engine::held_up_streams(int device) const {
  std::set<std::uint64_t> lanes;
  std::vector<const operation*> open;
  std::set<const operation*> seen;
  for (const operation* one : parked_)
    if (one->device == device) open.push_back(one);
  while (!open.empty()) {
    const operation* const one = open.back();
    open.pop_back();
    if (!seen.insert(one).second) continue;
    if (one->lane != 0) lanes.insert(one->lane);
    for (const operation* next : one->later_)
      if (next->device == device) open.push_back(next);
  }
  return lanes.size();
}

bool engine::stalled(const operation& what) {
  if (park_limit_ == 0 || what.may_start) return false;
  return held_up_streams(what.device) > park_limit_;
}

std::size_t engine::draw(const std::vector<std::size_t>& among) {
  if (seed_ == 0) return among.front();
  if (random_.uniform(turns_per_epoch) == 0) ++epoch_;
  if (random_.uniform(one_in_fair) == 0) return among[random_.uniform(among.size())];
  const auto rank = [this](std::size_t index) {
    return mix(mix(ready_[index]->rank_ + seed_) + epoch_);
  };
  return *std::max_element(among.begin(), among.end(),
                           [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
}

std::optional<std::size_t> engine::choose(bool hurried_only) {
  std::vector<std::size_t> among;
  bool held_up = false;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (hurried_only && !ready_[i]->hurried_) continue;
    if (stalled(*ready_[i])) {
      held_up = true;
      continue;
    }
    among.push_back(i);
    if (seed_ == 0) break;
  }
  if (among.empty() && held_up) ++stalls_;
  if (among.empty()) return std::nullopt;
  return draw(among);
}

turn engine::take_turn(operation& what) {
  if (what.faults != nullptr && what.faults->sticky != result::success) {
    if (what.skipped) what.skipped();
    return turn::done;
  }
  try {
    return what.run ? what.run() : turn::done;
  } catch (const device_fault& fault) {
    last_fault_ = std::string(what.what) + ": " + fault.text;
    if (what.faults != nullptr) what.faults->sticky = fault.code;
    return turn::done;
  }
}

bool engine::step(bool hurried_only) {
  look_at_parked();
  const std::optional<std::size_t> index = choose(hurried_only);
  if (!index) return false;
  operation* const chosen = ready_[*index];
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(*index));
  chosen->phase_ = operation::phase::running;
  switch (take_turn(*chosen)) {
    case turn::done: complete(*chosen); return true;
    case turn::handed_over: return true;
    case turn::again:
      chosen->phase_ = operation::phase::ready;
      ready_.push_back(chosen);
      return true;
  }
  return true;
}

void engine::hurry(const op_ptr& what) {
  std::vector<operation*> open{what.get()};
  while (!open.empty()) {
    operation* const one = open.back();
    open.pop_back();
    if (one->done() || one->hurried_) continue;
    one->hurried_ = true;
    ++hurried_pending_;
    for (const op_ptr& earlier : one->earlier_)
      open.push_back(earlier.get());
  }
}

void engine::drop_parts(operation& what) {
  what.run = nullptr;
  what.may_start = nullptr;
  what.skipped = nullptr;
  what.earlier_.clear();
  what.later_.clear();
}

void engine::complete(operation& what) {
  what.phase_ = operation::phase::done;
  ++executed_;
  if (what.hurried_) --hurried_pending_;
  const std::vector<operation*> later = std::move(what.later_);
  drop_parts(what);
  for (operation* next : later)
    if (--next->blockers_ == 0) unblock(*next);
  changed_.notify_all();
  // Looked up through a pointer that owns nothing; the set's entry may be the last owner.
  const auto place = pending_.find(op_ptr(op_ptr(), &what));
  if (place != pending_.end()) pending_.erase(place);
}

void engine::pause(std::unique_lock<std::mutex>& hold) {
  // The system clock: the thread sanitizer of older compilers does not know waits by the other.
  changed_.wait_until(hold, std::chrono::system_clock::now() + look_again);
}

// By value: the stream whose tail it is may get another one while the mutex is let go.
void engine::finish(std::unique_lock<std::mutex>& hold, op_ptr what) {
  if (what == nullptr || what->done()) return;
  hurry(what);
  // Under a seed half of the waits run only what they need, which leaves the rest undone.
  const bool needed_only = seed_ != 0 && random_.uniform(2) == 0;
  while (!what->done()) {
    const std::uint64_t before = executed_;
    if (!step(needed_only)) {
      pause(hold);
    } else if (executed_ == before) {
      // Something spins or was handed over: others must get at the mutex.
      hold.unlock();
      std::this_thread::yield();
      hold.lock();
    }
  }
}

void engine::clear() {
  // What an operation captured may own the operation, by way of its stream.
  const std::vector<op_ptr> gone(pending_.begin(), pending_.end());
  for (const op_ptr& one : gone)
    drop_parts(*one);
  pending_.clear();
  ready_.clear();
  parked_.clear();
  hurried_pending_ = 0;
  stalls_ = 0;
  executed_ = 0;
  last_fault_.clear();
}

}  // namespace fake_cuda
