// SPDX-License-Identifier: Apache-2.0
/// Copies: coherence, write-back, read-back; and waiting for them on the host.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/block_pool.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "core/blocking.hpp"
#include "core/context.hpp"
#include "core/late_copy.hpp"
#include "core/task_job.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {
namespace {

[[noreturn]] void refuse_wait_in_capture() {
  throw error(errc::usage,
              "waiting on the host is not possible while the caller's stream is being captured; "
              "wait after the capture has ended");
}

/// Tells the listener when a queue comes by.
class stamp_job final : public backend::job {
 public:
  stamp_job(std::shared_ptr<trace_listener> told, std::uint64_t id, bool end)
      : told_(std::move(told)), id_(id), end_(end) {}
  void run() noexcept override {
    if (end_) {
      told_->ended(id_, base::now_ns(), outcome::done);
    } else {
      told_->began(id_, base::now_ns());
    }
    discard();
  }
  void discard() noexcept override { delete this; }

 private:
  ~stamp_job() = default;
  std::shared_ptr<trace_listener> told_;
  std::uint64_t id_;
  bool end_;
};

/// Keeps a datum's object until a queue comes by.
class hold_job final : public backend::job {
 public:
  explicit hold_job(data& what) : what_(what) { what.add_reference(); }
  void run() noexcept override {
    what_.drop_reference();
    delete this;
  }
  /// The queue is closed, perhaps with locks held: the datum is left alone.
  void discard() noexcept override { delete this; }

 private:
  ~hold_job() = default;
  data& what_;
};

/// Notes how far a host lane has come. Not an operation of the lane by number: device queues that
/// wait for what is before it do not wait for this.
class end_job final : public backend::job {
 public:
  static end_job* make(std::shared_ptr<context> in, lane& of) {
    return new (base::take_block(sizeof(end_job))) end_job(std::move(in), of);
  }
  void run() noexcept override {
    settled_.store(sequence_, std::memory_order_release);
    in_->host_lane_ended();
    discard();
  }
  void discard() noexcept override {
    this->~end_job();
    base::give_block(this, sizeof(end_job));
  }

 private:
  end_job(std::shared_ptr<context> in, lane& of)
      : in_(std::move(in)), settled_(of.settled), sequence_(of.tail) {}
  ~end_job() = default;
  std::shared_ptr<context> in_;
  std::atomic<std::uint64_t>& settled_;  // of the lane, which lives as long as the context
  std::uint64_t sequence_;
};

constexpr host_wait_text self_wait{"a wait", "wait after that body has ended"};

/// A copy between a packed block and a buffer that is not packed. `request` has the addresses of
/// both and the bytes of the packed one.
struct scattered {
  backend::queue& queue;
  const strided& area;
  backend::copy_request request;
  bool home;  ///< into the buffer
};

void fill_axes(scattered& what, std::size_t from, std::size_t bytes) {
  const auto& axes = what.area.axes;
  what.request.rank = static_cast<std::uint32_t>(axes.size() - from);
  for (std::size_t i = 0; i < what.request.rank; ++i) {
    bytes /= axes[from + i].extent;
    what.request.extents[i] = axes[from + i].extent;
    const auto packed = static_cast<std::ptrdiff_t>(bytes);
    what.request.to_strides[i] = what.home ? axes[from + i].stride : packed;
    what.request.from_strides[i] = what.home ? packed : axes[from + i].stride;
  }
}

// A copy has at most four axes; what is outside of these is a loop.
backend::status copy_axes(scattered what, std::size_t axis, std::size_t bytes) {
  const auto& axes = what.area.axes;
  if (axes.size() - axis <= backend::max_block_rank) {
    fill_axes(what, axis, bytes);
    return what.queue.copy(what.request);
  }
  bytes /= axes[axis].extent;
  const std::ptrdiff_t apart = axes[axis].stride;
  const auto packed = static_cast<std::ptrdiff_t>(bytes);
  for (std::size_t i = 0; i < axes[axis].extent; ++i) {
    backend::status queued = copy_axes(what, axis + 1, bytes);
    if (!queued.ok()) return queued;
    what.request.to = static_cast<std::byte*>(what.request.to) + (what.home ? apart : packed);
    what.request.from =
        static_cast<const std::byte*>(what.request.from) + (what.home ? packed : apart);
  }
  return {};
}

backend::status scatter_copy(backend::queue& queue, const strided& area,
                             const backend::copy_request& request, bool home) {
  return copy_axes({queue, area, request, home}, 0, request.bytes());
}

/// Blocks until a copy has ended after something failed: the memory of a caller that gets an
/// exception goes with it. Asked again, with another mark each time, a driver that failed once most
/// likely answers.
void outlast(context& in, context::lock& held, const completion_set& copied) noexcept {
  constexpr int most_attempts = 8;
  for (int i = 0; i < most_attempts; ++i) {
    try {
      in.wait_on_host(held, copied, self_wait, /*may_interrupt=*/false);
      return;
    } catch (const std::exception& broken) {
      base::log(base::log_level::debug, base::cat("a copy is waited for again: ", broken.what()));
    }
  }
}

}  // namespace

