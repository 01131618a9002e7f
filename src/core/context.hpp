// SPDX-License-Identifier: Apache-2.0
/// The state of one context, and the operations on it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <millstream/untyped.hpp>

#include "base/cache_line.hpp"
#include "core/data.hpp"
#include "core/failures.hpp"
#include "core/lanes.hpp"
#include "core/machine.hpp"
#include "core/memory.hpp"
#include "core/node_jobs.hpp"
#include "core/notifier.hpp"
#include "core/open_body.hpp"
#include "core/plan.hpp"
#include "core/ranges.hpp"
#include "core/recent_tasks.hpp"
#include "core/retired.hpp"

namespace millstream::core {

class given_graph;

/// A graph that was made elsewhere: one that a context gave out, or a native one.
struct added_graph {
  std::uint64_t native = 0;
  given_graph* ours = nullptr;
};

/// Thrown by `context::start`, never seen by users.
struct poisoned_start : std::exception {
  explicit poisoned_start(failed_task* failed) : because(failed) {}
  failed_task* because;
};

/// Thrown inside the engine when a place has no room; `start` makes an error of
/// it.
struct no_room : std::exception {
  no_room(place_index on, std::size_t size, std::string name, std::string text)
      : place(on), bytes(size), data(std::move(name)), why(std::move(text)) {}
  place_index place;
  std::size_t bytes;
  std::string data;
  std::string why;
};

/// What the message of a wait that could never end says: who would wait, and the way out.
struct host_wait_text {
  const char* who;
  const char* way_out;
};
[[nodiscard]] std::string deadlock_text(const host_wait_text& text);

/// Which versions a task on a device made out of which, while host functions
/// were unfinished.
struct derived_version {
  data* what;
  std::uint64_t version;
};
struct derivation {
  base::small_vector<derived_version, 2> from;
  base::small_vector<derived_version, 2> to;
};

/// Holds a context's lock. What there is to ask the policy of executables is asked when it has been
/// let go.
class context_lock : public std::unique_lock<std::mutex> {
 public:
  using std::unique_lock<std::mutex>::unique_lock;
  context_lock(const context_lock&) = delete;
  context_lock& operator=(const context_lock&) = delete;
  ~context_lock() {
    if (launched_ == nullptr) return;
    if (owns_lock()) unlock();
    launched_->ask_policy();
  }
  /// In the end, by this thread.
  void ask_policy_of(std::shared_ptr<recorder_cache> launched) const noexcept {
    launched_ = std::move(launched);
  }

 private:
  mutable std::shared_ptr<recorder_cache> launched_;
};

/// Locks: `mutex_` is the context's lock. Under it come only the innermost
/// locks of failures, poison records, the machine's queue pools and the
/// backend's queues; no driver call that can block, no user code, no
/// interpreter lock. Functions that take `held` are called with it.
class alignas(base::cache_line) context : public std::enable_shared_from_this<context> {
 public:
  using lock = context_lock;

  explicit context(context_options options);
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  // The operations of untyped_context; each takes the lock itself.
  [[nodiscard]] data* register_data(const registration& what);
  [[nodiscard]] data* make_data(std::size_t bytes, std::string_view symbol, source_site site,
                                bool token);
  void submit(const task_spec& what, body_ptr work);
  void fill(const task_spec& what, std::span<const std::byte> pattern);
  void add_graph(const task_spec& what, const added_graph& given);
  [[nodiscard]] std::shared_ptr<given_graph> give_graph(std::shared_ptr<void> with);
  [[nodiscard]] std::uint64_t fence();
  void order(std::uint64_t later, std::uint64_t queue);
  void await_content(data& what);
  void read_back(data& what, void* to);
  [[nodiscard]] notice_ticket notify(std::unique_ptr<notice> told);
  [[nodiscard]] notice_ticket fetch(data& what, void* to, std::unique_ptr<notice> told);
  void finish(std::shared_ptr<void> with = {});
  /// Blocks until no lane has anything left, what bodies submit meanwhile included.
  void drain();
  /// The machine's picture of what was recorded. Throws error(usage) in an immediate context.
  [[nodiscard]] std::string native_dot() const;
  void abandon() noexcept;
  /// The last handle of a datum is gone.
  void let_go(data& what) noexcept;
  /// See is_buffer_at_rest.
  [[nodiscard]] bool is_at_rest(data& what) noexcept;
  static void let_go_elsewhere(data& what) noexcept;
  /// A datum's object dies.
  void forget(data& what) noexcept;
  /// Blocks until the lane's tail of now has ended.
  void synchronize(lane_index on);

