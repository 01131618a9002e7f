// SPDX-License-Identifier: Apache-2.0
/// Data come and go; contexts open and end.
#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

#include <millstream/hooks.hpp>

#include "backend/parting.hpp"
#include "base/fork_guard.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "core/blocking.hpp"
#include "core/closing.hpp"
#include "core/context.hpp"
#include "core/open_body.hpp"
#include "core/task_job.hpp"
#include "core/unlocker.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {
namespace {

struct registry {
  std::mutex mutex;  // guards `contexts`; outermost
  std::unordered_set<context*> contexts;
};

// Never destroyed: a queue's thread may drop the last hold on a context while
// static destructors run.
registry& open_contexts() {
  static auto* const all = new registry;
  return *all;
}

[[noreturn]] void refuse_overlap(const registration& what, const data& other) {
  throw error(
      errc::invalid_value,
      base::cat("logical_data ", what.symbol.empty() ? "(unnamed)" : base::quoted(what.symbol),
                " overlaps the memory of ", other.name(),
                "; register the whole buffer once, drop the other data first, or allow the overlap "
                "(allow_overlap), which gives both one order"));
}

/// Lets go of the owners of buffers when a queue comes by.
class owner_job final : public backend::job {
 public:
  explicit owner_job(std::vector<std::shared_ptr<void>> owners) : owners_(std::move(owners)) {}
  void run() noexcept override { delete this; }
  /// The queue is closed, perhaps with locks held, and the buffers may be in use: they are leaked.
  void discard() noexcept override {}

 private:
  ~owner_job() = default;
  std::vector<std::shared_ptr<void>> owners_;
};

}  // namespace

context::context(context_options options)
    : on_(options.on.state().get()),
      listener_(options.listener.get()),
      lost_(on_->driver().loss_flag()),
      lanes_(*on_),
      options_(std::move(options)),
      pools_(*on_, lanes_) {
  if (options_.use_graph) {
    if (!options_.resources) options_.resources.emplace();
    lanes_.record_with(make_recorder(*on_, options_.resources->state()));
  }
  if (options_.stream) lanes_.adopt_caller(*options_.stream);
  const std::scoped_lock hold(open_contexts().mutex);
  open_contexts().contexts.insert(this);
}

context::~context() {
  if (base::forked_child()) {  // the locks' states are those of the parent
    for (auto& each : events_) {
      [[maybe_unused]] const auto* const left = each.release();
    }
    return;
  }
  {
    const std::scoped_lock hold(open_contexts().mutex);
    open_contexts().contexts.erase(this);
  }
  if (phase_ == phase::live) {
    base::log(base::log_level::warning,
              "a context was dropped without finalize; its data were not "
              "written back");
    abandon();
  }
  give_back_resources();
}

// What is still in the queues goes on; everything here is ordered behind it.
void context::give_back_resources() noexcept {
  lanes_.give_up_stage();
  try {
    if (!is_lost()) pools_.trim_all();
  } catch (const error& broken) {
    base::log(base::log_level::warning, base::cat("memory was not given back: ", broken.what()));
  }
  lanes_.close();
  for (auto& each : events_)
    on().give_back(std::move(each));
  events_.clear();
}

data* context::add_data(std::unique_ptr<data> fresh, std::string_view symbol, source_site site) {
  fresh->symbol = symbol;
  fresh->site = site;
  fresh->forks = forks_;
  fresh->position = all_data_.size();
  fresh->listed = true;
  all_data_.push_back(fresh.get());
  return fresh.release();
}

data* context::make_data(std::size_t bytes, std::string_view symbol, source_site site, bool token) {
  check_process();
  check_outside_node(on(), token ? "token" : "logical_data");
  const lock held(mutex_);
  check_takes_work(held, token ? "token" : "logical_data");
  auto fresh = std::make_unique<data>(shared_from_this(), ++last_data_, bytes);
  fresh->token = token;
  return add_data(std::move(fresh), symbol, site);
}

