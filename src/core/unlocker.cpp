// SPDX-License-Identifier: Apache-2.0
#include "core/unlocker.hpp"

#include <condition_variable>
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

namespace millstream::core {
namespace {

struct locked_buffer {
  std::shared_ptr<machine> on;
  void* block;
  std::shared_ptr<void> owner;
};

class unlocker {
 public:
  void add(locked_buffer&& next) {
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
  [[nodiscard]] bool wait_for(std::uint64_t count, std::chrono::milliseconds limit) {
    std::unique_lock hold(mutex_);
    // Without a thread nothing is unlocked, and nobody is to wait for it.
    return unlocked_.wait_for(hold, limit, [&] { return done_ >= count || !started_; });
  }

 private:
  [[noreturn]] void serve() noexcept {
    for (;;) {
      std::vector<locked_buffer> batch;
      {
        std::unique_lock hold(mutex_);
        added_.wait(hold, [&] { return !waiting_.empty(); });
        batch.swap(waiting_);
      }
      for (locked_buffer& each : batch) {
        const backend::status failed = each.on->driver().unregister_memory(each.block);
        // What the driver still believes to be locked must not become another buffer's memory.
        const bool stays = !failed && failed.code() != errc::device_lost;
        if (!stays) each.owner.reset();
        const std::scoped_lock hold(mutex_);
        if (stays) still_locked_.push_back(std::move(each.owner));
        ++done_;
        unlocked_.notify_all();
      }
    }
  }

  std::mutex mutex_;  // guards all below; innermost
  std::condition_variable added_;
  std::condition_variable unlocked_;
  std::uint64_t wanted_ = 0;
  std::uint64_t done_ = 0;
  std::vector<locked_buffer> waiting_;
  std::vector<std::shared_ptr<void>> still_locked_;
  bool started_ = false;
};

// Never destroyed: its thread runs until the process ends.
unlocker& the_unlocker() {
  static auto* const only = new unlocker;
  return *only;
}

}  // namespace

void unlock_later(std::shared_ptr<machine> on, void* block, std::shared_ptr<void> owner) noexcept {
  if (base::forked_child()) return;
  try {
    the_unlocker().add({std::move(on), block, std::move(owner)});
  } catch (const std::exception& broken) {
    base::log(base::log_level::error, base::cat("a buffer stays page-locked: ", broken.what()));
  }
}

std::uint64_t unlocks_wanted() noexcept {
  return the_unlocker().wanted();
}

bool wait_for_unlocks(std::uint64_t count, std::chrono::milliseconds limit) {
  return the_unlocker().wait_for(count, limit);
}

}  // namespace millstream::core