  [[nodiscard]] bool is_finished() const noexcept;
  [[nodiscard]] context_stats stats() const;
  [[nodiscard]] failure_list& failures() noexcept { return failures_; }
  [[nodiscard]] const context_options& options() const noexcept { return options_; }
  [[nodiscard]] machine& on() const noexcept { return *on_; }

  [[nodiscard]] std::mutex& mutex() const noexcept { return mutex_; }
  [[nodiscard]] lane_set& lanes(const lock&) noexcept { return lanes_; }

  // For open_task: the halves of a task, and for task_job: what is left when a
  // body has run.

  /// Waits until no open task is in the way, checks, makes the data ready. A caller that is to
  /// touch them itself gets in `in_caller` what it must wait for on the host before it does; null =
  /// the lane waits. Throws poisoned_start if an input is known to be poisoned; then, as for a
  /// broken rule, nothing has changed. If memory or the machine fails, the outputs are poisoned and
  /// the exception names the task.
  void start(lock& held, plan& of, completion_set* in_caller);
  /// The body of a started task begins in this thread: others that need its data wait for it, and
  /// where it issues work by itself and is recorded, that becomes nodes from now on. Throws as
  /// `start` if memory or the machine fails.
  void begin(const lock& held, open_body& body);
  /// Why a body could not be recorded, if so; `reported` = as a failure of the context, too, or to
  /// be told by the end itself, which was `interrupted`.
  struct unrecorded {
    std::exception_ptr why;
    bool reported = false;
    bool interrupted = false;
  };
  /// What it raised itself, if so; `known` = its caller has that already.
  struct body_failure {
    std::exception_ptr why;
    bool known = false;
  };
  [[nodiscard]] unrecorded end_body(lock& held, const plan& of, const body_failure& own) {
    return is_recorded(of) ? end_recorded_body(held, of, own) : unrecorded{};
  }
  /// The body has ended, and with it its work if that was done by the caller's thread: publishes
  /// its end, or its failure.
  void end(lock& held, open_body& body, const plan& of, bool in_caller, body_failure&& own) {
    if (own.why) {
      end_with(held, body, in_caller, std::move(own));
    } else {
      end_well(held, body, of, in_caller);
    }
  }
  /// The same where it raised nothing.
  void end_well(lock& held, open_body& body, const plan& of, bool in_caller) {
    if (listener() != nullptr || is_recorded(of)) {
      end_with(held, body, in_caller, {});
    } else {
      end_shortly(held, body, in_caller ? completion{} : lanes_.advance(of.lane));
    }
  }
  /// Before something is recorded that is no body: blocks while a body of another thread is
  /// captured into the same graph. True if it blocked. Unlocks meanwhile. Throws as
  /// wait_for_open_tasks.
  bool await_recorder(lock& held, const plan& of);
  /// Where the task's work ends; advances its lane.
  [[nodiscard]] completion end_of(const lock& held, const plan& of) {
    (void)held;
    return is_stale(of) ? completion{} : lanes_.advance(of.lane);
  }
  /// Whether the stage it was recorded in was lost since.
  [[nodiscard]] bool is_stale(const plan& of) const noexcept {
    return is_recorded(of) && of.stage != lanes_.recording()->stage();
  }
  [[nodiscard]] bool is_recorded(const plan& of) const noexcept {
    return completion{of.lane, 0}.is_recorded();
  }
  /// Where in the lanes that run a job with this end is. Takes the lock for a recorded one.
  [[nodiscard]] completion position_of(completion end) const;
  /// What the body of a recorded task holds is kept as long as it may be used.
  void keep_with_stage(const lock& held, body_ptr work);
  /// Publishes the end of a task's accesses.
  void publish(const lock& held, const plan& of, completion end);
  /// Blocks until all of it has ended. Unlocks meanwhile. Throws
  /// error(interrupted), error(deadlock), error(device).
  void wait_on_host(lock& held, const completion_set& what, host_wait_text text,
                    bool may_interrupt = true);
  /// Takes back that a task which is open and did not begin was going to write.
  void undo_writes(const lock& held, const plan& of) noexcept;
  /// It is not open any more, and nothing of it is published.
  void remove_open(const lock& held, open_body& body) noexcept;
  /// Records the failure of a task and poisons what it was to write (versions
  /// as in the plan).
  failed_task* fail(const lock& held, const plan& of, std::exception_ptr cause, bool known);
  void check_live(const lock& held, const char* call) {
    if (!is_live()) refuse_not_live(held, call);
  }
  /// The same before anything begins that `finish` would wait for.
  void check_takes_work(const lock& held, const char* call) {
    if (!takes_work()) refuse_not_live(held, call);
  }
  void count_skipped() noexcept { skipped_.fetch_add(1, std::memory_order_relaxed); }
  void count_failed() noexcept { failed_.fetch_add(1, std::memory_order_relaxed); }
  /// The failed task that spoiled an input of the plan's versions, or null.
  [[nodiscard]] failed_task* poisoned_input(const plan& of) const {
    return any_failed_.load(std::memory_order_acquire) ? find_poisoned_input(of) : nullptr;
  }
  void poison_outputs(const lock& held, const plan& of, failed_task& because);
  /// What a task only shares bytes with stays poisoned behind it.
  static void carry_poison(const access& over);
  /// A task does not run because of a failed one: counts it and poisons its outputs.
  void spoil(const lock& held, const plan& of, failed_task& because);
  /// The same for a task that never reaches a queue, with its report.
  void skip(const lock& held, const plan& of, failed_task& because);
  /// A host function's outputs were poisoned: so is what was derived from them. Any thread, with or
  /// without the lock.
  void spread_poison();
  /// Without the lock: something in a host lane has ended, where device queues do not run jobs.
  void host_lane_ended() noexcept;
  /// For the notifier: takes the marks back, and says how it ended.
  [[nodiscard]] notice_outcome settle(pending_notice& ended, std::exception_ptr broken) noexcept;
  void count_notice_told() noexcept;
  /// Makes the body a job of the plan's lane and publishes its end. If the machine refuses, the
  /// outputs are poisoned and it throws.
  void queue_body(const lock& held, const plan& of, body_ptr& work);
  /// Tells the listener. Under the lock.
  void report(const plan& of) {
    if (listener() != nullptr) report_to(*listener(), of);
  }
  /// What its body is called with. `queue`: the number of its lane's queue.
  [[nodiscard]] body_call call_of(const plan& of, std::span<void* const> pointers,
                                  std::uint64_t queue) const noexcept;
  [[nodiscard]] trace_listener* listener() const noexcept { return listener_; }