std::string deadlock_text(const host_wait_text& text) {
  const std::string running = running_task_name();
  if (running.empty()) {
    return base::cat(text.who, " would wait for work that waits for this thread; ", text.way_out);
  }
  return base::cat(text.who, " inside ", running, " would wait for that body itself; ",
                   text.way_out);
}

// Times of copies and fills are known where queues run jobs; elsewhere they
// stay 0.
void context::stamp(lane_index on_lane, std::uint64_t id, bool end) {
  if (listener() == nullptr) return;
  if (completion{on_lane, 0}.is_recorded()) return;  // a node for each stamp would cost too much
  if (lanes_.at(on_lane).place != host_place && !on().has(backend::capability::runs_jobs)) return;
  auto* const job = new stamp_job(options_.listener, id, end);
  if (!lanes_.queue(on_lane).run(*job).ok()) job->discard();
  lanes_.advance(on_lane);
}

// Work for devices that has to come after anything in a host lane waits here until that has ended
// (lane_set::choose). So the ends have to be known, and only when queues that do wait for them have
// been let go. Nothing of a context that is being destroyed waits.
void context::note_host_end(lane_index on_lane) {
  if (completion{on_lane, 0}.is_recorded() || weak_from_this().expired()) return;
  if (lanes_.at(on_lane).place != host_place || on().has(backend::capability::runs_jobs)) return;
  lanes_.mark_host_end(on_lane);
  end_job* const job = end_job::make(shared_from_this(), lanes_.at(on_lane));
  if (!lanes_.queue(on_lane).run(*job).ok()) job->discard();
}

// A host node may use the user's buffer before the copy or after it, in one stage: a task, or a
// copy that is at its turn, too.
bool context::is_beside_host_nodes(const data& of, const instance& from, place_index to_place,
                                   lane_index on_lane) const noexcept {
  if (!has_host_nodes_ || !of.registered || !completion{on_lane, 0}.is_recorded()) return false;
  const place_index buffer = of.instances[0].place;
  if (to_place == buffer) return true;
  const bool is_written_now =
      (of.writer.is_recorded() && !is_launched(of)) || !lanes_.are_launched(from.ready);
  return from.place == buffer && (is_written_now || to_place == host_place);
}

backend::status context::queue_copy(data& of, const instance& from, void* to, place_index to_place,
                                    lane_index on_lane, const std::atomic<void*>* skip_when) {
  auto request =
      backend::copy_request::contiguous(to, home_of(of.memory_of(to_place)), from.address,
                                        home_of(of.memory_of(from.place)), of.bytes);
  request.skip_when = skip_when;
  request.at_its_turn = is_beside_host_nodes(of, from, to_place, on_lane);
  if (request.at_its_turn && to_place == of.instances[0].place) present_.writes_by_host = true;
  backend::queue& queue = lanes_.queue(on_lane);
  if (from.place != user_place && to_place != user_place) return queue.copy(request);
  return scatter_copy(queue, of.area, request, /*home=*/to_place == user_place);
}