data* context::register_data(const registration& what) {
  check_process();
  check_outside_node(on(), "logical_data");
  if (what.block == nullptr && what.bytes > 0) {
    throw error(errc::invalid_value,
                "logical_data got a null pointer for a buffer with bytes; pass "
                "the buffer's address");
  }
  place_index place = resolve(what.place, host_place, on());
  // Where devices use host memory, a user's buffer is host memory whatever it is called, unless it
  // is a piece of a device's that the user got from us.
  if (on().has(backend::capability::host_memory)) place = simulated_home(what.block);
  strided area = strided_of(what);
  const bool readonly = what.readonly || repeats_a_byte(area);
  std::vector<std::shared_ptr<void>> dropped;
  std::vector<std::shared_ptr<void>> locks;
  lock held(mutex_);
  check_takes_work(held, "logical_data");
  do {
    await_postponed(held, area);
  } while (place == host_place && !keep_pages_locked(held, area, locks));
  retired_.collect_some(lanes_, dropped);
  if (data* same = what.bytes > 0 ? ranges_.find_same(area, readonly) : nullptr) {
    if (what.producer) order_behind(*same, *what.producer);
    same->add_handle_again();
    same->at_rest.store(false, std::memory_order_relaxed);
    if (same->symbol.empty()) {
      const std::scoped_lock hold(names_mutex());
      same->symbol = what.symbol;
    }
    return same;
  }
  const std::vector<data*> sharing = ranges_.find_sharing(area, readonly);
  if (!sharing.empty() && !what.allow_overlap) refuse_overlap(what, *sharing[0]);
  auto fresh = std::make_unique<data>(shared_from_this(), ++last_data_, what.bytes);
  fresh->registered = true;
  fresh->readonly = readonly;
  fresh->written = true;
  fresh->pages_asked = !locks.empty();
  has_locked_pages_ = has_locked_pages_ || fresh->pages_asked;
  fresh->keep_alive = with_locks(what.owner, std::move(locks));
  fresh->home = place;
  fresh->instances.push_back({area.is_packed() ? place : user_place, what.block, {}, 0});
  fresh->valid = place_set::of(fresh->instances[0].place);
  fresh->area = std::move(area);
  if (what.producer) order_behind(*fresh, *what.producer);
  order_behind_retired(*fresh);
  ranges_.add(*fresh);
  has_sharing_ = has_sharing_ || !sharing.empty();
  has_owners_ = has_owners_ || what.owner != nullptr;
  join_sharing(*fresh, sharing);
  return add_data(std::move(fresh), what.symbol, what.site);
}

place_index context::simulated_home(const void* block) {
  auto found = on().driver().home_of(block);
  return found.ok() ? static_cast<place_index>(found.value()) : host_place;
}

// What is in the stream may write the buffer.
void context::order_behind(data& fresh, std::uint64_t producer) {
  const completion filled = lanes_.behind(producer);
  fresh.instances[0].ready.add(filled);
  fresh.readers.add(filled);
}

// The buffer may still be written back to by data that were let go.
void context::order_behind_retired(data& fresh) {
  fresh.retired_before = retired_.count();
  const completion_set uses = retired_.uses_of(fresh.area.low(), fresh.area.span());
  fresh.instances[0].ready.add(uses);
  fresh.readers.add(uses);
}

namespace {

// So that they are seen to end. Without the marks that is when the context ends, at the latest.
void mark_uses(lane_set& lanes, const completion_set& uses) noexcept {
  try {
    for (const completion& each : uses)
      lanes.record(each.lane);
  } catch (const error& broken) {
    base::log(base::log_level::debug, base::cat("a use is not marked: ", broken.what()));
  }
}

}  // namespace

