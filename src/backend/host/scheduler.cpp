// SPDX-License-Identifier: Apache-2.0
#include "backend/host/scheduler.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend/guarded.hpp"
#include "base/thread.hpp"

namespace millstream::backend::host {
namespace {

/// The scheduler whose thread this is.
thread_local const scheduler* own_scheduler = nullptr;

bool is_job(const operation& turn) noexcept {
  return std::holds_alternative<job_turn>(turn);
}

void discard_all(job* first) noexcept {
  while (first != nullptr)
    std::exchange(first, first->next)->discard();
}

}  // namespace

std::shared_ptr<lane> scheduler::make_lane(std::string who, std::shared_ptr<const void> kept) {
  auto made = std::make_shared<seeded_lane>(shared_from_this(), std::move(who), std::move(kept));
  const std::scoped_lock hold(mutex_);
  lanes_.push_back(made);
  return made;
}

bool scheduler::add(seeded_lane& to, std::span<operation> next) {
  const std::scoped_lock hold(mutex_);
  if (to.closed_) return false;
  // Finds room for all before it moves the first.
  to.pending_.insert(to.pending_.end(), std::move_iterator(next.begin()),
                     std::move_iterator(next.end()));
  to.tail_.fetch_add(next.size(), std::memory_order_relaxed);
  notify_waiters();
  return true;
}

void scheduler::notify_waiters() noexcept {
  if (!somebody_waits()) return;
  work_.notify_one();
  passed_.notify_all();  // a nested wait that found nothing to do
}

std::uint64_t scheduler::choose(std::uint64_t choices) noexcept {
  const std::scoped_lock hold(mutex_);
  return random_.uniform(choices);
}

void scheduler::wake() noexcept {
  const std::scoped_lock hold(mutex_);
  work_.notify_one();
  passed_.notify_all();
}

bool scheduler::somebody_waits() const noexcept {
  for (const waiter* each = waiters_; each != nullptr; each = each->next) {
    if (!each->behind->passed(each->position)) return true;
  }
  return false;
}

void scheduler::remove(const waiter& gone) noexcept {
  waiter** link = &waiters_;
  while (*link != &gone)
    link = &(*link)->next;
  *link = gone.next;
}

bool scheduler::may_start(const seeded_lane& candidate) const noexcept {
  if (candidate.busy_ || candidate.pending_.empty()) return false;
  const auto* wait = std::get_if<wait_turn>(&candidate.pending_.front());
  return wait == nullptr || wait->behind->passed(wait->position);
}

scheduler::lane_ref scheduler::pick() noexcept {
  const auto startable = [this](const lane_ref& each) { return may_start(*each); };
  const auto choices = std::count_if(lanes_.begin(), lanes_.end(), startable);
  if (choices == 0) return nullptr;
  auto left = random_.uniform(static_cast<std::uint64_t>(choices));
  const auto chosen = std::find_if(lanes_.begin(), lanes_.end(), [&](const lane_ref& each) {
    return startable(each) && left-- == 0;
  });
  return *chosen;
}

void scheduler::step(std::unique_lock<std::mutex>& hold, const lane_ref& chosen) noexcept {
  operation turn = std::move(chosen->pending_.front());
  chosen->pending_.pop_front();
  if (is_job(turn)) {
    chosen->busy_ = true;
    const bool discards = chosen->closed_;
    hold.unlock();
    carry_out(turn, discards);
    hold.lock();
    chosen->busy_ = false;
  } else {
    carry_out(turn, chosen->closed_);
  }
  chosen->done_.fetch_add(1, std::memory_order_release);
  if (chosen->closed_ && chosen->pending_.empty()) std::erase(lanes_, chosen);
  passed_.notify_all();
}

bool scheduler::poll(const lane& behind, std::uint64_t position) noexcept {
  std::unique_lock hold(mutex_);
  const bool driven = somebody_waits() && own_scheduler != this;
  if (behind.passed(position) || driven || handed_over_ != nullptr) return behind.passed(position);
  const lane_ref chosen = pick();
  if (chosen == nullptr) return false;
  if (is_job(chosen->pending_.front()) && own_scheduler != this) {
    hand_over(chosen);  // it may take long, and this call must not
  } else {
    step(hold, chosen);
  }
  return behind.passed(position);
}

void scheduler::hand_over(lane_ref chosen) noexcept {
  if (!have_thread()) return;
  chosen->busy_ = true;
  handed_over_ = std::move(chosen);
  work_.notify_one();
}

bool scheduler::wait_until(const lane& behind, std::uint64_t position, time_limit limit) noexcept {
  if (behind.passed(position)) return true;
  std::unique_lock hold(mutex_);
  // Without a thread of our own the caller's has to do; better than waiting for nothing.
  if (own_scheduler == this || !have_thread()) return drive_until(hold, behind, position, limit);
  waiter self{&behind, position, waiters_};
  waiters_ = &self;
  work_.notify_one();
  const auto done = [&] { return behind.passed(position); };
  if (limit == no_limit) {
    passed_.wait(hold, done);
  } else {
    passed_.wait_until(hold, limit, done);
  }
  remove(self);
  return done();
}

bool scheduler::drive_until(std::unique_lock<std::mutex>& hold, const lane& behind,
                            std::uint64_t position, time_limit limit) noexcept {
  waiter self{&behind, position, waiters_};
  waiters_ = &self;
  while (!behind.passed(position)) {
    if (limit != no_limit && std::chrono::steady_clock::now() >= limit) break;
    if (const lane_ref chosen = pick()) {
      step(hold, chosen);
    } else if (limit == no_limit) {
      passed_.wait(hold);
    } else {
      passed_.wait_until(hold, limit);
    }
  }
  remove(self);
  return behind.passed(position);
}

bool scheduler::have_thread() noexcept {
  if (started_) return true;
  try {
    std::string why;
    const auto self = shared_from_this();
    started_ = base::start_detached("millstream", [self] { self->serve(); }, why);
  } catch (const std::bad_alloc&) {
    started_ = false;
  }
  return started_;
}

void scheduler::serve() noexcept {
  own_scheduler = this;
  std::unique_lock hold(mutex_);
  while (!shut_down_) {
    lane_ref chosen = std::exchange(handed_over_, nullptr);
    if (chosen == nullptr && somebody_waits()) chosen = pick();
    if (chosen != nullptr) {
      step(hold, chosen);
    } else {
      work_.wait(hold);
    }
  }
}

void scheduler::close(seeded_lane& gone) noexcept {
  job* never_run = nullptr;
  {
    const std::scoped_lock hold(mutex_);
    gone.closed_ = true;
    never_run = gone.take_jobs();
    if (gone.pending_.empty() && !gone.busy_) {
      std::erase_if(lanes_, [&](const lane_ref& each) { return each.get() == &gone; });
    }
  }
  discard_all(never_run);
}

void scheduler::shut_down() noexcept {
  std::vector<lane_ref> gone;
  {
    const std::scoped_lock hold(mutex_);
    shut_down_ = true;
    handed_over_ = nullptr;
    gone.swap(lanes_);
  }
  work_.notify_all();
  for (const lane_ref& each : gone) {
    close(*each);
    std::deque<operation> forgotten;  // they refer to lanes, which refer to them
    const std::scoped_lock hold(mutex_);
    forgotten.swap(each->pending_);
  }
}

seeded_lane::seeded_lane(std::shared_ptr<scheduler> of, std::string who,
                         std::shared_ptr<const void> kept)
    : scheduler_(std::move(of)), who_(std::move(who)), kept_(std::move(kept)) {}

status seeded_lane::add_all(std::span<operation> next) {
  return guarded(who_, [&]() -> status {
    if (scheduler_->add(*this, next)) return {};
    return {errc::usage, base::cat(who_,
                                   " cannot queue work after its machine was closed; keep the "
                                   "machine as long as it is used")};
  });
}

bool seeded_lane::poll(std::uint64_t position) noexcept {
  return passed(position) || scheduler_->poll(*this, position);
}

bool seeded_lane::wait_until(std::uint64_t position, time_limit limit) noexcept {
  return scheduler_->wait_until(*this, position, limit);
}

void seeded_lane::close() noexcept {
  scheduler_->close(*this);
}

job* seeded_lane::take_jobs() noexcept {
  job* first = nullptr;
  job** end = &first;
  for (operation& each : pending_) {
    auto* turn = std::get_if<job_turn>(&each);
    if (turn == nullptr || turn->work == nullptr) continue;
    *end = std::exchange(turn->work, nullptr);
    end = &(*end)->next;
  }
  *end = nullptr;
  return first;
}

}  // namespace millstream::backend::host
