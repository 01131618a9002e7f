// SPDX-License-Identifier: Apache-2.0
/// The queues of one context and what each of them is known to have waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <vector>

#include "base/cache_line.hpp"
#include "base/small_vector.hpp"
#include "core/completion.hpp"
#include "core/machine.hpp"
#include "core/recorder.hpp"

namespace millstream::core {

/// One leased queue. `clock[p]` is the highest sequence of lane p that work
/// queued here from now on comes after; it is merged transitively at each wait,
/// so that a wait that is implied is not made.
struct alignas(base::cache_line) lane {
  // What every task looks at fills one line of the cache, which the driver empties between two
  // tasks.

  std::uint64_t number = 0;  // of its queue
  std::uint64_t tail = 0;    // sequence of the operation queued last
  std::uint64_t done = 0;    // known to have ended
  /// The job that ended last; set by the job itself, without the lock.
  std::atomic<std::uint64_t> finished{0};
  /// Of a host lane: the operation of those noted (lane_set::mark_host_end) that ended last, moves
  /// included; set when device queues that wait for it have been let go, too.
  std::atomic<std::uint64_t> settled{0};
  std::uint64_t last_job = 0;  // of a host lane: sequence of what is noted when it has ended
  std::uint64_t recorded = 0;  // what the mark covers
  std::uint32_t open = 0;      // tasks that are open in it
  place_index place = host_place;
  bool foreign = false;  // on a stream of the user's; never leased to others
  bool parked = false;   // told to wait for a host function: see lane_set::choose
  bool noted = false;    // see lane_set::mark_host_end

  std::uint64_t waited = 0;      // the tail when it was last told to wait for another lane
  std::uint8_t early_marks = 0;  // how many more are set before anybody asks: see mark_before_wait

  std::vector<std::uint64_t> clock;
  std::vector<std::uint64_t> recorded_clock;  // the clock when the mark was set
  leased_queue lease;
  std::uint64_t last_move = 0;  // of a host lane: of the last copy from or to a device

  [[nodiscard]] bool comes_after(completion what) const noexcept {
    return what.lane < clock.size() && clock[what.lane] >= what.sequence;
  }
};

/// Thrown by `choose` when a queue of a device would have to wait for a host
/// function. The task is to try again when one has returned. Never seen by
/// users.
struct held_back : std::exception {
  explicit held_back(completion_set host) : behind(std::move(host)) {}
  completion_set behind;  ///< the positions of host lanes that are waited for
};

struct lane_counts {
  std::uint64_t records = 0;
  std::uint64_t waits = 0;
};

/// All functions are called under the context's lock, except the constructor
/// and destructor. None blocks. Those that call the driver throw error(device,
/// ...) with the driver's text.
class lane_set {
 public:
  explicit lane_set(machine& on) : machine_(on) {}
  /// Gives the queues back; work may still be in them.
  ~lane_set() { close(); }
  lane_set(const lane_set&) = delete;
  lane_set& operator=(const lane_set&) = delete;

  /// The same, earlier: nothing may be queued afterwards. In a forked child the
  /// queues are left alone, because their threads exist only in the parent.
  void close() noexcept;

  /// Of a lane that is not recorded.
  [[nodiscard]] lane& at(lane_index index) noexcept { return *lanes_[index]; }
  [[nodiscard]] place_index place_of(lane_index index) const noexcept {
    return is_recorded_lane(index) ? recorder_->place_of(index) : lanes_[index]->place;
  }
  [[nodiscard]] std::size_t size() const noexcept { return lanes_.size(); }
  [[nodiscard]] backend::queue& queue(lane_index index) noexcept {
    return is_recorded_lane(index) ? recorder_->queue(index) : *lanes_[index]->lease.queue;
  }

  /// Its number, which is no call of the driver for a lane that is not recorded.
  [[nodiscard]] std::uint64_t queue_number(lane_index index) noexcept {
    return is_recorded_lane(index) ? recorder_->queue(index).handle() : lanes_[index]->number;
  }