// Memory goes to the pools behind its last use; the user's buffer is held until
// that has ended.
void context::release_content(data& of, std::vector<std::shared_ptr<void>>& dropped) {
  of.let_go = true;
  const completion_set uses = of.uses();
  for (instance& each : of.instances) {
    if (each.block_bytes > 0) pools_.give(each.place, {each.address, each.block_bytes, uses});
  }
  if (of.registered) {
    ranges_.remove(of);
    leave_sharing(of);
    if (lanes_.are_done(uses)) {
      dropped.push_back(std::move(of.keep_alive));
    } else {
      mark_uses(lanes_, uses);
      retired_.add(uses, std::move(of.keep_alive), of.area.low(), of.area.span(),
                   of.retired_before);
    }
  }
  of.instances.clear();
  of.valid = {};
}

// In a function that may not call the driver: another thread does.
void context::let_go_elsewhere(data& what) noexcept {
  try {
    static_cast<void>(
        backend::part_elsewhere({&what, [](data* dropped) { dropped->owner->let_go(*dropped); }}));
  } catch (const std::exception& broken) {
    base::log(base::log_level::error, base::cat("dropping data failed: ", broken.what()));
  }
}

void context::let_go(data& what) noexcept {
  if (base::forked_child()) return;
  if (is_in_node(on())) return let_go_elsewhere(what);
  std::vector<std::shared_ptr<void>> dropped;
  try {
    const lock held(mutex_);
    const bool comes_to_nothing = what.let_go || what.has_handles();
    if (phase_ != phase::live || comes_to_nothing) {
      // Somebody else did it, or has registered the buffer again meanwhile.
    } else if (is_lost()) {
      abandon_content(what, dropped);
    } else if (is_recorder_busy() || (has_host_nodes_ && is_written_back_late(what))) {
      what.poison.watch(what.version);
      what.add_reference();
      postponed_.push_back(&what);
    } else {
      if (what.registered) {
        what.poison.watch(what.version);
        write_back_or_report(held, what);
      }
      release_content(what, dropped);
      retired_.collect_some(lanes_, dropped);
      if (what.has_one_reference()) unlist(what);
    }
  } catch (const std::exception& broken) {
    base::log(base::log_level::error, base::cat("dropping data failed: ", broken.what()));
  }
  what.drop_reference();  // this object may go with the last datum
}

void context::write_back_or_report(const lock& held, data& of) {
  (void)held;
  try {
    const bool looks_late = is_doubtful(of) && is_launched(of);
    write_back(of, /*guarded=*/true, /*recorded=*/lanes_.recording() != nullptr && !looks_late);
  } catch (const error& broken) {
    const error named(broken.code(),
                      base::cat("write-back of ", of.name(), " failed: ", broken.what()));
    failures_.add({std::make_exception_ptr(named), ++last_task_, "write-back", of.name(), of.site},
                  /*known=*/false);
  }
}

void context::forget(data& what) noexcept {
  if (!what.listed || base::forked_child()) return;
  const lock held(mutex_);
  if (!what.let_go) {
    // An abandoned context: no write-back, but the memory is given back in order, and the buffer
    // is held as long as it is in use.
    const completion_set uses = what.uses();
    leave_sharing(what);
    for (instance& each : what.instances) {
      if (each.block_bytes > 0) pools_.give(each.place, {each.address, each.block_bytes, uses});
    }
    std::vector<std::shared_ptr<void>> owners;
    owners.push_back(std::move(what.keep_alive));
    try {
      keep_behind(uses, owners);
    } catch (const std::exception& broken) {
      base::log(base::log_level::error, base::cat("a buffer is kept for good: ", broken.what()));
    }
    if (!owners.empty()) what.keep_alive = std::move(owners[0]);
  }
  unlist(what);
}

void context::unlist(data& what) noexcept {
  all_data_[what.position] = all_data_.back();
  all_data_[what.position]->position = what.position;
  all_data_.pop_back();
  what.listed = false;
}

void context::drain() {
  check_process();
  check_outside_node(on(), "drain");
  lock held(mutex_);
  close_stage(held, "drain");
  drain_lanes(held);
}

