// SPDX-License-Identifier: Apache-2.0
#include "backend/worker.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "backend/guarded.hpp"
#include "base/thread.hpp"

namespace millstream::backend {
namespace {

constexpr std::uint64_t nobody = std::numeric_limits<std::uint64_t>::max();
// Room for that many operations is kept; a rare longer backlog gives its memory back.
constexpr std::size_t kept_room = 4096;

}  // namespace

worker::worker(std::string who, std::shared_ptr<const void> kept,
               std::atomic<std::uint64_t>* counter)
    : lane(counter), who_(std::move(who)), kept_(std::move(kept)), wake_at_(nobody) {}

status worker::add_all(std::span<operation> next) {
  return guarded(who_, [&]() -> status {
    bool wake = false;
    {
      const std::scoped_lock hold(mutex_);
      if (!started_) {
        if (status failed = start_thread(); !failed) return failed;
      }
      // Finds room for all before it moves the first.
      incoming_.insert(incoming_.end(), std::move_iterator(next.begin()),
                       std::move_iterator(next.end()));
      tail_.fetch_add(next.size(), std::memory_order_relaxed);
      wake = std::exchange(parked_, false);
    }
    if (wake) added_.notify_one();
    return {};
  });
}

status worker::start_thread() {
  const auto self = std::static_pointer_cast<worker>(shared_from_this());
  std::string why;
  if (!base::start_detached("millstream", [self] { self->serve(); }, why)) {
    return {errc::device, base::cat(who_, " cannot start a thread for a queue (", why,
                                    "); end other threads or raise the limit of threads")};
  }
  started_ = true;
  return {};
}

void worker::serve() noexcept {
  std::vector<operation> batch;
  while (next_batch(batch)) {
    for (operation& turn : batch) {
      carry_out(turn, closed_.load(std::memory_order_acquire));
      count_done();
    }
    batch.clear();
    if (batch.capacity() > kept_room) batch = std::vector<operation>();
  }
}

/// Swaps the two vectors, so that both keep their room and the lock is held for a moment only.
bool worker::next_batch(std::vector<operation>& batch) noexcept {
  std::unique_lock hold(mutex_);
  while (incoming_.empty()) {
    if (closed_.load(std::memory_order_relaxed)) return false;
    parked_ = true;
    added_.wait(hold);
  }
  parked_ = false;
  batch.swap(incoming_);
  return true;
}

void worker::count_done() noexcept {
  // Ordered with wait_until: either this thread sees the position that somebody waits for, or the
  // other one sees this count.
  const std::uint64_t now = done_.fetch_add(1, std::memory_order_seq_cst) + 1;
  if (now < wake_at_.load(std::memory_order_seq_cst)) return;
  const std::scoped_lock hold(passed_mutex_);
  wake_at_.store(nobody, std::memory_order_seq_cst);  // those still waiting say so again
  passed_.notify_all();
}

bool worker::wait_until(std::uint64_t position, time_limit limit) noexcept {
  if (passed(position)) return true;
  std::unique_lock hold(passed_mutex_);
  for (;;) {
    const std::uint64_t first = wake_at_.load(std::memory_order_seq_cst);
    wake_at_.store(std::min(first, position), std::memory_order_seq_cst);
    if (done_.load(std::memory_order_seq_cst) >= position) return true;
    if (limit == no_limit) {
      passed_.wait(hold);
    } else if (passed_.wait_until(hold, limit) == std::cv_status::timeout) {
      return passed(position);
    }
  }
}

void worker::close() noexcept {
  {
    const std::scoped_lock hold(mutex_);
    closed_.store(true, std::memory_order_release);
  }
  added_.notify_one();
}

}  // namespace millstream::backend