completion context::copy(data& of, const instance& from, void* to, place_index to_place,
                         lane_index on_lane, copy_reason why, std::uint64_t task_id,
                         const std::atomic<void*>* skip_when) {
  const std::uint64_t id = listener() != nullptr ? ++last_task_ : 0;
  if (trace_listener* told = listener()) {
    told->submitted(copy_info{id, task_id, why, of.id, of.symbol, of.memory_of(from.place),
                              of.memory_of(to_place), of.bytes, lanes_.queue(on_lane).handle()});
  }
  stamp(on_lane, id, /*end=*/false);
  backend::status queued = queue_copy(of, from, to, to_place, on_lane, skip_when);
  const completion end = lanes_.advance(on_lane);
  const bool by_host = !end.is_recorded() && lanes_.at(on_lane).place == host_place;
  if (by_host && (of.memory_of(from.place) >= 0 || of.memory_of(to_place) >= 0)) {
    lanes_.at(on_lane).last_move = end.sequence;
    if (queued && why != copy_reason::read_back && has_late_copies(on())) {
      queued =
          poison_if_copy_fails(lanes_.queue(on_lane), of, why, task_id != 0 ? task_id : last_task_);
    }
  }
  if (!queued) {
    of.readers.add(end);  // a part of it may be in the lane
    note_host_end(on_lane);
    check(std::move(queued));
  }
  ++counts_.copies;
  counts_.copied_bytes += of.bytes;
  stamp(on_lane, id, /*end=*/true);
  note_host_end(on_lane);
  return end;
}

// Another device where devices reach each other, else the host, else whatever
// is valid.
const instance* context::source_of(const data& of, place_index near) const noexcept {
  const bool prefer_device = near >= 0 && on().has(backend::capability::peer);
  const instance* best = nullptr;
  for (const instance& each : of.instances) {
    if (!of.is_valid(each.place)) continue;
    if (each.place == near) return &each;
    if (best == nullptr || (each.place >= 0) == prefer_device) best = &each;
  }
  return best;
}

// The host's own lanes copy too, where no lane of the device may wait for a
// host function.
lane_index context::copy_lane(place_index place, const completion_set& before) {
  try {
    return lanes_.choose(place, before);
  } catch (const held_back&) {
    return lanes_.choose(host_place, before);
  }
}

// Brings the user's buffer up to date, if it is not. With `guarded`, failures
// are not all known yet: the copy looks at the poison record when its turn
// comes.
void context::write_back(data& of, bool guarded, bool recorded) {
  instance& home = of.instances[0];
  if (!of.registered || of.bytes == 0 || of.readonly || of.is_valid(home.place)) return;
  if (!guarded && of.poison.find(of.version) != nullptr) return;
  const instance* source = source_of(of, home.place);
  if (source == nullptr) return;  // never written with success
  completion_set before = of.readers;
  before.add(of.writer);
  before.add(home.ready);
  before.add(source->ready);
  const place_index near = lane_place(of.memory_of(source->place));
  const lane_index on_lane = recorded ? lanes_.open_recorded(near) : copy_lane(near, before);
  lanes_.wait(on_lane, before);
  const completion end = copy(of, *source, home.address, home.place, on_lane,
                              copy_reason::write_back, 0, guarded ? &of.poison.word() : nullptr);
  home.ready.clear();
  home.ready.add(end);
  note_brought_home(of, end);
  of.valid.add(home.place);
  of.readers.add(end);
  if (guarded) hold_until(of, on_lane);
}

// What others have in common with it is read there only after that.
void context::note_brought_home(data& what, completion end) {
  for (data* const other : what.sharing) {
    if (!other->instances.empty()) other->instances[0].ready.add(end);
  }
}

// What it shares with others has to be in the user's buffer before it is read there.
void context::bring_home(data& shared, completion_set& before) {
  write_back(shared, /*guarded=*/false);
  before.add(shared.instances[0].ready);
  before.add(shared.writer);
}