  /// The lane for work on `place` that comes after `before`: the one whose tail
  /// is the newest of `before` on that place, else one from the place's pool,
  /// in turn. Of the host side only one with nothing left to do is taken from the pool
  /// (idle_host_lane), so that a host function does not come behind one that it has nothing to do
  /// with. Where device queues do not run jobs, none is to wait for an
  /// unfinished host function, directly or behind others: throws held_back
  /// instead. (docs/design/0003: copies behind such a wait stop copies of other
  /// queues, and some calls of the driver return only after it, so that a host
  /// function that uses the device might wait for itself.) A body or the listener
  /// of a notice cannot be held back, as what it would wait for may wait for it; what it submits
  /// goes to a lane that is parked, which others keep away from.
  [[nodiscard]] lane_index choose(place_index place, const completion_set& before);
  /// Whether `choose` would hold that work back, or make it go to a lane that is parked.
  [[nodiscard]] bool holds_back(place_index place, const completion_set& before) const noexcept {
    return place != host_place && !machine_.has(backend::capability::runs_jobs) &&
           is_held_up(before);
  }
  /// The lane of that place whose tail, not ended, is the newest of `before`, or `no_lane`.
  [[nodiscard]] lane_index newest_tail(place_index place, const completion_set& before) const;

  // Recording. A recorded position means the end of its stage's launch once there was one, so that
  // lanes of both kinds wait for either.

  /// From now on lanes can be opened for recording.
  void record_with(std::unique_ptr<recorder> by) { recorder_ = std::move(by); }
  /// Null in an immediate context.
  [[nodiscard]] recorder* recording() const noexcept { return recorder_.get(); }
  [[nodiscard]] lane_index open_recorded(place_index place);
  /// What a recorded position has become: that of its stage's launch, or past if that stage was
  /// given up. Itself while the stage is recorded, and if it is not recorded.
  [[nodiscard]] completion settled(completion what) const noexcept {
    return what.is_recorded() && what.stage() != recorder_->stage() ? launch_of(what.stage())
                                                                    : what;
  }
  [[nodiscard]] completion_set settled(const completion_set& what) const;
  /// Of a position in a stage that was given up: what that was to come after, such as the making of
  /// memory for it. Whoever comes after the position comes after this. Null for all others, and
  /// where that is past.
  [[nodiscard]] const completion_set* given_up(completion what) const noexcept;
  /// Whether all of it is in lanes that run, or past: nothing belongs to the present stage.
  [[nodiscard]] bool are_launched(const completion_set& what) const noexcept;
  /// Before the next: throws held_back as `choose`, if the launch would wait for host functions,
  /// those that are nodes of stages before among them.
  void hold_back_launch();
  /// Launches the present stage behind all that it waits for. Throws as recorder::launch (then the
  /// stage is given up). `at_end`, for a stage with host nodes, is run or discarded; when it has
  /// run, on the host side, the stage has ended. Then no queue of a device is told to wait for the
  /// stage before that, as for a host function that is none of its nodes.
  completion launch_stage(backend::job* at_end = nullptr);
  /// Whether the stage with that number was launched and has ended, or was given up.
  [[nodiscard]] bool is_stage_over(std::uint32_t stage) const noexcept {
    return stage != recorder_->stage() && is_done(launch_of(stage));
  }
  /// The end of the launch of a stage before the present one; past if it was given up.
  [[nodiscard]] completion end_of_stage(std::uint32_t stage) const noexcept {
    return launch_of(stage);
  }
  /// Before calls that a driver may answer only when the device has nothing left to do: throws
  /// held_back while the host nodes of a stage have not ended.
  void hold_back_behind_nodes() const;
  /// Whether the present stage comes after that anyway, since it is launched behind the host nodes
  /// of those before.
  [[nodiscard]] bool are_before_launch(const completion_set& what) const noexcept;
  /// Discards the present stage.
  void give_up_stage() noexcept;
  /// Before `take_stage`: the lane of launches waits for what has to end before the stage may run.
  /// False if nothing has to.
  [[nodiscard]] bool await_stage();
  /// Hands the present stage over to the caller; its positions are past.
  [[nodiscard]] recorder::taken_stage take_stage();
  /// A lane of the host side with nothing left to do. If all are busy one more is opened, up to a
  /// limit that is there for memory only; then one in turn.
  [[nodiscard]] lane_index idle_host_lane();
  /// The same for work of which there may be any amount (copies for futures, owners that are let
  /// go): if all are busy, one of a few that such work has in common.
  [[nodiscard]] lane_index shared_host_lane();
  /// Makes the caller's stream lane 0 (before any other): all lanes opened later come after its
  /// tail of now. Throws as machine::adopt.
  void adopt_caller(std::uint64_t stream);
  [[nodiscard]] bool has_caller() const noexcept { return has_caller_; }
  /// Whether the caller's stream is being recorded by somebody else.
  [[nodiscard]] bool is_recorded() const noexcept { return is_recorded_; }
  /// The work that is in a stream of the user's now; the stream may end after this. Throws as
  /// machine::adopt, and error(usage) if somebody records it and not us with it.
  [[nodiscard]] completion behind(std::uint64_t stream);
  /// Hands the queues of devices over, those of bodies included, to whoever keeps what was
  /// recorded of the caller's stream: libraries keep memory for each stream, which it uses whenever
  /// it runs. In the end, as `close`.
  void leave_leases(held_leases& to);
  /// The caller's stream waits for every other lane, host functions included.
  void join_into_caller();