void context::drain_lanes(lock& held) {
  while (phase_ != phase::finished) {  // by another thread, while this one waited
    completion_set all;
    for (lane_index i = 0; i < lanes_.size(); ++i) {
      if (!lanes_.is_done(lanes_.tail(i))) all.add(lanes_.tail(i));
    }
    if (all.empty()) return;
    wait_on_host(held, all, {"finalize", "call it after that has ended"});
  }
}

// What host functions and listeners submit is waited for, too.
void context::drain_all(lock& held) {
  do {
    close_stage(held, "finalize");
    drain_lanes(held);
  } while (await_bodies_at_once(held) || await_notices(held) ||
           (lanes_.recording() != nullptr && !lanes_.recording()->is_empty()));
}

void context::finish(std::shared_ptr<void> with) {
  check_process();
  check_outside_node(on(), "finalize");
  if (current_job().owner == this) {
    throw error(errc::deadlock, base::cat("finalize was called inside ", running_task_name(),
                                          " of the same context, which it would have to wait "
                                          "for; call it after that has returned"));
  }
  std::vector<std::shared_ptr<void>> dropped;
  bool unlocks = false;
  std::optional<error> lost;
  {
    lock held(mutex_);
    await_closer(held);
    if (phase_ == phase::finished) return;
    const closing_scope alone(*this, held);
    const bool on_stream = lanes_.has_caller();
    try {
      finish_held(held, with, dropped);
    } catch (const error& broken) {
      if (broken.code() != errc::device_lost || phase_ == phase::finished) throw;
      lost.emplace(loss_error(held));
      finish_lost(held, dropped);
    }
    if (on_stream && !lost) return;
    unlocks = has_locked_pages_ && !lost;
  }
  dropped.clear();
  if (unlocks) await_unlocked_pages();
  drain_retired();
  if (lost) throw std::move(*lost);
}

void context::finish_held(lock& held, std::shared_ptr<void>& with,
                          std::vector<std::shared_ptr<void>>& dropped) {
  if (lanes_.has_caller()) {
    if (phase_ == phase::live) finish_on_stream(held, with);
    return;
  }
  if (phase_ == phase::live) {
    check_no_open_task_of_callers();
    if (is_lost()) throw loss_error(held);
    check_may_await_notices();
    drain_all(held);
    check_no_open_task();
    // Something that this thread was interrupted by may have finished it meanwhile.
    if (phase_ == phase::live) begin_finish(held);
  }
  drain_lanes(held);
  if (phase_ == phase::finishing) close(dropped);
}

// No task is left and none can come: every failure is known.
void context::begin_finish(const lock& held) {
  phase_ = phase::finishing;
  write_back_all(/*guarded=*/false);
  (void)held;
}

// Everything that is left is queued, and the caller's stream comes after it. Which host functions
// will fail is not known yet: queues that run jobs look at their turn, others now.
void context::finish_on_stream(lock& held, std::shared_ptr<void>& with) {
  check_no_open_task_of_callers();
  while (await_bodies_at_once(held)) {
  }
  check_no_open_task();
  close_stage(held, "finalize");
  phase_ = phase::finishing;
  for (data* each : all_data_) {
    if (!each->let_go) each->poison.watch(each->version);
  }
  write_back_all(/*guarded=*/true);
  for (data* each : all_data_) {
    if (!each->let_go) release_content(*each, kept_);
  }
  retired_.take(kept_);
  stages_.push_back(std::exchange(present_, {}));  // see close_lanes
  kept_.push_back(std::make_shared<std::deque<kept_stage>>(std::exchange(stages_, {})));
  drop_postponed(kept_);
  kept_.push_back(std::move(with));
  try {
    join_into_caller(held);
  } catch (...) {
    phase_ = phase::live;
    throw;
  }
  // In the caller's stream, which waits for host functions already. What could not be given back
  // is tried again when the context goes.
  try {
    pools_.trim_all(0);
  } catch (const error& broken) {
    base::log(base::log_level::warning, base::cat("memory was not given back: ", broken.what()));
  }
  if (!lanes_.is_recorded() && lanes_.hand_over_parked()) {
    kept_.push_back(std::make_shared<parked_queue>(options_.on.state()));
  }
  keep_until_passed();
  count_lanes();
  lanes_.close();
  phase_ = phase::finished;
}