// A queue that runs jobs looks at the guard when the copy's turn comes, so the datum has to be
// there until then.
void context::hold_until(data& of, lane_index on_lane) {
  if (completion{on_lane, 0}.is_recorded()) {
    of.add_reference();
    present_.owners.emplace_back(&of, [](data* held) { held->drop_reference(); });
    return;
  }
  const bool looks_late =
      lanes_.at(on_lane).place == host_place || on().has(backend::capability::runs_jobs);
  if (!looks_late || !on().has(backend::capability::values)) return;
  auto* const job = new hold_job(of);
  // On failure the datum is leaked: whether the copy still comes is not known.
  if (lanes_.queue(on_lane).run(*job).ok()) lanes_.advance(on_lane);
  note_host_end(on_lane);
}

void context::wait_on_host(lock& held, const completion_set& asked, host_wait_text text,
                           bool may_interrupt) {
  const completion_set what = lanes_.settled(asked);
  const running_job self = current_job();
  // What is in front of a running job in its lane has ended.
  if (self.owner == this) {
    lanes_.note_done({self.position.lane, self.position.sequence - 1});
  }
  if (lanes_.is_recorded() && !lanes_.are_done(what)) refuse_wait_in_capture();
  base::small_vector<host_wait, 4> waits;
  std::vector<awaited_position> positions;
  for (const completion& each : what) {
    if (lanes_.is_done(each)) continue;
    waits.push_back({take_event(), lanes_.tail(each.lane)});
    check(lanes_.queue(each.lane).record(*waits.back().event));
    positions.push_back({this, waits.back().reached});
    const std::vector<std::uint64_t>& clock = lanes_.at(each.lane).clock;
    for (lane_index i = 0; i < clock.size(); ++i)
      positions.push_back({this, {i, clock[i]}});
  }
  if (waits.empty()) return;
  ++counts_.host_waits;
  held.unlock();
  backend::status broken;
  bool interrupted = false;
  try {
    const wait_registration registered({}, positions, deadlock_text(text).c_str());
    const blocking_section blocking;
    for (host_wait& each : waits) {
      for (bool reached = false; !reached && broken.ok() && !interrupted;) {
        auto answer = each.event->wait_for(wait_slice);
        if (!answer) broken = answer.take_status();
        reached = answer.ok() && answer.value();
        interrupted = !reached && may_interrupt && blocking.is_interrupted();
      }
    }
  } catch (...) {
    held.lock();
    for (host_wait& each : waits)
      events_.push_back(std::move(each.event));
    throw;
  }
  held.lock();
  for (host_wait& each : waits) {
    if (broken.ok() && !interrupted) lanes_.note_done(each.reached);
    events_.push_back(std::move(each.event));
  }
  if (!broken.ok() && is_lost()) throw loss_error(held);
  check(std::move(broken));
  if (interrupted) throw error(errc::interrupted, "the wait was interrupted; the context goes on");
}

std::unique_ptr<backend::event> context::take_event() {
  if (!events_.empty()) {
    auto taken = std::move(events_.back());
    events_.pop_back();
    return taken;
  }
  auto made = on().take_event();
  if (!made) check(made.take_status());
  return std::move(made.value());
}

const plan* context::captured_from(const lock& held, std::uint64_t queue) {
  (void)held;
  for (const open_body* each : open_recorded_) {
    const plan& of = each->started();
    if (!is_body_captured(of) || is_stale(of)) continue;
    if (lanes_.queue_number(of.lane) == queue) return &of;
  }
  return nullptr;
}

// What is captured has not run, so that nothing but the rest of that capture can come after it. A
// stream that the body took into the capture does already.
void context::order_in_capture(const plan& task, std::uint64_t later, std::uint64_t queue) {
  const adopted_queue behind = on().adopt(later, /*one_thread=*/true);
  backend::result<bool> captured = behind.queue->is_capturing();
  if (!captured.ok() || !captured.value()) {
    throw error(errc::usage,
                base::cat(task.full_name(), " is being recorded, and stream ", later,
                          " is not, so that what is queued there runs now, before the task; "
                          "make the task's stream (",
                          queue, ") the current one, as pytorch_task does, or ask for that one"));
  }
  const adopted_queue body = on().adopt(queue, /*one_thread=*/true);
  auto mark = take_event();
  check(body.queue->record(*mark));
  check(behind.queue->wait(*mark));
  events_.push_back(std::move(mark));
}

