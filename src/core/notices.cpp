// SPDX-License-Identifier: Apache-2.0
/// A context's notices: what they wait for, the copies they bring, and that `finish` waits for
/// them.
#include "core/notifier.hpp"

#include <utility>

#include "base/text.hpp"
#include "core/blocking.hpp"
#include "core/context.hpp"
#include "core/late_copy.hpp"
#include "core/task_job.hpp"

namespace millstream::core {

/// What a thread that blocks for a notice waits for, kept when the notice was told.
struct notice_positions {
  std::vector<awaited_position> all;
};

struct blocked_thread {
  explicit blocked_thread(const notice_positions& what)
      : registered({}, what.all, deadlock_text(future_wait).c_str()) {}
  static constexpr host_wait_text future_wait{"waiting for a future",
                                              "wait after that body has ended"};
  wait_registration registered;
};

void context::check_not_recorded(const char* call) const {
  if (!lanes_.is_recorded()) return;
  throw error(errc::usage, base::cat(call,
                                     " is not possible while the caller's stream is being captured;"
                                     " call it after the capture has ended"));
}

notice_ticket context::notify(std::unique_ptr<notice> told) {
  check_process();
  check_outside_node(on(), "done");
  start_notifier();
  lock held(mutex_);
  check_takes_work(held, "done");
  check_not_recorded("done");
  close_stage(held, "done");
  pending_notice fresh;
  fresh.told = std::move(told);
  return watch(held, lanes_.tails(), std::move(fresh));
}

notice_ticket context::fetch(data& what, void* to, std::unique_ptr<notice> told) {
  start_notifier();
  what.add_handle();
  const task_dep dep{untyped_data::adopt(&what), access_mode::read, {}, {}};
  plan of = plan_of_wait(dep, "get");
  lock held(mutex_);
  check_takes_work(held, "get");
  check_not_recorded("get");
  const completion_set before = before_content(held, of);
  pending_notice fresh;
  fresh.told = std::move(told);
  fresh.what = &what;
  fresh.version = of.accesses[0].version;
  try {
    return watch(held, queue_fetch(what, fresh.version, to, before), std::move(fresh));
  } catch (...) {
    // A part of the copy may be queued, and the listener owns the memory it goes to.
    [[maybe_unused]] const auto* const left = fresh.told.release();
    throw;
  }
}

// The copy counts as a reader, so that who writes later waits for it.
completion_set context::queue_fetch(data& what, std::uint64_t version, void* to,
                                    const completion_set& before) {
  const instance* source = source_of(what, host_place);
  const bool spoiled = what.poison.find(version) != nullptr;
  if (spoiled || source == nullptr || what.bytes == 0 || to == nullptr) return before;
  completion_set content = before;
  content.add(source->ready);
  const lane_index on_lane = fetch_lane(lane_place(what.memory_of(source->place)), content);
  lanes_.wait(on_lane, content);
  completion_set copied;
  copied.add(copy(what, *source, to, host_place, on_lane, copy_reason::read_back, 0, nullptr));
  what.readers.add(copied);
  if (lanes_.place_of(on_lane) == host_place && has_late_copies(on())) {
    // The future finds the version poisoned.
    check(poison_if_copy_fails(lanes_.queue(on_lane), what, copy_reason::read_back, last_task_));
  }
  return copied;
}

// Not behind a host function that has nothing to do with it, which may take long.
lane_index context::fetch_lane(place_index place, const completion_set& before) {
  if (place != host_place && !on().has(backend::capability::runs_jobs)) {
    try {
      return lanes_.choose(place, before);
    } catch (const held_back&) {
      place = host_place;
    }
  }
  const lane_index behind = lanes_.newest_tail(place, before);
  return behind != no_lane ? behind : lanes_.shared_host_lane();
}

notice_ticket context::watch(const lock& held, const completion_set& asked,
                             pending_notice&& fresh) {
  (void)held;
  const completion_set what = lanes_.settled(asked);
  auto positions = std::make_shared<notice_positions>();
  for (const completion& each : what) {
    if (lanes_.is_done(each)) continue;
    fresh.marks.push_back({take_event(), lanes_.tail(each.lane)});
    check(lanes_.queue(each.lane).record(*fresh.marks.back().event));
    positions->all.push_back({this, fresh.marks.back().reached});
    const std::vector<std::uint64_t>& clock = lanes_.at(each.lane).clock;
    for (lane_index i = 0; i < clock.size(); ++i)
      positions->all.push_back({this, {i, clock[i]}});
  }
  fresh.in = shared_from_this();
  fresh.last_task = last_task_;
  if (fresh.what != nullptr) fresh.what->add_reference();
  add_notice(std::move(fresh));
  ++notices_;
  return notice_ticket(std::move(positions));
}

notice_outcome context::settle(pending_notice& ended, std::exception_ptr broken) noexcept {
  notice_outcome how;
  how.last_task = ended.last_task;
  how.why = std::move(broken);
  std::string name;
  failed_task* because = nullptr;
  {
    const lock held(mutex_);
    for (host_wait& each : ended.marks) {
      if (how.why == nullptr) lanes_.note_done(each.reached);
      events_.push_back(std::move(each.event));
    }
    if (ended.what != nullptr && how.why == nullptr) {
      because = ended.what->poison.find(ended.version);
      name = ended.what->name();
    }
  }
  ended.marks.clear();
  if (because == nullptr) return how;
  how.failed_task = because->task_id;
  try {
    throw_poisoned("get", name, *because);
  } catch (...) {
    how.why = std::current_exception();
  }
  return how;
}

void context::count_notice_told() noexcept {
  const lock held(mutex_);
  --notices_;
  notices_changed_.notify_all();
}

void context::check_may_await_notices() const {
  if (notices_ == 0 || !is_notifier_thread()) return;
  throw error(errc::deadlock,
              "finalize was called inside a callback of a future, and futures of the context "
              "complete only after that; call it after the callback has returned");
}

// False if there were none. Listeners may submit, so that lanes have to be looked at again.
bool context::await_notices(lock& held) {
  if (notices_ == 0) return false;
  check_may_await_notices();
  held.unlock();
  bool interrupted = false;
  {
    const blocking_section blocking;
    for (bool told = false; !told && !interrupted;) {
      {
        lock again(mutex_);
        told = notices_changed_.wait_for(again, wait_slice, [&] { return notices_ == 0; });
      }
      interrupted = !told && blocking.is_interrupted();
    }
  }
  held.lock();
  if (interrupted) throw error(errc::interrupted, "the wait was interrupted; the context goes on");
  return true;
}

}  // namespace millstream::core

namespace millstream::inline v1 {

notice_wait::notice_wait(const notice_ticket& what) {
  core::check_process();
  if (core::is_notifier_thread()) {
    throw error(errc::deadlock,
                "a future was waited for inside a callback of a future, and it completes only "
                "after that; use add_done_callback() instead");
  }
  if (what.positions_ != nullptr) {
    for (const core::awaited_position& each : what.positions_->all)
      core::check_outside_node(each.owner->on(), "waiting for a future");
    state_ = std::make_unique<core::blocked_thread>(*what.positions_);
  }
}

notice_wait::~notice_wait() = default;

}  // namespace millstream::inline v1