 private:
  /// given: what the context has belongs to a graph.
  enum class phase : std::uint8_t { live, finishing, given, finished, abandoned };
  [[nodiscard]] bool is_live() const noexcept { return phase_ == phase::live && !is_lost(); }
  /// While a thread finalizes it, others add nothing, so that this comes to an end.
  [[nodiscard]] bool takes_work() const noexcept {
    return is_live() && (!closing_ || is_waited_for());
  }

  // closing.cpp
  class closing_scope;
  [[nodiscard]] bool is_waited_for() const noexcept;
  [[nodiscard]] bool calls_body_at_once(std::thread::id in) const noexcept;
  void await_closer(lock& held);
  [[nodiscard]] bool await_bodies_at_once(lock& held);
  void check_no_open_task(const char* call = "finalize") const;
  void check_no_open_task_of_callers() const;

  // open_body.cpp
  void end_with(lock& held, open_body& body, bool in_caller, body_failure&& own);
  void forget_open(const lock& held, open_body& body) noexcept;
  void note_open_change(const lock& held) noexcept;
  void wait_for_open_tasks(lock& held, const plan& of);
  void await_change(lock& held, const std::vector<std::thread::id>& threads,
                    const std::string& text, const char* call);
  void await_open_change(lock& held, const std::vector<std::thread::id>& threads,
                         const std::string& text, const char* call);