// The stream may still use the buffers, whose owners wait for it on the host side. What was
// recorded can run again at any time: there the recorded graph keeps them, and the queues that it
// was recorded from. Where it cannot, they stay with the context, and then the recorder has to keep
// them.
void context::keep_until_passed() {
  if (lanes_.is_recorded()) {
    auto leases = std::make_shared<held_leases>(on());
    lanes_.leave_leases(*leases);
    kept_.push_back(std::move(leases));
    std::erase(kept_, nullptr);
    keep_in_recording(kept_);
    return;
  }
  completion_set stream;
  stream.add(lanes_.tail(0));
  keep_behind(stream, kept_);
}

// Takes the owners if they can be kept there.
void context::keep_in_recording(std::vector<std::shared_ptr<void>>& owners) {
  auto all = std::make_shared<std::vector<std::shared_ptr<void>>>(owners);
  if (lanes_.queue(0).keep(std::move(all)).ok()) owners.clear();
}

// Takes the owners, unless there is nothing to wait for. What cannot be queued is leaked: it may
// be in use.
void context::keep_behind(const completion_set& uses, std::vector<std::shared_ptr<void>>& owners) {
  std::erase(owners, nullptr);
  if (owners.empty() || lanes_.are_done(uses)) return;
  auto* const job = new owner_job(std::move(owners));
  owners.clear();
  const lane_index after = lanes_.shared_host_lane();
  lanes_.wait(after, uses);
  check(lanes_.queue(after).run(*job));
  lanes_.advance(after);
  note_host_end(after);
}

void context::write_back_all(bool guarded) {
  for (data* each : all_data_) {
    if (each->let_go || !each->registered) continue;
    try {
      write_back(*each, guarded);
    } catch (const error& broken) {
      const error named(broken.code(),
                        base::cat("write-back of ", each->name(), " failed: ", broken.what()));
      failures_.add(
          {std::make_exception_ptr(named), ++last_task_, "write-back", each->name(), each->site},
          /*known=*/false);
    }
  }
}

void context::close(std::vector<std::shared_ptr<void>>& dropped) {
  for (data* each : all_data_) {
    if (!each->let_go) release_content(*each, dropped);
  }
  retired_.collect(lanes_, dropped);
  close_lanes(dropped);
}

// Nobody needs the owners of buffers any more, nor anything of the machine's.
void context::close_lanes(std::vector<std::shared_ptr<void>>& dropped) {
  retired_.take(dropped);
  stages_.push_back(std::exchange(present_, {}));  // data that were let go behind the last launch
  dropped.push_back(std::make_shared<std::deque<kept_stage>>(std::exchange(stages_, {})));
  drop_postponed(dropped);
  count_lanes();
  give_back_resources();
  phase_ = phase::finished;
}

// Bodies and owners that hold data, which hold the context, would keep it for good; buffers are
// still written back to by what is in the queues. What is not known to have ended is kept by a lane
// of the host's until then, or by the recording it is a part of.
void context::leave_work(kept_stage& present,
                         std::vector<std::shared_ptr<void>>& dropped) noexcept {
  present = std::exchange(present_, {});
  if (stages_.empty() && retired_.empty()) return;
  try {
    completion_set uses = retired_.uses(lanes_);
    for (const kept_stage& each : stages_)
      uses.add(each.launch);
    retired_.take(dropped);
    if (!stages_.empty()) {
      dropped.push_back(std::make_shared<std::deque<kept_stage>>(std::exchange(stages_, {})));
    }
    if (lanes_.is_recorded()) {
      keep_in_recording(dropped);
      kept_.swap(dropped);  // what the recording did not take stays with the context
    } else if (!is_lost()) {
      keep_behind(uses, dropped);
    }
  } catch (const std::exception& broken) {
    base::log(base::log_level::error,
              base::cat("what a dropped context used is kept for good: ", broken.what()));
  }
}

