// SPDX-License-Identifier: Apache-2.0
#include "core/unlocker.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/fork_guard.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/thread.hpp"
#include "core/machine.hpp"
#include "core/ranges.hpp"

namespace millstream::core {
namespace {

struct locked_range {
  const machine* on;
  const void* block;
  std::weak_ptr<void> keeper;
};

class unlocker {
 public:
  /// From now on until it is added, or rather until it is unlocked, others may keep it locked.
  void note(const locked_pages& what, const std::shared_ptr<void>& keeper) {
    const std::scoped_lock hold(mutex_);
    note_held(what, keeper);
  }
  void add(locked_pages&& next) {
    const std::scoped_lock hold(mutex_);
    waiting_.push_back(std::move(next));
    ++wanted_;
    added_.notify_one();
    if (started_) return;
    std::string why;
    started_ = base::start_detached("millstream", [this] { serve(); }, why);
    if (!started_) {
      base::log(base::log_level::error, base::cat("buffers stay page-locked: ", why));
    }
  }

  [[nodiscard]] std::uint64_t wanted() noexcept {
    const std::scoped_lock hold(mutex_);
    return wanted_;
  }
  [[nodiscard]] bool keep(const machine& on, const void* block, std::size_t bytes,
                          std::vector<std::shared_ptr<void>>& kept) {
    if (locked_.load(std::memory_order_acquire) == 0) return true;
    const std::scoped_lock hold(mutex_);
    bool is_kept = true;
    std::vector<locked_range> queued;
    ranges_.for_each_overlap(block, bytes, [&](const locked_range& each) {
      if (each.on != &on) return;
      auto keeper = each.keeper.lock();
      if (keeper == nullptr) {
        queued.push_back(each);
      } else {
        kept.push_back(std::move(keeper));
      }
    });
    for (const locked_range& each : queued)
      is_kept = take_back(each, kept) && is_kept;
    return is_kept;
  }
  void wait_for_one(std::chrono::milliseconds limit) {
    std::unique_lock hold(mutex_);
    unlocked_.wait_for(hold, limit);
  }
  [[nodiscard]] bool wait_for(std::uint64_t count, std::chrono::milliseconds limit) {
    std::unique_lock hold(mutex_);
    // Without a thread nothing is unlocked, and nobody is to wait for it.
    return unlocked_.wait_for(hold, limit, [&] { return done_ >= count || !started_; });
  }

 private:
  [[noreturn]] void serve() noexcept {
    for (;;) {
      locked_pages next = take_next();
      const backend::status failed = next.on->driver().unregister_memory(next.block);
      forget(next);  // before others can get the memory
      // What the driver still believes to be locked must not become another buffer's memory.
      const bool stays = !failed && failed.code() != errc::device_lost;
      if (!stays) next.owner.reset();
      const std::scoped_lock hold(mutex_);
      if (stays) still_locked_.push_back(std::move(next.owner));
      ++done_;
      unlocked_.notify_all();
    }
  }
  [[nodiscard]] locked_pages take_next() {
    std::unique_lock hold(mutex_);
    added_.wait(hold, [&] { return !waiting_.empty(); });
    locked_pages next = std::move(waiting_.front());
    waiting_.pop_front();
    return next;
  }

  void note_held(const locked_pages& what, const std::shared_ptr<void>& keeper) {
    ranges_.add(what.block, what.bytes, {what.on.get(), what.block, keeper});
    locked_.fetch_add(1, std::memory_order_release);
  }
  void forget_held(const locked_pages& what) {
    ranges_.remove_if(what.block, what.bytes, [&](const locked_range& each) {
      return each.on == what.on.get() && each.block == what.block;
    });
    locked_.fetch_sub(1, std::memory_order_release);
  }
  void forget(const locked_pages& what) {
    const std::scoped_lock hold(mutex_);
    forget_held(what);
  }
  // Nobody keeps it. Out of the list it counts as done; it is not there if it is being unlocked, or
  // about to be added.
  [[nodiscard]] bool take_back(const locked_range& which,
                               std::vector<std::shared_ptr<void>>& kept) {
    const auto found =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const locked_pages& each) {
          return each.on.get() == which.on && each.block == which.block;
        });
    if (found == waiting_.end()) return false;
    locked_pages taken = std::move(*found);
    waiting_.erase(found);
    ++done_;
    unlocked_.notify_all();
    forget_held(taken);
    std::shared_ptr<void> keeper(taken.block, page_unlocker{taken});
    note_held(taken, keeper);
    kept.push_back(std::move(keeper));
    return true;
  }

  std::mutex mutex_;  // guards all below; innermost
  std::condition_variable added_;
  std::condition_variable unlocked_;
  std::uint64_t wanted_ = 0;
  std::uint64_t done_ = 0;
  std::deque<locked_pages> waiting_;
  range_map<locked_range> ranges_;        // of all that are locked
  std::atomic<std::uint64_t> locked_{0};  // their number; read without the lock
  std::vector<std::shared_ptr<void>> still_locked_;
  bool started_ = false;
};

// Never destroyed: its thread runs until the process ends.
unlocker& the_unlocker() {
  static auto* const only = new unlocker;
  return *only;
}

}  // namespace

void unlock_later(const locked_pages& what) noexcept {
  if (base::forked_child()) return;
  try {
    the_unlocker().add(locked_pages(what));
  } catch (const std::exception& broken) {
    base::log(base::log_level::error, base::cat("a buffer stays page-locked: ", broken.what()));
  }
}

std::shared_ptr<void> unlocked_in_the_end(locked_pages&& what) {
  std::shared_ptr<void> keeper(what.block, page_unlocker{what});
  the_unlocker().note(what, keeper);
  return keeper;
}

bool keep_locked(const machine& on, const void* block, std::size_t bytes,
                 std::vector<std::shared_ptr<void>>& kept) {
  return the_unlocker().keep(on, block, bytes, kept);
}

void wait_for_an_unlock(std::chrono::milliseconds limit) {
  the_unlocker().wait_for_one(limit);
}

std::shared_ptr<void> with_locks(std::shared_ptr<void> owner,
                                 std::vector<std::shared_ptr<void>>&& locks) {
  if (locks.empty()) return owner;
  void* const block = locks.front().get();
  return {block, keeper_of_locks{std::move(owner), std::move(locks)}};
}

std::uint64_t unlocks_wanted() noexcept {
  return the_unlocker().wanted();
}

bool wait_for_unlocks(std::uint64_t count, std::chrono::milliseconds limit) {
  return the_unlocker().wait_for(count, limit);
}

}  // namespace millstream::core