  /// The lane with that queue number; `no_lane` if it is not ours.
  [[nodiscard]] lane_index find(std::uint64_t handle) const noexcept;

  /// Counts an operation that was queued on the lane.
  completion advance(lane_index on) noexcept {
    if (is_recorded_lane(on)) return recorder_->advance(on);
    lane& at_end = *lanes_[on];
    return {on, ++at_end.tail};
  }
  [[nodiscard]] completion tail(lane_index of) const noexcept {
    return is_recorded_lane(of) ? recorder_->tail(of) : completion{of, lanes_[of]->tail};
  }
  /// Of all lanes that are not recorded.
  [[nodiscard]] completion_set tails() const;
  [[nodiscard]] bool is_done(completion what) const noexcept {
    if (what.is_recorded()) return is_recorded_done(what);
    if (what.is_past()) return true;
    const lane& in = *lanes_[what.lane];
    return in.done >= what.sequence ||
           in.finished.load(std::memory_order_acquire) >= what.sequence ||
           in.settled.load(std::memory_order_acquire) >= what.sequence;
  }
  /// Where a job of that lane notes that it has ended.
  [[nodiscard]] std::atomic<std::uint64_t>& finished_of(lane_index index) noexcept {
    return is_recorded_lane(index) ? not_looked_at_ : lanes_[index]->finished;
  }
  [[nodiscard]] bool are_done(const completion_set& what) const noexcept;
  void note_done(completion what) noexcept;
  /// Looks without waiting which of these have ended, as far as the lanes'
  /// marks tell.
  void poll(const completion_set& what);

  /// Orders later work of `waiter` behind `what`: nothing to do on the same
  /// lane or when it is known to be behind already, else at most one record and
  /// one wait.
  void wait(lane_index waiter, completion what);
  void wait(lane_index waiter, const completion_set& what) {
    for (const completion& each : what) {
      if (!is_seen(waiter, each)) wait(waiter, each);
    }
  }
  /// Whether the caller's stream is parked; if so, the machine's count is the caller's from now on.
  [[nodiscard]] bool hand_over_parked() noexcept;
  /// Lanes whose host functions have returned are not parked any more.
  void unpark() noexcept;
  /// Leaves host lanes out of what every task looks at until something is noted in them again.
  void forget_settled() noexcept;
  /// Whether any job of a host lane has not ended.
  [[nodiscard]] bool has_unfinished_host_job() const noexcept {
    return (recorder_ != nullptr && recorder_->has_jobs()) || has_noted_host_job();
  }
  /// Whether a copy from or to a device waits for its turn in a host lane.
  [[nodiscard]] bool has_unfinished_move() const noexcept;
  /// Sets the lane's mark at its tail unless it is there already.
  void record(lane_index on);
  /// Looks at the marks of noted host lanes, in case the job that notes an end was refused.
  void poll_host_ends();
  /// The same for a host lane, whose mark costs nothing, so it is not counted.
  void mark_host_end(lane_index on);
  [[nodiscard]] const lane_counts& counts() const noexcept { return counts_; }