void context::abandon() noexcept {
  if (base::forked_child()) return;
  std::vector<data*> postponed;
  kept_stage present;
  std::vector<std::shared_ptr<void>> dropped;
  {
    const lock held(mutex_);
    if (phase_ == phase::live) {
      phase_ = phase::abandoned;
      lanes_.give_up_stage();
      postponed.swap(postponed_);
      leave_work(present, dropped);
    }
  }
  for (data* each : postponed)
    each->drop_reference();
  present = {};
  drain_retired();
}

bool context::is_finished() const noexcept {
  const lock held(mutex_);
  return phase_ != phase::live;
}

void context::count_lanes() {
  counts_.queues = lanes_.size();
  counts_.records = lanes_.counts().records;
  counts_.waits = lanes_.counts().waits;
  counts_.recording = recording_counts();
}

context_stats context::stats() const {
  const lock held(mutex_);
  context_stats now = counts_;
  now.tasks = task_count_;
  if (phase_ != phase::finished) {
    now.queues = lanes_.size();
    now.records = lanes_.counts().records;
    now.waits = lanes_.counts().waits;
    now.recording = recording_counts();
  }
  now.allocations = pools_.allocations();
  now.reused_blocks = pools_.reuses();
  now.skipped = skipped_.load(std::memory_order_relaxed);
  now.failed = failed_.load(std::memory_order_relaxed);
  return now;
}

bool synchronize_leased(std::uint64_t stream) {
  std::vector<std::shared_ptr<context>> all;
  {
    const std::scoped_lock hold(open_contexts().mutex);
    for (context* each : open_contexts().contexts) {
      if (auto alive = each->weak_from_this().lock()) all.push_back(std::move(alive));
    }
  }
  bool known = false;
  for (const auto& each : all) {
    lane_index found = no_lane;
    {
      const context::lock held(each->mutex());
      found = each->lanes(held).find(stream);
    }
    if (found == no_lane) continue;
    check_outside_node(each->on(), "synchronize");
    known = true;
    each->synchronize(found);
  }
  return known;
}

void synchronize_adopted(machine& on, std::uint64_t stream) {
  check_outside_node(on, "synchronize");
  // A machine that runs nothing has no streams of others and nothing to wait for.
  if (!on.has(backend::capability::values)) return;
  const adopted_queue what = on.adopt(stream, /*one_thread=*/true);
  auto mark = on.take_event();
  if (!mark) check(mark.take_status());
  check(what.queue->record(*mark.value()));
  const blocking_section blocking;
  for (;;) {
    auto passed = mark.value()->wait_for(wait_slice);
    if (!passed) check(passed.take_status());
    if (passed.value()) break;
    if (blocking.is_interrupted()) {
      throw error(errc::interrupted, "the wait was interrupted; the stream goes on");
    }
  }
  on.give_back(std::move(mark.value()));
}

}  // namespace millstream::core

namespace millstream::inline v1 {

void shut_down(unsigned limit_ms) noexcept {
  using clock = std::chrono::steady_clock;
  base::mark_shut_down();
  core::hurry_notices();
  core::drain_retired();
  const auto limit = clock::now() + std::chrono::milliseconds(limit_ms);
  const core::blocking_section blocking;
  // Jobs end at unknown times on several machines, and this happens once per
  // process: polling is enough.
  while ((core::running_jobs() > 0 || !core::are_notices_told()) && clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace millstream::inline v1