  // acquire.cpp
  [[noreturn]] void refuse_not_live(const lock& held, const char* call);
  [[nodiscard]] static bool copies_in(const access& of) noexcept;
  [[noreturn]] static void throw_no_room(const access& of, backend::status why);
  [[noreturn]] static void refuse_content(const plan& of, const data& what);
  static void check_contents(plan& of);
  [[nodiscard]] failed_task* find_poisoned_input(const plan& of) const;
  void acquire(plan& of, completion_set* in_caller, bool misses);
  [[nodiscard]] static bool look_at_inputs(plan& of, completion_set& before);
  [[nodiscard]] bool attach_instances(plan& of, completion_set& before);
  void collect(const access& of, completion_set& before) const;
  void collect(const access& of, const instance* at, completion_set& before) const;
  static void collect_valid(const access& of, const instance* at, completion_set& before);
  void publish(const access& of, completion end);
  void end_shortly(const lock& held, open_body& body, completion end);
  void note_recent(const plan& of, completion end) {
    if (lost_ != nullptr && of.exec >= 0 && !end.is_past()) recent_.note(of, end);
  }
  [[nodiscard]] const instance* attach_pooled(access& of, place_index user);
  void allocate_missing(plan& of);
  void keep_behind(const plan& of);
  void detach(plan& of) noexcept;
  static void skip_spoiled_copy(const access& of);
  void copy_inputs(plan& of, bool shared);
  void copy_in(const access& of, lane_index on, std::uint64_t task_id);
  void apply_writes(plan& of);
  void start_once(lock& held, plan& of, completion_set* in_caller);
  void add_caller(completion_set& before);
  void reclaim(lock& held, place_index place);
  [[noreturn]] void give_up_for_room(const lock& held, const plan& of, const no_room& lack);
  void wait_for_host_end(lock& held, std::uint64_t seen, const completion_set& behind = {});
  /// As lane_set::choose, but waits where work is held back; `before()` is asked again then.
  template <class Before>
  [[nodiscard]] lane_index choose_in_turn(lock& held, place_index place, const Before& before,
                                          const char* call) {
    for (;;) {
      const std::uint64_t ends = on().host_end_count();
      try {
        return lanes_.choose(place, before());
      } catch (const held_back& by) {
        wait_for_host_end(held, ends, by.behind);
        check_live(held, call);
      }
    }
  }
  /// One that was unfinished when the inputs were looked at may have failed and ended since.
  void note_derivation(const plan& of) {
    if (lanes_.has_unfinished_host_job()) {
      note_derivations(of);
    } else if (failed_task* because = poisoned_input(of)) {
      spread_now(of, *because);
    }
  }
  void note_derivations(const plan& of);
  void spread_now(const plan& of, failed_task& because);
  void keep_derivation(derivation&& noted);
  [[nodiscard]] std::string memory_report(const no_room& lack) const;
  void record_before_overtaking(const plan& of);

  // recording.cpp
  /// What is to be dropped when a stage has ended.
  struct kept_stage {
    completion launch;
    std::vector<body_ptr> bodies;
    std::vector<std::shared_ptr<void>> owners;
    node_jobs jobs;               // until it is launched
    bool writes_by_host = false;  // host nodes bring copies to users' buffers

