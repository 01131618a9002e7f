// SPDX-License-Identifier: Apache-2.0
#include "core/notifier.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "base/fork_guard.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"
#include "core/context.hpp"
#include "core/machine.hpp"

namespace millstream::core {
namespace {

using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

thread_local bool t_is_notifier = false;
thread_local const context* t_told_for = nullptr;

std::exception_ptr made(errc code, const std::string& text) {
  return std::make_exception_ptr(error(code, text));
}

class notifier {
 public:
  void start() {
    const std::scoped_lock hold(mutex_);
    if (started_) return;
    std::string why;
    started_ = base::start_detached("millstream", [this] { serve(); }, why);
    if (started_) return;
    throw error(errc::device, base::cat("a thread that completes futures cannot be started (", why,
                                        "); end other threads or raise the limit of threads"));
  }

  void add(pending_notice&& next) {
    const std::scoped_lock hold(mutex_);
    incoming_.push_back(std::move(next));
    ++left_;
    added_.notify_one();
  }

  void hurry() noexcept { added_.notify_one(); }

  [[nodiscard]] bool is_idle() const noexcept { return left_.load() == 0; }

 private:
  [[noreturn]] void serve() noexcept {
    t_is_notifier = true;
    for (;;) {
      take_incoming();
      if (!tell_ended()) wait_a_little();
    }
  }

  void take_incoming() noexcept {
    std::unique_lock hold(mutex_);
    added_.wait(hold, [&] { return !incoming_.empty() || !watched_.empty(); });
    if (incoming_.empty()) return;
    std::move(incoming_.begin(), incoming_.end(), std::back_inserter(watched_));
    incoming_.clear();
    since_ = clock::now();
  }

  // Oldest first. A listener may add notices, but not to the list that is walked here.
  bool tell_ended() noexcept {
    bool any = false;
    for (std::size_t i = 0; i < watched_.size();) {
      std::exception_ptr broken;
      if (!has_ended(watched_[i], broken)) {
        ++i;
        continue;
      }
      pending_notice ended = std::move(watched_[i]);
      watched_.erase(watched_.begin() + static_cast<std::ptrdiff_t>(i));
      tell(ended, std::move(broken));
      any = true;
    }
    if (any) since_ = clock::now();
    return any;
  }

  static bool has_ended(pending_notice& what, std::exception_ptr& broken) noexcept {
    if (base::is_shut_down()) {
      broken = made(errc::unavailable, "millstream was shut down; the interpreter is ending");
      return true;
    }
    for (const host_wait& each : what.marks) {
      auto passed = each.event->is_done();
      if (!passed) {
        broken = made(passed.why().code(), passed.why().text());
        return true;
      }
      if (!passed.value()) return false;
    }
    return true;
  }

  void tell(pending_notice& ended, std::exception_ptr broken) noexcept {
    const bool lost = broken != nullptr;
    notice_outcome how = ended.in->settle(ended, std::move(broken));
    t_told_for = ended.in.get();
    ended.told->ended(how);
    // What it holds may still be in use where the end is not known.
    if (lost) {
      [[maybe_unused]] const auto* const left = ended.told.release();
    }
    ended.told.reset();
    t_told_for = nullptr;
    if (ended.what != nullptr) ended.what->drop_reference();
    ended.in->count_notice_told();
    ended.in.reset();
    --left_;
  }

  // A wait that lasts is looked at less often: the others come late by a small part of the time
  // that has passed.
  void wait_a_little() noexcept {
    const auto waited = std::chrono::duration_cast<milliseconds>(clock::now() - since_);
    const milliseconds limit = std::clamp(waited / 16, milliseconds(1), milliseconds(10));
    for (const host_wait& each : watched_.front().marks) {
      auto passed = each.event->wait_for(limit);
      if (!passed || !passed.value()) return;
    }
  }

  std::mutex mutex_;  // guards the three below; innermost
  std::condition_variable added_;
  std::vector<pending_notice> incoming_;
  bool started_ = false;

  std::atomic<std::size_t> left_{0};

  // Of the thread alone.
  std::vector<pending_notice> watched_;
  clock::time_point since_;  // the last time anything came or ended
};

// Never destroyed: its thread runs until the process ends.
notifier& the_notifier() {
  static auto* const only = new notifier;
  return *only;
}

}  // namespace

void start_notifier() {
  the_notifier().start();
}
void add_notice(pending_notice&& next) {
  the_notifier().add(std::move(next));
}
bool is_notifier_thread() noexcept {
  return t_is_notifier;
}
bool is_told_for(const context& of) noexcept {
  return t_told_for == &of;
}
void hurry_notices() noexcept {
  the_notifier().hurry();
}
bool are_notices_told() noexcept {
  return the_notifier().is_idle();
}

}  // namespace millstream::core