 private:
  struct place_pool {
    place_index place;
    std::size_t next = 0;
    std::vector<lane_index> lanes;
  };
  struct shared_lanes {
    std::size_t next = 0;
    std::vector<lane_index> lanes;  // of the host side's pool
  };
  [[nodiscard]] place_pool& pool_of(place_index place);
  void leave_recorder() noexcept;
  [[nodiscard]] lane_index from_pool(place_index place);
  [[nodiscard]] lane_index host_lane_in_turn();
  [[nodiscard]] lane_index find_idle_host_lane();
  [[nodiscard]] bool is_idle(lane_index host) const noexcept;
  [[nodiscard]] lane_index parked_lane(place_index place, const completion_set& before);
  [[nodiscard]] lane_index lane_without_open_task(place_index place);
  [[nodiscard]] bool is_behind_host_function(lane_index of) noexcept;
  void add_unfinished(completion what, completion_set& to) const;
  [[noreturn]] void hold_back(const completion_set& before) const;
  void park(lane_index which) noexcept;
  [[nodiscard]] bool is_unfinished(lane_index host, std::uint64_t up_to) const noexcept;
  [[nodiscard]] bool has_waits(lane_index of) const noexcept;
  // Without any there is nothing to look for lane by lane.
  [[nodiscard]] bool has_noted_host_job() const noexcept {
    return !noted_.empty() && is_any_noted_unfinished();
  }
  [[nodiscard]] bool is_any_noted_unfinished() const noexcept;
  [[nodiscard]] bool is_held_up(completion what) const noexcept;
  [[nodiscard]] bool is_held_up(const completion_set& what) const noexcept {
    return has_noted_host_job() && is_any_held_up(what);
  }
  [[nodiscard]] bool is_any_held_up(const completion_set& what) const noexcept;
  lane_index open(place_index place);
  /// Throws error(unsupported) where the machine cannot take part in a recording of that stream.
  void check_may_take_part(std::uint64_t stream) const;
  /// A mark that is set when it is first waited for covers what its lane waits for by then, and
  /// whoever waits for it comes after that, too: tasks beside each other would form a chain. So
  /// where that was seen the mark is set before the lane is told to wait, unless nobody waits for
  /// such marks any more.
  void mark_before_wait(lane_index waiter);
  [[nodiscard]] backend::status set_mark(lane_index on);
  [[nodiscard]] static bool is_recorded_lane(lane_index index) noexcept {
    return index >= first_recorded_lane;
  }
  /// `before`: of a stage that was given up.
  struct ended_stage {
    completion launch;
    completion_set before;
  };
  [[nodiscard]] const ended_stage* find_ended(std::uint32_t stage) const noexcept;
  [[nodiscard]] completion launch_of(std::uint32_t stage) const noexcept;
  /// Calls with each ordinary position that it means now, or with itself in the present stage.
  template <class Call>
  void for_each_settled(completion what, Call&& call) const {
    if (const completion_set* before = given_up(what)) {
      for (const completion& each : *before)
        call(each);
    } else {
      call(settled(what));
    }
  }
  [[nodiscard]] bool is_recorded_done(completion what) const noexcept;
  void wait_recorded(lane_index waiter, completion what);
  /// Whether it is known at a look that the waiter comes behind that.
  [[nodiscard]] bool is_seen(lane_index waiter, completion what) const noexcept {
    if (is_recorded_lane(waiter) || is_recorded_lane(what.lane)) return false;
    return what.lane == waiter || lanes_[waiter]->comes_after(what);
  }
  void end_stage(ended_stage ended);
  [[nodiscard]] completion end_on_host(completion launched, backend::job& at_end) noexcept;

  // As in `lane`: what every task looks at comes first.
  std::vector<lane_index> noted_;  // host lanes with ends to come: see mark_host_end
  std::size_t parked_ = 0;
  machine& machine_;
  std::unique_ptr<recorder> recorder_;
  base::small_vector<std::unique_ptr<lane>, 8> lanes_;
  lane_counts counts_;
  std::vector<place_pool> pools_;
  shared_lanes shared_;
  lane_index launch_lane_ = no_lane;      // where stages are launched, one after the other
  completion nodes_end_;                  // of the last stage with host nodes
  completion_set before_stage_;           // what the present stage waits for outside of it
  std::deque<ended_stage> ended_stages_;  // those before it, the ones long past left out
  std::atomic<std::uint64_t> not_looked_at_{0};
  std::uint32_t first_ended_ = 0;  // the number of the first of them
  bool has_caller_ = false;
  bool is_recorded_ = false;
  std::unique_ptr<backend::event> entry_;  // behind what the caller's stream had in it at first
};

/// Throws error(code, text) for a failed status.
void check(backend::status status);

}  // namespace millstream::core