// A body may have queued more since the lane's mark was set.
void context::order(std::uint64_t later, std::uint64_t queue) {
  if (later == queue) return;
  check_process();
  check_outside_node(on(), "order");
  const lock held(mutex_);
  const lane_index from = lanes_.find(queue);
  if (from == no_lane) {
    if (const plan* task = captured_from(held, queue)) return order_in_capture(*task, later, queue);
    throw error(errc::usage, base::cat("queue ", queue, " belongs to no task of this context"));
  }
  // What is in a host lane has ended for whoever knows its number: a body, or an open task.
  const bool is_host = !completion{from, 0}.is_recorded() && lanes_.place_of(from) == host_place;
  if (is_host && !on().has(backend::capability::runs_jobs)) return;
  const adopted_queue adopted = on().adopt(later, /*one_thread=*/true);
  auto mark = take_event();
  check(lanes_.queue(from).record(*mark));
  check(adopted.queue->wait(*mark));
  events_.push_back(std::move(mark));
}

plan context::plan_of_wait(const task_dep& dep, const char* reader) {
  check_process();
  check_outside_node(on(), reader);
  task_spec spec;
  spec.deps = {&dep, 1};
  plan of;
  make_plan(*this, spec, of);
  of.reader = reader;
  of.accesses[0].place = host_place;
  return of;
}

// What is brought home is not looked at when its turn comes.
bool context::await_shared(lock& held, const plan& of) {
  return has_host_nodes_ &&
         std::any_of(of.accesses.begin() + 1, of.accesses.end(),
                     [&](const access& each) { return await_doubt(held, *each.what, of); });
}

// What has to end before the content can be read. Unlocks while open tasks are in the way.
completion_set context::before_content(lock& held, plan& of) {
  do {
    wait_for_open_tasks(held, of);
  } while (add_shared(of) || close_stage(held, of.call()) || await_shared(held, of));
  check_contents(of);
  completion_set before;
  for (std::size_t i = 1; i < of.accesses.size(); ++i)
    bring_home(*of.accesses[i].what, before);
  collect(of.accesses[0], before);
  before.add(of.accesses[0].what->writer);
  add_caller(before);
  return before;
}

// If another thread wrote meanwhile, that is the content now.
void context::await_content(lock& held, plan& of) {
  check_takes_work(held, "wait");
  const data& what = *of.accesses[0].what;
  for (;;) {
    wait_on_host(held, before_content(held, of), self_wait);
    check_live(held, "wait");
    if (what.version == of.accesses[0].version && is_launched(what)) break;
  }
  failed_task* const because = what.poison.find(of.accesses[0].version);
  if (because == nullptr) return;
  const std::string name = what.name();
  held.unlock();
  throw_poisoned("wait", name, *because);
}

void context::await_content(data& what) {
  what.add_handle();
  const task_dep dep{untyped_data::adopt(&what), access_mode::read, {}, {}};
  plan of = plan_of_wait(dep, "wait");
  lock held(mutex_);
  await_content(held, of);
}

void context::read_back(data& what, void* to) {
  what.add_handle();
  const task_dep dep{untyped_data::adopt(&what), access_mode::read, {}, {}};
  plan of = plan_of_wait(dep, "wait");
  std::vector<std::shared_ptr<void>> dropped;
  lock held(mutex_);
  read_turn turn;
  // The content first, then the copy: an interrupt finds nothing that still writes to `to`.
  do {
    await_content(held, of);
  } while (what.bytes > 0 && !copy_out(held, what, to, turn));
  retired_.collect(lanes_, dropped);
  held.unlock();
}

lane_index context::read_lane(place_index memory, const completion_set& before) {
  const place_index near = lane_place(memory);
  return near == host_place ? lanes_.idle_host_lane() : copy_lane(near, before);
}

