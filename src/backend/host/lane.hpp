// SPDX-License-Identifier: Apache-2.0
/// What a queue and the events recorded on it share: the operations that wait for their turn, and
/// how far they got.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <variant>

#include "backend/arena.hpp"
#include "backend/live_count.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::host {

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
using operation = std::variant<copy_request, fill_request, job_turn, release_turn, wait_turn>;

/// Carries out one operation. A job is discarded instead if `discards_jobs`. Waits block.
void carry_out(operation& turn, bool discards_jobs) noexcept;

using time_limit = std::chrono::steady_clock::time_point;
inline constexpr time_limit no_limit = time_limit::max();

/// Operations are numbered from 1; "position p was passed" means that the first p have ended.
/// `add` and `close` belong to the user of the queue, the rest to any thread. A lane lives as long
/// as anybody refers to it or its operations are not all done; it outlives its queue.
class lane : public std::enable_shared_from_this<lane> {
 public:
  virtual ~lane() = default;
  lane() = default;
  lane(const lane&) = delete;
  lane& operator=(const lane&) = delete;

  /// Takes the operation on success only. Never blocks.
  virtual status add(operation&& next) = 0;
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

 protected:
  std::atomic<std::uint64_t> tail_{0};
  std::atomic<std::uint64_t> done_{0};
};

}  // namespace millstream::backend::host
