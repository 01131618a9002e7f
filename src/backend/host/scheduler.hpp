// SPDX-License-Identifier: Apache-2.0
/// Seed mode of the host machine: one legal order out of many, the same for the same seed.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/lane.hpp"
#include "base/random.hpp"

namespace millstream::backend::host {

class seeded_lane;

/// Carries out the operations of all lanes of a machine one at a time, each time choosing with
/// equal chances among the lanes whose next operation may start.
///
/// It is lazy: a step is made only while somebody blocks in `wait_until` for a position that was
/// not passed, so that everything else stays undone and a wait that is missing shows. `poll` makes
/// at most one step, so that polling loops come to an end. Which lanes may start is looked at under
/// the mutex that `add` takes, so for a program that submits from one thread and does not poll
/// while a job runs, the order depends on the seed and the program only.
///
/// Jobs run on the scheduler's one thread, without its mutex. A wait inside a job makes further
/// steps on the spot (nested) instead of blocking. A job that waits by other means for another
/// job never ends: only one runs at a time.
class scheduler : public std::enable_shared_from_this<scheduler> {
 public:
  explicit scheduler(std::uint64_t seed) : random_(seed) {}

  [[nodiscard]] std::shared_ptr<lane> make_lane(std::string who, std::shared_ptr<const void> kept);
  /// One of `choices`, with equal chances.
  [[nodiscard]] std::uint64_t choose(std::uint64_t choices) noexcept;
  /// Something was passed that no step of a lane passed.
  void wake() noexcept;
  /// The machine is closed: jobs are discarded and operations forgotten.
  void shut_down() noexcept;

 private:
  friend class seeded_lane;
  using lane_ref = std::shared_ptr<seeded_lane>;
  /// On the stack of whoever waits.
  struct waiter {
    const lane* behind;
    std::uint64_t position;
    waiter* next;
  };

  [[nodiscard]] bool add(seeded_lane& to, std::span<operation> next);
  bool poll(const lane& behind, std::uint64_t position) noexcept;
  bool wait_until(const lane& behind, std::uint64_t position, time_limit limit) noexcept;
  void close(seeded_lane& gone) noexcept;

  // All below are called with the mutex held; `step` lets go of it while a job runs.
  [[nodiscard]] bool somebody_waits() const noexcept;
  void notify_waiters() noexcept;
  void remove(const waiter& gone) noexcept;
  [[nodiscard]] lane_ref pick() noexcept;
  [[nodiscard]] bool may_start(const seeded_lane& candidate) const noexcept;
  void step(std::unique_lock<std::mutex>& hold, const lane_ref& chosen) noexcept;
  void hand_over(lane_ref chosen) noexcept;
  bool drive_until(std::unique_lock<std::mutex>& hold, const lane& behind, std::uint64_t position,
                   time_limit limit) noexcept;
  [[nodiscard]] bool have_thread() noexcept;
  void serve() noexcept;

  // Guards everything below and the operations of all lanes; only an arena's mutex is taken under
  // it.
  std::mutex mutex_;
  std::condition_variable work_;    // for the scheduler's thread
  std::condition_variable passed_;  // for those who wait for a position
  base::random_source random_;
  std::vector<lane_ref> lanes_;  // in the order they were made
  waiter* waiters_ = nullptr;
  lane_ref handed_over_;  // its next job shall run, chosen by `poll`
  bool started_ = false;
  bool shut_down_ = false;
};

/// A lane that the scheduler carries out.
class seeded_lane final : public lane {
 public:
  seeded_lane(std::shared_ptr<scheduler> of, std::string who, std::shared_ptr<const void> kept);

  /// Refused once the lane is closed.
  status add_all(std::span<operation> next) override;
  bool poll(std::uint64_t position) noexcept override;
  bool wait_until(std::uint64_t position, time_limit limit) noexcept override;
  void close() noexcept override;

 private:
  friend class scheduler;

  const std::shared_ptr<scheduler> scheduler_;
  const std::string who_;
  const std::shared_ptr<const void> kept_;

  // Guarded by the scheduler's mutex.
  /// The jobs that wait for their turn, linked by `next`; nothing is left in their places.
  [[nodiscard]] job* take_jobs() noexcept;

  std::deque<operation> pending_;
  bool busy_ = false;  // its job is running, or was handed over to run
  bool closed_ = false;
};

}  // namespace millstream::backend::host
