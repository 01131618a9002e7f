// SPDX-License-Identifier: Apache-2.0
/// One launch of an executable graph of the host machine.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/host/plan.hpp"
#include "backend/host/state.hpp"
#include "backend/lane.hpp"

namespace millstream::backend::host {

/// A lane with one position that is passed when all steps have ended, so that queues and marks wait
/// for it as for any other. It is queued as three operations: a wait for the launch before, if that
/// has not ended; a job that makes the first steps ready; a wait for its own end.
///
/// Steps that are ready wait in a list for each place. Runners, a few for each place, take them
/// from there and carry them out in lanes that the launch leases from the machine: a runner that is
/// needed is posted to its lane, and is idle when there is nothing to take. So no ready step waits
/// behind one that blocks as long as a runner is idle, and a step that blocks holds up no other
/// launch and no queue.
///
/// Where a queue is closed before its turn came the jobs are discarded, and the launch ends when
/// the one before it has.
class launch final : public lane {
 public:
  static constexpr std::uint64_t end = 1;  ///< the position

  /// May throw std::bad_alloc. `before` is what it must not overlap with, or null.
  launch(std::shared_ptr<machine_state> machine, std::shared_ptr<const plan> what,
         std::shared_ptr<launch> before);

  /// Queues the launch: all of it or, on failure, nothing.
  status queue_on(lane& on);

  /// Nothing can be put into it.
  status add_all(std::span<operation> next) override;
  bool poll(std::uint64_t position) noexcept override { return passed(position); }
  bool wait_until(std::uint64_t position, time_limit limit) noexcept override;
  void close() noexcept override {}

 private:
  using index = plan::index;

  class starter final : public job {
   public:
    launch* of = nullptr;
    void run() noexcept override { of->start(); }
    void discard() noexcept override { of->drop(); }
  };
  class runner final : public job {
   public:
    launch* of = nullptr;
    int place = -1;
    std::shared_ptr<lane> on;      // leased with the first post; guarded by the mutex
    std::shared_ptr<launch> keep;  // while it is posted
    bool busy = false;             // posted or carrying out a step; guarded by the mutex
    void run() noexcept override { of->serve(*this); }
    void discard() noexcept override { of->drop(*this); }
  };
  struct station {
    std::vector<index> ready;  // those before `first` were taken; room for all steps of the place
    std::size_t first = 0;
    std::size_t posted = 0;  // runners that will take a step
    std::size_t runners = 0;
    std::unique_ptr<runner[]> all;
    [[nodiscard]] std::size_t waiting() const noexcept { return ready.size() - first; }
  };

  void make_stations();
  [[nodiscard]] station& station_of(int place) noexcept { return stations_[slot_of(place)]; }

  void start() noexcept;
  void serve(runner& by) noexcept;
  void drop() noexcept;
  void drop(runner& by) noexcept;

  // With the mutex held:
  void make_ready(index step) noexcept;
  void count(index step) noexcept;
  [[nodiscard]] index take(station& from) noexcept;

  // Without it:
  [[nodiscard]] runner* call_runner() noexcept;
  [[nodiscard]] bool finish(index step, runner& by) noexcept;
  void post_runners() noexcept;
  [[nodiscard]] std::shared_ptr<lane> lane_of(runner& one) noexcept;
  [[nodiscard]] bool post(runner& one) noexcept;
  void discard_rest() noexcept;
  void all_done() noexcept;
  [[nodiscard]] bool ended_or_then(std::shared_ptr<launch> later) noexcept;
  void pass() noexcept;
  void return_lanes() noexcept;

  const std::shared_ptr<machine_state> machine_;
  const std::shared_ptr<const plan> what_;
  starter starter_;

  std::mutex mutex_;  // guards the members below; the scheduler's is taken under it
  std::condition_variable passed_;
  std::vector<index> missing_;  // of each step: predecessors that did not end yet
  std::vector<bool> taken_;
  std::vector<station> stations_;  // that of the host side first
  std::size_t left_;               // steps that did not end yet
  bool dropped_ = false;
  std::shared_ptr<launch> before_;
  std::shared_ptr<launch> next_;  // ends when this one does
};

}  // namespace millstream::backend::host