    [[nodiscard]] bool has_host_nodes() const noexcept { return writes_by_host || !jobs.empty(); }
  };
  /// Whether it uses the user's buffer itself.
  [[nodiscard]] static bool is_at_home(const access& of) noexcept {
    const data& what = *of.what;
    return what.registered && !what.let_go && of.place == what.instances[0].place;
  }
  [[nodiscard]] bool is_beside_host_nodes(const plan& of) const noexcept;
  void acquire_recorded(plan& of);
  void attach_recorded(access& of);
  void order_recorded(access& of, const plan& task);
  [[nodiscard]] bool is_body_captured(const plan& of) const noexcept;
  void begin_recorded_body(const lock& held, const plan& of);
  [[nodiscard]] unrecorded end_recorded_body(lock& held, const plan& of, const body_failure& own);
  [[nodiscard]] bool await_recorded_tasks(lock& held, const char* call);
  /// Launches what was recorded; false if that is nothing. May unlock meanwhile. What cannot be
  /// launched is a failure like that of a task.
  bool close_stage(lock& held, const char* call);
  /// Whether nothing in the present stage uses the datum.
  [[nodiscard]] bool is_launched(const data& what) const noexcept;
  /// Whether the task becomes a part of a recording.
  [[nodiscard]] bool is_to_be_recorded(const plan& of, bool in_caller) const noexcept {
    return lanes_.recording() != nullptr && !in_caller && can_be_recorded(of);
  }
  [[nodiscard]] bool can_be_recorded(const plan& of) const noexcept;
  /// In a recorded context, whether the stage was in the way of the task; unlocks meanwhile, if so.
  [[nodiscard]] bool wait_for_stage(lock& held, const plan& of, bool in_caller);
  /// Closes the stage for a task that does not become a part of it, if that uses what the stage
  /// does.
  [[nodiscard]] bool break_stage(lock& held, const plan& of);
  /// Whether a graph calls the task's host function on a thread of the driver's.
  [[nodiscard]] bool is_host_node(const plan& of) const noexcept {
    return is_recorded(of) && of.exec == host_place && !on().has(backend::capability::runs_jobs);
  }
  /// Which of the data that the task writes a host node may still poison.
  void note_doubt(const plan& of) noexcept;
  /// Whether a host node that may still fail has to do with the present version: then nothing may
  /// be copied to the user's buffer without a look when the copy's turn comes.
  [[nodiscard]] bool is_doubtful(const data& what) const noexcept {
    return what.doubt != 0 && !lanes_.is_stage_over(what.doubt - 1);
  }
  /// Before the task: where a node would bring such content to a user's buffer, its stage is over
  /// then. True if it had to be launched or waited for; unlocks meanwhile.
  [[nodiscard]] bool await_doubtful(lock& held, const plan& of);
  [[nodiscard]] bool await_doubt(lock& held, const data& what, const plan& of);
  /// Whether it is written back when its stage was launched, and not before.
  [[nodiscard]] bool is_written_back_late(const data& what) const noexcept {
    return what.registered && is_doubtful(what) && !is_launched(what);
  }
  /// Whether nothing but what its body issues is recorded for the task.
  [[nodiscard]] bool records_body_only(const plan& of) const noexcept;
  [[nodiscard]] unrecorded lose_body(const lock& held, const plan& of, const error& broken,
                                     bool beside, const body_failure& own);
  [[nodiscard]] std::string others_in_capture(const plan& of) const;
  /// What messages call the tasks of a stage.
  [[nodiscard]] std::string recorded_text(std::uint32_t stage) const;
  /// The open task whose body is captured from that queue; null if there is none.
  [[nodiscard]] const plan* captured_from(const lock& held, std::uint64_t queue);
  void order_in_capture(const plan& task, std::uint64_t later, std::uint64_t queue);
  [[nodiscard]] bool is_recorder_busy() const noexcept {
    return lanes_.recording() != nullptr && lanes_.recording()->is_busy();
  }
  /// What is doubtful only with `all`, or when it was launched.
  void write_back_postponed(const lock& held, bool all = false);
  /// Unless they are of no concern to a buffer there.
  void await_postponed(lock& held, const strided& area);
  void drop_postponed(std::vector<std::shared_ptr<void>>& dropped);
  void launch_stage(lock& held);
  void lose_stage(const lock& held, const std::exception_ptr& cause, const std::string& task,
                  bool known = false);
  [[nodiscard]] recording_stats recording_counts() const;
  void forget_lost_copies(data& what) noexcept;
  [[nodiscard]] bool is_lost_with_stage(const data& what) const noexcept;
  void drop_ended_stages(lock& held);

  // given_graph.cpp
  struct given_parts;
  void issue_graph(const lock& held, const plan& of, backend::graph* graph, given_graph* ours);
  [[nodiscard]] bool await_buffers(lock& held, const plan& of);
  void launch_graph(const lock& held, const plan& of, backend::graph* graph, given_graph* ours);
  void look_by_host(const lock& held, const plan& of, completion launched, body_ptr& look);
  void check_may_give(const lock& held);
  [[nodiscard]] std::shared_ptr<given_parts> take_parts(const lock& held,
                                                        recorder::taken_stage& taken);
  template <class Call>
  void or_lose_stage(const lock& held, Call&& call);
  void forget_late_failures() noexcept;
  void end_given() noexcept;

  // sharing.cpp
  [[nodiscard]] bool add_shared(plan& of) const;
  static void join_sharing(data& fresh, const std::vector<data*>& others);
  static void leave_sharing(data& gone);

