// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/event.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "backend/cuda/state.hpp"
#include "backend/guarded.hpp"

namespace millstream::backend::cuda {
namespace {

using std::chrono::microseconds;

/// Pauses between two looks at a mark. A sleep of a few microseconds takes more than fifty, so a
/// wait that is over soon only lets others run, and one that lasts sleeps a small part of the time
/// it has lasted already.
class patience {
 public:
  void rest() noexcept {
    if (++looks_ < busy_looks) return;
    const auto waited = std::chrono::steady_clock::now() - begin_;
    if (waited < sleepless) {
      std::this_thread::yield();
      return;
    }
    const auto pause = std::chrono::duration_cast<microseconds>(waited) / 16;
    std::this_thread::sleep_for(std::min(pause, longest));
  }

 private:
  static constexpr int busy_looks = 16;
  static constexpr microseconds sleepless{500};
  static constexpr microseconds longest{100};
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int looks_ = 0;
};

/// Beyond a year the limit could leave the range of the clock, and means "none" anyway.
time_limit limit_after(std::chrono::milliseconds wait) noexcept {
  constexpr std::chrono::hours year{24 * 365};
  return wait > year ? no_limit : std::chrono::steady_clock::now() + wait;
}

status captured_status() noexcept {
  return failure(errc::usage, "a mark",
                 "that was recorded under stream capture has no time of its own; wait for the "
                 "launch of the graph instead");
}

/// In the device's context. Legal under capture of other streams.
result<bool> ask(const raw_event& what) {
  const abi::result answer = what.on.api()->cuEventQuery(what.handle);
  if (answer == abi::result::not_ready) return false;
  if (status failed = what.on.check("reach a mark in a queue", answer); !failed) return failed;
  return true;
}

/// Asks until the answer is not "no" or the limit is over; a limit in the past asks once.
result<bool> ask_until(const raw_event& what, time_limit limit) {
  if (status refused = what.on.open(); !refused) return refused;
  const context_guard in(what.on.api(), what.on.context());
  const relaxed_capture allowed(what.on.api());
  patience between;
  for (;;) {
    result<bool> passed = ask(what);
    if (!passed || passed.value()) return passed;
    if (limit != no_limit && std::chrono::steady_clock::now() >= limit) return false;
    between.rest();
  }
}

result<bool> with_fault(const mark& what, bool passed) {
  if (!passed || what.fault == nullptr) return passed;
  if (status failed = what.fault->take(); !failed) return failed;
  return true;
}

}  // namespace

result<std::shared_ptr<raw_event>> raw_event::make(device_state& on) {
  const auto alone = on.enter_home();
  const context_guard in(on.api(), on.stream_context());
  const relaxed_capture allowed(on.api());
  constexpr auto flags = abi::event_flags::disable_timing;
  abi::event made = nullptr;
  if (status failed = on.check("make an event", on.api()->cuEventCreate(&made, flags)); !failed) {
    return failed;
  }
  return std::make_shared<raw_event>(on.root(), on.stream_context(), made);
}

raw_event::~raw_event() {
  if (base::forked_child()) return;
  const context_guard in(on.api(), on.context());
  on.api()->cuEventDestroy(handle);
}

void late_fault::note(status why) noexcept {
  const std::scoped_lock hold(mutex_);
  if (first_) first_ = std::move(why);
}

status late_fault::take() noexcept {
  const std::scoped_lock hold(mutex_);
  return std::exchange(first_, status{});
}

result<bool> is_passed(const mark& what) {
  if (what.captured) return captured_status();
  if (what.behind != nullptr) return with_fault(what, what.behind->poll(what.position));
  return what.raw == nullptr ? result<bool>(true) : ask_until(*what.raw, time_limit::min());
}

result<bool> wait_until(const mark& what, time_limit limit) {
  if (what.captured) return captured_status();
  if (what.behind != nullptr) {
    return with_fault(what, what.behind->wait_until(what.position, limit));
  }
  return what.raw == nullptr ? result<bool>(true) : ask_until(*what.raw, limit);
}

event::event(std::shared_ptr<machine_state> machine, std::string who)
    : machine_(std::move(machine)), who_(std::move(who)), alive_(machine_->live) {}

result<bool> event::is_done() {
  if (status refused = machine_->gate.pass(call::query, who_); !refused) return refused;
  return guarded(who_, [&] { return is_passed(last()); });
}

result<bool> event::wait_for(std::chrono::milliseconds limit) {
  if (status refused = machine_->gate.pass(call::host_wait, who_); !refused) return refused;
  return guarded(who_, [&] { return wait_until(last(), limit_after(limit)); });
}

result<std::shared_ptr<raw_event>> event::claim(device_state& on) {
  {
    const std::scoped_lock hold(mutex_);
    // With another reference somebody polls it: a later record would move the mark under them.
    const bool fits = mark_.raw != nullptr && mark_.raw->home == on.stream_context() &&
                      mark_.raw.use_count() == 1;
    if (fits) return mark_.raw;
  }
  return raw_event::make(on);
}

void event::set(mark now, std::shared_ptr<void> kept) noexcept {
  {
    const std::scoped_lock hold(mutex_);
    std::swap(mark_, now);
    std::swap(kept_, kept);
  }
  now = {};  // what was there ends after the lock, and before what kept it alive
}

std::optional<abi::result> event::renew(const device_state& on, abi::stream tail,
                                        bool captured) noexcept {
  const std::scoped_lock hold(mutex_);
  if (mark_.raw == nullptr || mark_.raw->home != on.stream_context() ||
      mark_.raw.use_count() != 1) {
    return std::nullopt;
  }
  const abi::result answer = on.api()->cuEventRecord(mark_.raw->handle, tail);
  if (answer == abi::result::success) mark_.captured = captured;
  return answer;
}

mark event::last() const noexcept {
  const std::scoped_lock hold(mutex_);
  return mark_;
}

}  // namespace millstream::backend::cuda