// Few bytes go through page-locked memory: a copy from a device to other memory is staged by other
// threads, which takes longer than the copy. What goes to `to` is queued only where nothing is
// before it: a wait for it might be refused, and `to` may go then while the copy is still to come.
bool context::copy_out(lock& held, data& what, void* to, read_turn& turn) {
  constexpr std::size_t most_bounced_bytes = std::size_t{1} << 16U;
  const instance* source = source_of(what, host_place);
  if (source == nullptr) return true;
  if (lanes_.is_recorded()) refuse_wait_in_capture();
  const place_index memory = what.memory_of(source->place);
  const bool bounces =
      what.bytes <= most_bounced_bytes && memory != host_place && has_copies_by_pages();
  if (turn.lane == no_lane || turn.memory != memory) {
    turn = {read_lane(memory, source->ready), memory};
  }
  const lane_index on_lane = turn.lane;
  if (!bounces && await_turn(held, on_lane, source->ready)) return false;
  lanes_.wait(on_lane, source->ready);
  memory_block bounce;
  if (bounces) {
    bounce = take_block(host_place, what.bytes, on_lane);
    lanes_.wait(on_lane, bounce.ready);
  }
  void* const target = bounce.address != nullptr ? bounce.address : to;
  std::shared_ptr<backend::status> failed;  // where that is known only at the copy's turn
  completion_set copied;
  try {
    copied.add(
        copy(what, *source, target, host_place, on_lane, copy_reason::read_back, 0, nullptr));
    what.readers.add(copied);
    if (lanes_.place_of(on_lane) == host_place && has_late_copies(on())) {
      failed = std::make_shared<backend::status>();
      check(tell_if_copy_fails(lanes_.queue(on_lane), failed));
    }
    wait_on_host(held, copied, self_wait, /*may_interrupt=*/false);
    if (failed != nullptr) check(std::move(*failed));
  } catch (...) {
    bounce.ready.clear();
    bounce.ready.add(lanes_.tail(on_lane));  // a part of the copy may be on its way
    if (bounce.address == nullptr) outlast(*this, held, bounce.ready);
    pools_.give(host_place, std::move(bounce));
    throw;
  }
  bounce.ready = std::move(copied);
  if (bounce.address == nullptr) return true;
  std::memcpy(to, bounce.address, what.bytes);
  pools_.give(host_place, std::move(bounce));
  return true;
}

bool context::await_turn(lock& held, lane_index on_lane, completion_set before) {
  before.add(lanes_.tail(on_lane));
  lanes_.poll(before);
  if (lanes_.are_done(before)) return false;
  wait_on_host(held, before, self_wait);
  return true;
}

memory_block context::take_block(place_index place, std::size_t bytes, lane_index order) {
  if (auto pooled = take_pooled(place, bytes, lanes_.place_of(order))) return std::move(*pooled);
  auto made = pools_.allocate(place, bytes, order);
  if (!made) check(made.take_status());
  return std::move(made.value());
}

// What the user queues behind that may be copies, which would stop those of the host lanes: these
// have to be over. Host functions need not be.
void context::join_into_caller(lock& held) {
  for (;;) {
    const std::uint64_t ends = on().host_end_count();
    if (!lanes_.has_unfinished_move()) break;
    // The moves may wait for that body.
    if (current_job().owner != nullptr || is_notifier_thread()) break;
    wait_for_host_end(held, ends);
  }
  lanes_.join_into_caller();
}

std::uint64_t context::fence() {
  check_process();
  check_outside_node(on(), "fence");
  std::vector<std::shared_ptr<void>> dropped;
  lock held(mutex_);
  check_takes_work(held, "fence");
  close_stage(held, "fence");
  retired_.collect(lanes_, dropped);
  if (lanes_.has_caller()) {
    join_into_caller(held);
    return lanes_.queue(0).handle();
  }
  const auto place = static_cast<place_index>(on().current_device());
  completion_set all;
  const lane_index joined =
      choose_in_turn(held, place, [&] { return all = lanes_.tails(); }, "fence");
  lanes_.wait(joined, all);
  lanes_.advance(joined);  // the waits are what is waited for
  return lanes_.queue(joined).handle();
}

void context::synchronize(lane_index on_lane) {
  lock held(mutex_);
  if (phase_ == phase::finished) return;  // another thread finished it meanwhile
  completion_set tail;
  tail.add(lanes_.tail(on_lane));
  wait_on_host(held, tail, {"synchronize", "call it after that body has ended"});
}

}  // namespace millstream::core