  // submit.cpp
  void report_to(trace_listener& told, const plan& of);
  void run_on_lane(const lock& held, plan& of, body_ptr& work);
  void run_at_once(lock& held, plan& of, body_ptr& work);

  // transfer.cpp
  [[nodiscard]] bool is_beside_host_nodes(const data& of, const instance& from,
                                          place_index to_place, lane_index on_lane) const noexcept;
  void note_brought_home(data& what, completion end);
  [[nodiscard]] backend::status queue_copy(data& of, const instance& from, void* to,
                                           place_index to_place, lane_index on,
                                           const std::atomic<void*>* skip_when);
  completion copy(data& of, const instance& from, void* to, place_index to_place, lane_index on,
                  copy_reason why, std::uint64_t task_id, const std::atomic<void*>* skip_when);
  void stamp(lane_index on, std::uint64_t id, bool end);
  void note_host_end(lane_index on);
  void join_into_caller(lock& held);
  [[nodiscard]] lane_index copy_lane(place_index place, const completion_set& before);
  [[nodiscard]] const instance* source_of(const data& of, place_index near) const noexcept;
  void write_back(data& of, bool guarded, bool recorded = false);
  void bring_home(data& shared, completion_set& before);
  void hold_until(data& of, lane_index on_lane);
  /// The lane in which a datum is read out of that memory.
  struct read_turn {
    lane_index lane = no_lane;
    place_index memory = host_place;
  };
  /// False if it only waited, unlocked: then the datum may be another one.
  [[nodiscard]] bool copy_out(lock& held, data& what, void* to, read_turn& turn);
  [[nodiscard]] lane_index read_lane(place_index memory, const completion_set& before);
  /// Waits for those and all that is in the lane; false if there was nothing to wait for.
  [[nodiscard]] bool await_turn(lock& held, lane_index on_lane, completion_set before);
  /// A pooled block of `place` for work on `user` that is part of the present stage, or not.
  [[nodiscard]] std::optional<memory_block> take_pooled(place_index place, std::size_t bytes,
                                                        place_index user, bool recorded = false);
  [[nodiscard]] memory_block take_block(place_index place, std::size_t bytes, lane_index order);
  [[nodiscard]] std::unique_ptr<backend::event> take_event();
  [[nodiscard]] plan plan_of_wait(const task_dep& dep, const char* reader);
  [[nodiscard]] bool await_shared(lock& held, const plan& of);
  [[nodiscard]] completion_set before_content(lock& held, plan& of);
  void await_content(lock& held, plan& of);

  // notices.cpp
  void check_not_recorded(const char* call) const;
  [[nodiscard]] notice_ticket watch(const lock& held, const completion_set& what,
                                    pending_notice&& fresh);
  [[nodiscard]] completion_set queue_fetch(data& what, std::uint64_t version, void* to,
                                           const completion_set& before);
  [[nodiscard]] lane_index fetch_lane(place_index place, const completion_set& before);
  void check_may_await_notices() const;
  [[nodiscard]] bool await_notices(lock& held);

  // pages.cpp
  [[nodiscard]] bool has_copies_by_pages() const noexcept;
  [[nodiscard]] bool may_lock_pages(const data& what, bool in_place) const noexcept;
  void lock_pages(lock& held, data& what);
  [[nodiscard]] bool lock_pages_of(lock& held, const plan& of);
  /// Adds what keeps pages of the buffer locked that others had locked. False if it unlocked the
  /// context meanwhile: then again.
  [[nodiscard]] bool keep_pages_locked(lock& held, const strided& area,
                                       std::vector<std::shared_ptr<void>>& locks);
  void await_unlocked_pages();

  // loss.cpp
  [[nodiscard]] bool is_lost() const noexcept {
    return lost_ != nullptr && lost_->load(std::memory_order_acquire);
  }
  /// Says what the driver did and which tasks it may be about; the same text each time.
  [[nodiscard]] error loss_error(const lock& held);
  void abandon_content(data& of, std::vector<std::shared_ptr<void>>& dropped);
  void finish_lost(lock& held, std::vector<std::shared_ptr<void>>& dropped);

