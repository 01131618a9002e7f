// SPDX-License-Identifier: Apache-2.0
/// Recorded contexts: how tasks, copies and bodies become a part of the present stage, and how a
/// stage is launched or lost (docs/design/0006-recording.md).
#include <algorithm>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "core/context.hpp"
#include "core/open_body.hpp"

namespace millstream::core {
namespace {

// Completions of stages that were launched take the place of those of their tasks, so that sets do
// not grow from stage to stage. Whoever comes after a write that was given up comes after what that
// was to come after.
void settle_uses(data& what, const lane_set& lanes) {
  const std::uint32_t stage = lanes.recording()->stage();
  if (std::exchange(what.settled_at, stage) == stage) return;
  what.readers = lanes.settled(what.readers);
  if (const completion_set* before = lanes.given_up(what.writer)) what.readers.add(*before);
  what.writer = lanes.settled(what.writer);
  for (instance& each : what.instances)
    each.ready = lanes.settled(each.ready);
}

bool are_behind_host_function(lane_set& lanes, const completion_set& uses) {
  const completion_set settled = lanes.settled(uses);
  return std::any_of(settled.begin(), settled.end(), [&](const completion& use) {
    return !use.is_recorded() && !lanes.is_done(use) && lanes.place_of(use.lane) == host_place &&
           !lanes.queue(use.lane).has_ended();
  });
}

// Of one that was recorded beside another thread's, whose end waited for that one's.
std::exception_ptr interrupted_end(const plan& of) {
  return std::make_exception_ptr(
      error(errc::task_failed,
            base::cat(of.full_name(),
                      " was interrupted while its end waited for a body that another thread "
                      "records, so that nothing of it runs")));
}

/// Whether its work is what a body does, or issues.
bool has_body(const plan& of) noexcept {
  return of.kind != task_kind::cuda_kernel && of.kind != task_kind::fill &&
         of.kind != task_kind::add_graph;
}

}  // namespace

// A host function may use the device: in a graph of a machine that runs no jobs, the thread of the
// driver that calls host functions would wait for it, and what it uses may need that thread. One
// that is declared not to is a node, unless a capture of the caller's may launch it at any time.
// What a body issues to a stream becomes nodes where that can be captured.
bool context::can_be_recorded(const plan& of) const noexcept {
  if (on().has(backend::capability::runs_jobs)) return true;
  if (of.exec == host_place) return !of.uses_device && !lanes_.is_recorded();
  if (of.kind == task_kind::add_graph && is_beside_host_nodes(of)) return false;
  return (!has_body(of) || on().has(backend::capability::capture_to_graph));
}

// The copies in a graph of somebody else's do not see what host nodes bring to users' buffers, and
// the launch may wait for these nodes if they come before (backend::copy_request::at_its_turn).
bool context::is_beside_host_nodes(const plan& of) const noexcept {
  if (!has_host_nodes_) return false;
  return present_.has_host_nodes() ||
         std::any_of(of.accesses.begin(), of.accesses.end(), is_at_home);
}

void context::acquire_recorded(plan& of) {
  for (access& each : of.accesses) {
    settle_uses(*each.what, lanes_);
    attach_recorded(each);
  }
  of.lane = lanes_.open_recorded(of.exec);
  of.stage = lanes_.recording()->stage();
  has_host_nodes_ = has_host_nodes_ || is_host_node(of);
  for (const bool shared : {true, false}) {
    for (access& each : of.accesses) {
      if (each.shared == shared) order_recorded(each, of);
    }
  }
  apply_writes(of);
  note_derivation(of);
  if (has_host_nodes_) note_doubt(of);
}

void context::note_doubt(const plan& of) noexcept {
  std::uint32_t doubt = is_host_node(of) ? of.stage + 1 : 0;
  for (const access& each : of.accesses) {
    const bool derives = reads(each.mode) || each.shared;
    if (derives && is_doubtful(*each.what)) doubt = std::max(doubt, each.what->doubt);
  }
  for (const access& each : of.accesses) {
    if (writes(each.mode)) each.what->doubt = doubt;
  }
}

bool context::await_doubtful(lock& held, const plan& of) {
  return std::any_of(of.accesses.begin(), of.accesses.end(), [&](const access& each) {
    return is_at_home(each) && copies_in(each) && await_doubt(held, *each.what, of);
  });
}

bool context::await_doubt(lock& held, const data& what, const plan& of) {
  if (!is_doubtful(what)) return false;
  const std::uint32_t stage = what.doubt - 1;
  if (stage == lanes_.recording()->stage()) {
    if (close_stage(held, of.call())) ++stage_breaks_;
    return true;
  }
  completion_set end;
  end.add(lanes_.end_of_stage(stage));
  wait_on_host(held, end, {of.call(), "make that call after the body has ended"});
  return true;
}

// Memory is taken outside of the recording, so that it stays the same for all stages.
void context::attach_recorded(access& of) {
  data& what = *of.what;
  if (what.token || what.bytes == 0 || what.find(of.place) != nullptr) return;
  auto block = take_pooled(of.place, what.bytes, lane_place(std::max<place_index>(of.place, 0)),
                           /*recorded=*/true);
  if (!block) {
    lanes_.hold_back_behind_nodes();
    auto made = pools_.allocate(of.place, what.bytes, lanes_.choose(lane_place(of.place), {}));
    if (!made) throw_no_room(of, made.take_status());
    block = std::move(made.value());
  }
  what.instances.push_back({of.place, block->address, std::move(block->ready), block->bytes});
  of.attached = true;
}

// Each copy has a lane of its own: whoever needs the copy alone does not come after the task.
void context::order_recorded(access& of, const plan& task) {
  data& what = *of.what;
  completion_set& before = before_;
  before.clear();
  skip_spoiled_copy(of);
  collect(of, before);
  if (copies_in(of)) {
    const lane_index copies = lanes_.open_recorded(lane_place(of.place));
    lanes_.wait(copies, before);
    copy_in(of, copies, task.id);
    lanes_.wait(task.lane, lanes_.tail(copies));
  } else {
    lanes_.wait(task.lane, before);
  }
  if (const instance* at = what.find(of.place)) of.address = at->address;
}

// What used the block before has nothing to do with the work: a stage would have to be launched for
// it, and other work would be held back behind a host function that may take long.
std::optional<memory_block> context::take_pooled(place_index place, std::size_t bytes,
                                                 place_index user, bool recorded) {
  auto block = pools_.take(place, bytes);
  const bool is_before = block && recorded && lanes_.are_before_launch(block->ready);
  const bool is_free =
      is_before || (block && (recorded || lanes_.are_launched(block->ready)) &&
                    !lanes_.holds_back(user, block->ready) &&
                    (user != host_place || !are_behind_host_function(lanes_, block->ready)));
  if (!block || is_free) return block;
  pools_.give_unused(place, std::move(*block));
  return {};
}

bool context::is_body_captured(const plan& of) const noexcept {
  return is_recorded(of) && has_body(of) && of.exec != host_place &&
         on().has(backend::capability::capture_to_graph);
}

void context::begin_recorded_body(const lock& held, const plan& of) {
  if (!is_body_captured(of)) return;
  try {
    lanes_.recording()->begin_body(of.lane);
  } catch (const error& broken) {
    const error named(broken.code(),
                      base::cat(of.full_name(), " could not be recorded: ", broken.what()));
    fail(held, of, std::make_exception_ptr(named), /*known=*/true);
    throw named;
  }
}

bool context::records_body_only(const plan& of) const noexcept {
  return has_body(of) && of.exec != host_place &&
         std::none_of(of.accesses.begin(), of.accesses.end(),
                      [](const access& each) { return copies_in(each); });
}

bool context::await_recorder(lock& held, const plan& of) {
  bool waited = false;
  while (lanes_.recording() != nullptr && lanes_.recording()->is_busy()) {
    await_open_change(held, {lanes_.recording()->user()},
                      base::cat(of.full_name(),
                                " would wait for a body that another thread records and that "
                                "waits for this thread; end the open task of this thread first"),
                      of.call());
    waited = true;
  }
  return waited;
}

// A body that cannot be recorded spoils the graph, and with it the stage; one beside it only
// itself. What one beside that failed was to write is poisoned, so that nobody needs its nodes: it
// does not wait to put them into the stage, since it may end in a destructor.
context::unrecorded context::end_recorded_body(lock& held, const plan& of,
                                               const body_failure& own) {
  if (is_stale(of)) {
    if (is_body_captured(of)) lanes_.recording()->drop_body(of.lane, of.stage);
    return {std::make_exception_ptr(
                error(errc::device, base::cat("the recording that ", of.full_name(),
                                              " was a part of was lost before the task ended"))),
            true};
  }
  if (!is_body_captured(of)) return {};
  const bool beside = lanes_.recording()->is_beside(of.lane);
  if (beside && own.why) {
    lanes_.recording()->drop_body(of.lane, of.stage);
    return {};
  }
  try {
    lanes_.recording()->end_body(of.lane);
    if (own.why) lanes_.recording()->release_streams();
    if (!beside) return {};
    await_recorder(held, of);
    if (is_stale(of)) return end_body(held, of, own);
    lanes_.recording()->join_body(of.lane);
    return {};
  } catch (const error& broken) {
    if (broken.code() == errc::interrupted) return {interrupted_end(of), true, true};
    return lose_body(held, of, broken, beside, own);
  }
}

// The driver says of a capture that somebody made a call which spoilt it, not who: it may be any of
// the bodies that were in it then.
std::string context::others_in_capture(const plan& of) const {
  std::string names;
  for (const open_body* each : open_recorded_) {
    const plan& other = each->started();
    if (&other == &of || is_stale(other) || !is_body_captured(other)) continue;
    if (lanes_.recording()->is_beside(other.lane)) continue;
    names += base::cat(names.empty() ? "" : ", ", other.full_name());
  }
  return names.empty() ? names : base::cat("; ", names, ", open then, too, may have made the call");
}

// What the body raised itself, most likely because of that, is told alone.
context::unrecorded context::lose_body(const lock& held, const plan& of, const error& broken,
                                       bool beside, const body_failure& own) {
  const auto named = std::make_exception_ptr(
      error(broken.code(), base::cat(of.full_name(), " could not be recorded: ", broken.what(),
                                     beside ? "" : others_in_capture(of),
                                     "; make such calls before the task, or submit it to an "
                                     "immediate context")));
  if (beside) return {named, false};
  lanes_.give_up_stage();
  lose_stage(held, own.why ? own.why : named, of.name(), own.known);
  return {named, true};
}

// Data that were let go while another thread's body was being captured, or while the host node that
// they come from was yet to be launched.
void context::write_back_postponed(const lock& held, bool all) {
  std::vector<data*> later;
  for (data* each : std::exchange(postponed_, {})) {
    data& gone = *each;
    if (!all && is_written_back_late(gone)) {
      later.push_back(each);
      continue;
    }
    if (gone.registered) write_back_or_report(held, gone);
    release_content(gone, present_.owners);
    present_.owners.emplace_back(each, [](data* dropped) { dropped->drop_reference(); });
  }
  postponed_ = std::move(later);
}

// Before a buffer is registered that such data may still be written back to.
void context::await_postponed(lock& held, const strided& area) {
  while (!postponed_.empty()) {
    if (!is_recorder_busy()) {
      write_back_postponed(held);
      const bool is_in_the_way =
          std::any_of(postponed_.begin(), postponed_.end(), [&](const data* each) {
            return range_registry::overlap(each->area.low(), each->area.span(), area.low(),
                                           area.span());
          });
      if (!is_in_the_way) return;
      close_stage(held, "logical_data");
      continue;
    }
    await_open_change(held, {lanes_.recording()->user()},
                      "logical_data would wait for a body that another thread records and that "
                      "waits for this thread; end the open task of this thread first",
                      "logical_data");
  }
}

void context::drop_postponed(std::vector<std::shared_ptr<void>>& dropped) {
  for (data* each : std::exchange(postponed_, {}))
    dropped.emplace_back(each, [](data* gone) { gone->drop_reference(); });
}

completion context::position_of(completion end) const {
  if (!end.is_recorded()) return end;
  const lock held(mutex_);
  return lanes_.settled(end);
}

void context::keep_with_stage(const lock& held, body_ptr work) {
  (void)held;
  present_.bodies.push_back(std::move(work));
}

// A task of this thread that is open would never end; another thread's will.
bool context::await_recorded_tasks(lock& held, const char* call) {
  std::vector<std::thread::id> threads;
  for (const open_body* each : open_recorded_) {
    if (each->thread() == std::this_thread::get_id()) {
      throw error(errc::usage, base::cat(call, " was called while ", each->full_name(),
                                         " is open, which is being recorded; end it first"));
    }
    threads.push_back(each->thread());
  }
  if (threads.empty()) return false;
  await_open_change(held, threads,
                    base::cat(call,
                              " would wait for an open task that waits for this thread; "
                              "end the open task of this thread first"),
                    call);
  return true;
}

bool context::close_stage(lock& held, const char* call) {
  if (lanes_.recording() == nullptr) return false;
  if (lanes_.recording()->is_empty()) return false;
  while (!lanes_.recording()->is_empty()) {
    if (await_recorded_tasks(held, call)) continue;
    write_back_postponed(held);
    const std::uint64_t ends = on().host_end_count();
    try {
      launch_stage(held);
      // It unlocks, so another thread may be recording already.
      if (!is_recorder_busy()) write_back_postponed(held);
    } catch (const held_back& by) {
      wait_for_host_end(held, ends, by.behind);
    }
    check_live(held, call);  // another thread may have finished the context meanwhile
  }
  return true;
}

bool context::is_launched(const data& what) const noexcept {
  if (lanes_.recording() == nullptr) return true;
  return !lanes_.settled(what.writer).is_recorded() && lanes_.are_launched(what.readers) &&
         std::all_of(what.instances.begin(), what.instances.end(),
                     [&](const instance& each) { return lanes_.are_launched(each.ready); });
}

bool context::wait_for_stage(lock& held, const plan& of, bool in_caller) {
  if (has_host_nodes_ && await_doubtful(held, of)) return true;
  if (!is_to_be_recorded(of, in_caller)) return break_stage(held, of);
  return !records_body_only(of) && await_recorder(held, of);
}

bool context::break_stage(lock& held, const plan& of) {
  const bool is_independent =
      std::all_of(of.accesses.begin(), of.accesses.end(),
                  [&](const access& each) { return is_launched(*each.what); });
  if (is_independent || !close_stage(held, of.call())) return false;
  ++stage_breaks_;
  return true;
}

recording_stats context::recording_counts() const {
  if (lanes_.recording() == nullptr) return graph_counts_;
  recording_stats now = lanes_.recording()->stats();
  now.stage_breaks = stage_breaks_;
  return now;
}

std::string context::recorded_text(std::uint32_t stage) const {
  const std::string names = recent_.of_stage(stage);
  return names.empty() ? base::cat("what was recorded up to task ", last_task_)
                       : base::cat("what was recorded, ", names, ",");
}

void context::launch_stage(lock& held) {
  lanes_.hold_back_launch();
  if (options_.resources) held.ask_policy_of(options_.resources->state());
  try {
    backend::job* const at_end =
        present_.has_host_nodes() ? make_stage_end(std::move(present_.jobs)) : nullptr;
    present_.launch = lanes_.launch_stage(at_end);
    if (at_end != nullptr) note_host_end(present_.launch.lane);
    stages_.push_back(std::exchange(present_, {}));
  } catch (const error& broken) {
    if (is_lost()) throw loss_error(held);
    const error named(broken.code(), base::cat(recorded_text(lanes_.recording()->stage() - 1),
                                               " could not be launched: ", broken.what()));
    lose_stage(held, std::make_exception_ptr(named), "a recording");
  }
  drop_ended_stages(held);
}

// Everything that the stage was to write is poisoned.
void context::lose_stage(const lock& held, const std::exception_ptr& cause, const std::string& task,
                         bool known) {
  (void)held;
  std::string names;
  for (const data* each : all_data_) {
    if (is_lost_with_stage(*each)) names += base::cat(names.empty() ? "" : ", ", each->name());
  }
  failed_task* const because =
      failures_.add({cause, last_task_, task, std::move(names), {}}, known);
  for (data* each : all_data_) {
    if (is_lost_with_stage(*each)) each->poison.add(each->version, because);
    forget_lost_copies(*each);
  }
  count_failed();
  stages_.push_back(std::exchange(present_, {}));
  spread_poison();
}

// What a copy of the stage was to bring somewhere is not there.
void context::forget_lost_copies(data& what) noexcept {
  if (what.let_go || is_lost_with_stage(what)) return;
  const std::uint32_t lost = lanes_.recording()->stage() - 1;
  for (const instance& each : what.instances) {
    const bool is_lost = std::any_of(each.ready.begin(), each.ready.end(), [&](completion one) {
      return one.is_recorded() && one.stage() == lost;
    });
    if (is_lost) what.valid.remove(each.place);
  }
}

// The stage was given up a moment ago.
bool context::is_lost_with_stage(const data& what) const noexcept {
  return !what.let_go && what.writer.is_recorded() &&
         what.writer.stage() + 1 == lanes_.recording()->stage();
}

// What bodies hold is the user's, so it is destroyed without the lock.
void context::drop_ended_stages(lock& held) {
  std::vector<kept_stage> ended;
  while (!stages_.empty()) {
    completion_set launch;
    launch.add(stages_.front().launch);
    lanes_.poll(launch);
    if (!lanes_.are_done(launch)) break;
    ended.push_back(std::move(stages_.front()));
    stages_.pop_front();
  }
  if (ended.empty()) return;
  held.unlock();
  ended.clear();
  held.lock();
}

std::string context::native_dot() const {
  const lock held(mutex_);
  if (lanes_.recording() != nullptr) return lanes_.recording()->native_dot();
  throw error(errc::usage,
              "an immediate context has no graph of the machine; open it with use_graph");
}

}  // namespace millstream::core
