// SPDX-License-Identifier: Apache-2.0
/// What a queue that the CPU carries out and the events recorded on it share: the operations that
/// wait for their turn, and how far they got.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>

#include "backend/arena.hpp"
#include "backend/live_count.hpp"
#include "backend/queue.hpp"

namespace millstream::backend {

class lane;

/// Operations, besides copy_request and fill_request.
struct job_turn {
  job* work = nullptr;
};
struct release_turn {
  arena* from = nullptr;
  live_count* live = nullptr;
  void* block = nullptr;
};
struct wait_turn {
  std::shared_ptr<lane> behind;
  std::uint64_t position = 0;
};
/// What only one backend knows how to do. May block.
class own_turn {
 public:
  virtual ~own_turn() = default;
  virtual void carry_out() noexcept = 0;
};
using operation = std::variant<copy_request, fill_request, job_turn, release_turn, wait_turn,
                               std::unique_ptr<own_turn>>;

/// Carries out one operation. A job is discarded instead if `discards_jobs`. Waits block.
void carry_out(operation& turn, bool discards_jobs) noexcept;

using time_limit = std::chrono::steady_clock::time_point;
inline constexpr time_limit no_limit = time_limit::max();

/// Operations are numbered upwards, usually from 1; "position p was passed" means that all
/// operations up to number p have ended.
/// `add` and `close` belong to the user of the queue, the rest to any thread. A lane lives as long
/// as anybody refers to it or its operations are not all done; it outlives its queue.
class lane : public std::enable_shared_from_this<lane> {
 public:
  /// `counter` says how far the lane got, for those who can only look at a word of memory; it is
  /// never set back, so positions begin at its value, and it outlives the lane. Null: one inside.
  explicit lane(std::atomic<std::uint64_t>* counter = nullptr) noexcept
      : done_(counter != nullptr ? *counter : own_counter_), tail_(done_.load()) {}
  virtual ~lane() = default;
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  /// Takes the operations on success only, and then all of them. Never blocks.
  virtual status add_all(std::span<operation> next) = 0;
  status add(operation&& next) { return add_all(std::span(&next, 1)); }
  /// Whether the position was passed; a lane that nothing drives does a step first. Never blocks.
  virtual bool poll(std::uint64_t position) noexcept = 0;
  /// Blocks until the position was passed (true) or the limit is over.
  virtual bool wait_until(std::uint64_t position, time_limit limit) noexcept = 0;
  /// The queue is gone: jobs that did not start are discarded, everything else is still carried
  /// out in its turn. Never blocks.
  virtual void close() noexcept = 0;

  /// Number of the operation added last.
  [[nodiscard]] std::uint64_t tail() const noexcept {
    return tail_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool passed(std::uint64_t position) const noexcept {
    return done_.load(std::memory_order_acquire) >= position;
  }
  /// Whether nothing that was added is left. For whoever adds.
  [[nodiscard]] bool is_empty() const noexcept { return passed(tail()); }
  /// The counter.
  [[nodiscard]] const std::atomic<std::uint64_t>& done() const noexcept { return done_; }

 private:
  std::atomic<std::uint64_t> own_counter_{0};

 protected:
  std::atomic<std::uint64_t>& done_;
  std::atomic<std::uint64_t> tail_;
};

}  // namespace millstream::backend
