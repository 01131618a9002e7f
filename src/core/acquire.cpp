// SPDX-License-Identifier: Apache-2.0
/// The start of a task: order, memory, coherence; and the end: publishing its
/// completion.
#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "core/blocking.hpp"
#include "core/context.hpp"

namespace millstream::core {

// The steps of each start are one function for the compiler, although it would not choose so: it
// is shorter without their beginnings and ends, and code is what a task waits for when the driver
// has emptied the caches.

namespace {

// A token has none.
bool has_bytes(const data& what) noexcept {
  return what.bytes > 0;
}

bool has_content(const access& of) noexcept {
  return !of.what->let_go && (of.what->written || of.what->token || !reads(of.mode));
}

std::string place_name(place_index place) {
  if (place == host_place) return "the host";
  if (place == managed_place) return "managed memory";
  return base::cat("device ", place);
}

}  // namespace

void context::refuse_not_live(const lock& held, const char* call) {
  if (phase_ == phase::live && is_lost()) throw loss_error(held);
  throw error(errc::usage, base::cat(call, " was called on a context that was ",
                                     phase_ == phase::abandoned ? "dropped" : "finalized",
                                     closing_ ? " (it is being finalized now)" : "",
                                     "; the context handle is NULL: open a new context"));
}

void context::refuse_content(const plan& of, const data& what) {
  if (what.let_go) {
    throw error(errc::usage,
                base::cat(of.full_name(), " uses ", what.name(), ", whose content was let go"),
                what.name());
  }
  throw error(errc::not_written,
              base::cat(of.full_name(), " reads ", what.name(),
                        ", which nothing has written; write it first or "
                        "register it with a value"),
              what.name());
}

void context::check_contents(plan& of) {
  for (access& each : of.accesses) {
    each.version = each.what->version;
    each.what->at_rest.store(false, std::memory_order_relaxed);
    if (!has_content(each)) refuse_content(of, *each.what);
  }
}

failed_task* context::find_poisoned_input(const plan& of) const {
  for (const access& each : of.accesses) {
    if (!reads(each.mode) || (each.shared && !each.inherited)) continue;
    if (failed_task* because = each.what->poison.find(each.version)) return because;
  }
  return nullptr;
}

// The uses that have to end first. What is implied by another entry is left
// out, so that no wait is issued for it: readers came after the writer, and so
// did the copy that made an instance valid.
void context::collect(const access& of, const instance* at, completion_set& before) const {
  const data& what = *of.what;
  const bool copied = at != nullptr && what.is_valid(of.place) && !at->ready.empty();
  if (writes(of.mode) && !what.readers.empty()) {
    before.add(what.readers);
  } else if (!copied) {
    before.add(what.writer);
  }
  if (at != nullptr) before.add(at->ready);
  if (!reads(of.mode) || !has_bytes(what) || what.is_valid(of.place)) return;
  if (const instance* source = source_of(what, of.place)) before.add(source->ready);
}

// The same where nothing is to be copied.
[[gnu::always_inline]] inline void context::collect_valid(const access& of, const instance* at,
                                                          completion_set& before) {
  const data& what = *of.what;
  const bool waits_for_memory = at != nullptr && !at->ready.empty();
  if (writes(of.mode) && !what.readers.empty()) {
    before.add(what.readers);
  } else if (!waits_for_memory || !what.is_valid(of.place)) {
    before.add(what.writer);
  }
  if (waits_for_memory) before.add(at->ready);
}

void context::collect(const access& of, completion_set& before) const {
  collect(of, has_bytes(*of.what) ? of.what->find(of.place) : nullptr, before);
}

// What `check_contents` does, and what has to end first, in one pass. True if memory or content is
// missing where the task wants it; then nothing else is of use.
[[gnu::always_inline]] inline bool context::look_at_inputs(plan& of, completion_set& before) {
  bool misses = false;
  for (access& each : of.accesses) {
    data& what = *each.what;
    each.version = what.version;
    what.at_rest.store(false, std::memory_order_relaxed);
    if (!has_content(each)) refuse_content(of, what);
    const instance* at = nullptr;
    if (has_bytes(what)) {
      at = what.find(each.place);
      if (at == nullptr || copies_in(each)) {
        misses = true;
        continue;
      }
      each.address = at->address;
    }
    collect_valid(each, at, before);
  }
  return misses;
}

// Where something is missing: what the pools have is taken. True if that is not all.
bool context::attach_instances(plan& of, completion_set& before) {
  before.clear();
  bool misses = false;
  for (access& each : of.accesses) {
    data& what = *each.what;
    const instance* at = nullptr;
    if (has_bytes(what)) {
      at = what.find(each.place);
      if (at == nullptr) at = attach_pooled(each, of.exec);
      if (at != nullptr) each.address = at->address;
      misses = misses || at == nullptr || copies_in(each);
    }
    collect(each, at, before);
  }
  return misses;
}

const instance* context::attach_pooled(access& of, place_index user) {
  auto block = take_pooled(of.place, of.what->bytes, user);
  if (!block) return nullptr;
  of.attached = true;
  return &of.what->instances.emplace_back(
      instance{of.place, block->address, std::move(block->ready), block->bytes});
}

void context::allocate_missing(plan& of) {
  for (access& each : of.accesses) {
    data& what = *each.what;
    if (!has_bytes(what) || what.find(each.place) != nullptr) continue;
    auto block = pools_.allocate(each.place, what.bytes, of.lane);
    if (!block) throw_no_room(each, block.take_status());
    memory_block& made = block.value();
    what.instances.push_back({each.place, made.address, std::move(made.ready), made.bytes});
    each.attached = true;
  }
}

void context::throw_no_room(const access& of, backend::status why) {
  if (why.code() == errc::out_of_memory)
    throw no_room{of.place, of.what->bytes, of.what->name(), why.text()};
  throw error(why.code(), why.text());
}

bool context::copies_in(const access& of) noexcept {
  return has_bytes(*of.what) && reads(of.mode) && !of.what->is_valid(of.place);
}

// A task that cannot start may have left a part of a copy in its lane. That lane may not have been
// told to wait for anything, so that its end does not stand for that of the writer.
void context::keep_behind(const plan& of) {
  if (of.lane == no_lane || is_stale(of)) return;
  const completion end = lanes_.advance(of.lane);
  note_host_end(of.lane);
  for (const access& each : of.accesses) {
    data& what = *each.what;
    what.readers.add(what.writer);
    what.readers.add(end);
    instance* const at = has_bytes(what) ? what.find(each.place) : nullptr;
    if (at == nullptr) continue;
    at->ready.add(what.writer);
    at->ready.add(end);
  }
}

// Undoes the allocations of a task that cannot start.
void context::detach(plan& of) noexcept {
  for (access& each : of.accesses) {
    if (!std::exchange(each.attached, false)) continue;
    each.what->valid.remove(each.place);
    auto& instances = each.what->instances;
    for (std::size_t i = 0; i < instances.size(); ++i) {
      if (instances[i].place != each.place) continue;
      pools_.give(each.place,
                  {instances[i].address, instances[i].block_bytes, std::move(instances[i].ready)});
      instances.erase_swap(i);
      break;
    }
  }
}

void context::copy_in(const access& of, lane_index on, std::uint64_t task_id) {
  data& what = *of.what;
  const instance* source = source_of(what, of.place);
  if (source == nullptr) {
    throw error(errc::internal, base::cat(what.name(), " has no valid instance"));
  }
  instance& target = *what.find(of.place);
  const completion end =
      copy(what, *source, target.address, of.place, on, copy_reason::coherence, task_id, nullptr);
  target.ready.clear();
  target.ready.add(end);
  if (is_at_home(of)) note_brought_home(what, end);
  what.valid.add(of.place);
  // The copy reads the source: the next writer comes after it.
  what.readers.add(end);
}

// What a failed task left is not worth copying.
void context::skip_spoiled_copy(const access& of) {
  data& what = *of.what;
  if (of.shared && what.poison.find(of.version) != nullptr) what.valid.add(of.place);
}

void context::copy_inputs(plan& of, bool shared) {
  for (access& each : of.accesses) {
    data& what = *each.what;
    if (each.shared != shared || !has_bytes(what)) continue;
    skip_spoiled_copy(each);
    if (copies_in(each)) copy_in(each, of.lane, of.id);
    each.address = what.find(each.place)->address;
  }
}

void context::apply_writes(plan& of) {
  for (access& each : of.accesses) {
    if (!writes(each.mode)) continue;
    data& what = *each.what;
    each.valid_before = what.valid;
    each.written_before = what.written;
    ++what.version;
    what.written = true;
    if (has_bytes(what)) what.valid = place_set::of(each.place);
  }
}

// No conflicting task came in between, because this one is open.
void context::undo_writes(const lock& held, const plan& of) noexcept {
  (void)held;
  for (const access& each : of.accesses) {
    if (!writes(each.mode)) continue;
    data& what = *each.what;
    --what.version;
    what.written = each.written_before;
    what.valid = each.valid_before;
  }
}

// A reader that goes on in the lane of the writer hides the writer's end:
// whoever waits for it later from another lane would wait for the reader too.
// Where the datum's versions are read from several lanes, the end is recorded
// before it is overtaken.
void context::record_before_overtaking(const plan& of) {
  for (const access& each : of.accesses) {
    const data& what = *each.what;
    if (writes(each.mode) || !what.forks || what.writer.lane != of.lane) continue;
    if (what.writer.sequence == lanes_.at(of.lane).tail) {
      lanes_.record(of.lane);
      return;
    }
  }
}

[[gnu::always_inline]] inline void context::acquire(plan& of, completion_set* in_caller,
                                                    bool misses) {
  completion_set& before = before_;
  if (misses) misses = attach_instances(of, before);
  if (lanes_.recording() != nullptr) {
    before = lanes_.settled(before);
    if (outside_.empty()) outside_ = of.full_name();
  }
  of.lane = lanes_.choose(of.exec, before);
  record_before_overtaking(of);
  if (in_caller == nullptr || misses) lanes_.wait(of.lane, before);
  if (misses || !of.shared.empty()) {
    allocate_missing(of);
    // What others have in common with the inputs comes to the user's buffer first.
    copy_inputs(of, /*shared=*/true);
    copy_inputs(of, /*shared=*/false);
  }
  if (in_caller != nullptr) {
    *in_caller = before;
    add_caller(*in_caller);
    if (misses) {
      in_caller->add(lanes_.tail(of.lane));
      note_host_end(of.lane);
    }
  }
  apply_writes(of);
  note_derivation(of);
  if (has_host_nodes_) note_doubt(of);
}

// All of a context on a caller's stream comes after what was in that, also what the host does.
void context::add_caller(completion_set& before) {
  if (!lanes_.has_caller() || lanes_.is_recorded() || lanes_.is_done({0, 1})) return;
  const lane_index idle = lanes_.idle_host_lane();
  before.add(lanes_.tail(idle));
  note_host_end(idle);
}

[[gnu::always_inline]] inline void context::start_once(lock& held, plan& of,
                                                       completion_set* in_caller) {
  if (!takes_work() || (has_owners_ && lock_pages_of(held, of) && !is_live())) {
    refuse_not_live(held, of.call());
  }
  do {
    if (!open_.empty()) wait_for_open_tasks(held, of);
  } while ((has_sharing_ && add_shared(of)) ||
           (lanes_.recording() != nullptr && wait_for_stage(held, of, in_caller != nullptr)) ||
           (of.kind == task_kind::add_graph && await_buffers(held, of)));
  if (closing_) check_takes_work(held, of.call());  // it may have begun meanwhile
  const bool recorded = is_to_be_recorded(of, in_caller != nullptr);
  before_.clear();  // keeps its room from task to task
  bool misses = false;
  if (recorded) {
    check_contents(of);
  } else {
    misses = look_at_inputs(of, before_);
  }
  if (of.id == 0) {
    of.id = ++last_task_;
    ++task_count_;
  }
  if (failed_task* because = poisoned_input(of)) throw poisoned_start{because};
  try {
    if (recorded) {
      acquire_recorded(of);
    } else {
      acquire(of, in_caller, misses);
    }
  } catch (const error& broken) {
    if (is_lost()) {
      detach(of);
      throw loss_error(held);
    }
    keep_behind(of);
    detach(of);
    const error named(broken.code(),
                      base::cat(of.full_name(), " could not start: ", broken.what()));
    fail(held, of, std::make_exception_ptr(named), true);
    throw named;
  } catch (...) {
    if (of.lane != no_lane && !is_stale(of)) note_host_end(of.lane);
    detach(of);
    throw;
  }
}

void context::start(lock& held, plan& of, completion_set* in_caller) {
  for (bool reclaimed = false;;) {
    const std::uint64_t ends = on().host_end_count();
    try {
      start_once(held, of, in_caller);
      return;
    } catch (const no_room& lack) {
      if (std::exchange(reclaimed, true)) give_up_for_room(held, of, lack);
      reclaim(held, lack.place);
    } catch (const held_back& by) {
      wait_for_host_end(held, ends, by.behind);
    }
  }
}

void context::give_up_for_room(const lock& held, const plan& of, const no_room& lack) {
  const error full(errc::out_of_memory,
                   base::cat(of.full_name(), " has no room: ", lack.why, "; ", memory_report(lack)),
                   lack.data);
  fail(held, of, std::make_exception_ptr(full), true);
  throw full;
}

void context::wait_for_host_end(lock& held, std::uint64_t seen, const completion_set& behind) {
  std::vector<awaited_position> positions;
  for (const completion& each : behind)
    positions.push_back({this, each});
  held.unlock();
  bool interrupted = false;
  try {
    const wait_registration registered(
        {}, positions,
        deadlock_text({"work for a device", "end the open task of this thread first"}).c_str());
    const blocking_section blocking;
    // No longer than a slice: the caller looks again, by the marks as well.
    if (!on().wait_for_host_end(seen, wait_slice)) interrupted = blocking.is_interrupted();
  } catch (...) {
    held.lock();
    throw;
  }
  held.lock();
  lanes_.poll_host_ends();
  if (interrupted) throw error(errc::interrupted, "the task was interrupted before it began");
}

// Gives pooled blocks back to the machine and waits until it has them.
void context::reclaim(lock& held, place_index place) {
  close_stage(held, "a task that has no room");
  const lane_index order = choose_in_turn(
      held, lane_place(place), [&] { return pools_.uses(place); }, "a task without room");
  if (pools_.trim(place, order) == 0) return;
  note_host_end(order);
  completion_set freed;
  freed.add(lanes_.tail(order));
  wait_on_host(held, freed, {"waiting for memory", "drop data that are no longer needed"});
}

std::string context::memory_report(const no_room& lack) const {
  const place_index place = lack.place;
  std::vector<const data*> largest;
  for (const data* each : all_data_) {
    for (const instance& at : each->instances) {
      if (at.place == place && at.block_bytes > 0) largest.push_back(each);
    }
  }
  std::sort(largest.begin(), largest.end(),
            [](const data* a, const data* b) { return a->bytes > b->bytes; });
  if (largest.size() > 5) largest.resize(5);
  std::string text =
      base::cat(lack.data, " needs ", base::bytes_text(lack.bytes), " on ", place_name(place));
  if (largest.empty()) return text + ", where this context keeps nothing; use smaller data";
  text += ", where the largest data are ";
  for (std::size_t i = 0; i < largest.size(); ++i) {
    text += base::cat(i == 0 ? "" : ", ", largest[i]->name(), " with ",
                      base::bytes_text(largest[i]->bytes));
  }
  return text + "; drop data that are no longer needed";
}

void context::publish(const lock& held, const plan& of, completion end) {
  (void)held;
  note_recent(of, end);
  for (const access& each : of.accesses)
    publish(each, end);
}

[[gnu::always_inline]] inline void context::publish(const access& of, completion end) {
  data& what = *of.what;
  if (!writes(of.mode)) {
    what.readers.add(end);
    if (end.is_past()) return;
    what.read_from_many =
        what.read_from_many || (what.read_from != no_lane && what.read_from != end.lane);
    what.read_from = end.lane;
    return;
  }
  if (what.read_from != no_lane) forks_ = what.forks = what.read_from_many;
  what.read_from = no_lane;
  what.read_from_many = false;
  if (of.shared) carry_poison(of);
  what.writer = end;
  what.readers.clear();
  if (instance* at = what.find(of.place)) at->ready.clear();
}

// `publish` and `remove_open` in one pass.
void context::end_shortly(const lock& held, open_body& body, completion end) {
  const plan& of = body.started();
  note_recent(of, end);
  for (const access& each : of.accesses) {
    publish(each, end);
    --each.what->open_count(each.mode);
  }
  --lanes_.at(of.lane).open;
  forget_open(held, body);
}

failed_task* context::fail(const lock& held, const plan& of, std::exception_ptr cause, bool known) {
  count_failed();
  failure what{std::move(cause), of.id, of.name(), of.written_names(), of.site};
  what.captured = is_body_captured(of);
  failed_task* because = failures_.add(std::move(what), known);
  poison_outputs(held, of, *because);
  return because;
}

// Device queues that do not run jobs cannot look for poison when their turn
// comes. While a host function is unfinished, what they derive from what is
// remembered here.
void context::note_derivations(const plan& of) {
  if (of.exec == host_place || on().has(backend::capability::runs_jobs)) return;
  derivation noted;
  for (const access& each : of.accesses) {
    if (reads(each.mode) && (!each.shared || each.inherited)) {
      noted.from.push_back({each.what, each.version});
    }
    if (writes(each.mode)) noted.to.push_back({each.what, each.version + 1});
  }
  keep_derivation(std::move(noted));
  for (const access& each : of.accesses) {
    if (!each.shared || !writes(each.mode)) continue;
    derivation carried;
    carried.from.push_back({each.what, each.version});
    carried.to.push_back({each.what, each.version + 1});
    keep_derivation(std::move(carried));
  }
}

void context::spread_now(const plan& of, failed_task& because) {
  if (of.exec == host_place || on().has(backend::capability::runs_jobs)) return;
  for (const access& each : of.accesses) {
    if (writes(each.mode)) each.what->poison.add(each.version + 1, &because);
  }
}

namespace {

void spread(const derivation& along) {
  for (const derived_version& from : along.from) {
    failed_task* const because = from.what->poison.find(from.version);
    if (because == nullptr) continue;
    for (const derived_version& to : along.to)
      to.what->poison.add(to.version, because);
    break;
  }
}

}  // namespace

void context::keep_derivation(derivation&& noted) {
  if (noted.from.empty() || noted.to.empty()) return;
  for (const derived_version& each : noted.from)
    each.what->add_reference();
  for (const derived_version& each : noted.to)
    each.what->add_reference();
  const std::scoped_lock hold(derivations_mutex_);
  spread(noted);  // a host node may have failed a moment ago
  derivations_.push_back(std::move(noted));
}

// In submission order, so that one pass reaches everything.
void context::spread_poison() {
  const std::scoped_lock hold(derivations_mutex_);
  for (const derivation& each : derivations_)
    spread(each);
}

void context::host_lane_ended() noexcept {
  std::vector<derivation> settled;
  {
    const lock held(mutex_);
    lanes_.unpark();
    lanes_.forget_settled();
    on().note_host_end();
    const std::scoped_lock hold(derivations_mutex_);
    if (!lanes_.has_unfinished_host_job()) settled.swap(derivations_);
  }
  for (const derivation& each : settled) {
    for (const derived_version& from : each.from)
      from.what->drop_reference();
    for (const derived_version& to : each.to)
      to.what->drop_reference();
  }
}

void context::poison_outputs(const lock& held, const plan& of, failed_task& because) {
  (void)held;
  for (const access& each : of.accesses) {
    if (!writes(each.mode)) continue;
    data& what = *each.what;
    // A task that never started has not counted its writes yet.
    if (what.version == each.version) {
      ++what.version;
      what.written = true;
    }
    what.poison.add(each.version + 1, &because);
  }
}

}  // namespace millstream::core