  // lifetime.cpp
  void finish_held(lock& held, std::shared_ptr<void>& with,
                   std::vector<std::shared_ptr<void>>& dropped);
  void drain_lanes(lock& held);
  void drain_all(lock& held);
  void begin_finish(const lock& held);
  void finish_on_stream(lock& held, std::shared_ptr<void>& with);
  void write_back_all(bool guarded);
  void keep_until_passed();
  void keep_behind(const completion_set& uses, std::vector<std::shared_ptr<void>>& owners);
  void keep_in_recording(std::vector<std::shared_ptr<void>>& owners);
  void close(std::vector<std::shared_ptr<void>>& dropped);
  void close_lanes(std::vector<std::shared_ptr<void>>& dropped);
  /// Of a context that is dropped: hands over what the present stage keeps, and of what is in the
  /// queues what the caller is to drop, both without the lock.
  void leave_work(kept_stage& present, std::vector<std::shared_ptr<void>>& dropped) noexcept;
  void give_back_resources() noexcept;
  void count_lanes();
  void write_back_or_report(const lock& held, data& of);
  void unlist(data& what) noexcept;
  void release_content(data& of, std::vector<std::shared_ptr<void>>& dropped);
  void order_behind_retired(data& fresh);
  void order_behind(data& fresh, std::uint64_t producer);
  [[nodiscard]] place_index simulated_home(const void* block);
  data* add_data(std::unique_ptr<data> fresh, std::string_view symbol, source_site site);

  // As in `lane`: what every task looks at comes first, on as few lines as hold it.
  mutable std::mutex mutex_;  // guards all below but atomics
  machine* const on_;         // that of the options

  trace_listener* const listener_;       // the same, or null
  const std::atomic<bool>* const lost_;  // whether a device failed; null where none can
  phase phase_ = phase::live;
  bool forks_ = true;         // the latest observation of data::forks, for new data
  bool has_sharing_ = false;  // data with bytes in common were registered
  bool has_owners_ = false;   // data with owners of their buffers were registered
  bool has_locked_pages_ = false;
  bool closing_ = false;                 // a thread finalizes it
  bool has_host_nodes_ = false;          // there was one: see is_host_node
  std::atomic<bool> any_failed_{false};  // whether `failures_` ever had one
  std::uint64_t last_task_ = 0;
  std::uint64_t task_count_ = 0;
  open_list open_;
  std::size_t open_in_bodies_ = 0;  // of these
  // With each end of an open task or of `finish`. Changed under the mutex.
  std::atomic<std::uint64_t> open_generation_{0};

  std::size_t open_waiters_ = 0;  // threads that wait for that
  completion_set before_;         // of the task that is being acquired
  lane_set lanes_;
  recent_tasks recent_;   // where the device can be lost
  context_stats counts_;  // but for what is counted elsewhere
  context_options options_;
  std::uint64_t last_data_ = 0;
  std::condition_variable open_changed_;
  std::thread::id closer_;  // who finalizes it, while `closing_`
  memory_pools pools_;
  range_registry ranges_;
  std::vector<data*> all_data_;
  retired_buffers retired_;
  std::mutex derivations_mutex_;  // guards the next; only poison records' come under it
  std::vector<derivation> derivations_;
  std::vector<std::shared_ptr<void>> kept_;  // what the caller's stream may use
  std::vector<std::unique_ptr<backend::event>> events_;
  std::size_t notices_ = 0;  // not told yet
  std::condition_variable notices_changed_;
  std::atomic<std::uint64_t> skipped_{0};
  std::atomic<std::uint64_t> failed_{0};
  failure_list failures_{any_failed_};  // has its own lock
  std::vector<open_body*> open_recorded_;
  std::vector<data*> postponed_;  // let go while nothing could be recorded; a reference each
  kept_stage present_;
  std::uint64_t stage_breaks_ = 0;
  std::string outside_;            // the first task that was not recorded, in a recorded context
  recording_stats graph_counts_;   // of graphs that an immediate context launched
  std::uint64_t graph_trail_ = 0;  // of these launches, for the cache
  std::deque<kept_stage> stages_;  // launched, not known to have ended
  std::string loss_text_;          // empty until a device was seen to have failed for good
};

/// Waits for the open contexts that use the queue with this number; false if none does.
[[nodiscard]] bool synchronize_leased(std::uint64_t stream);
/// Waits for what is in a stream that the machine knows, whoever put it there.
void synchronize_adopted(machine& on, std::uint64_t stream);

}  // namespace millstream::core
