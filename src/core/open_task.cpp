// SPDX-License-Identifier: Apache-2.0
#include "core/open_task.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/block_pool.hpp"
#include "base/clock.hpp"
#include "base/fork_guard.hpp"
#include "base/text.hpp"
#include "core/task_job.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {
namespace {

constexpr host_wait_text self_wait{"a task started",
                                   "submit it instead, or start it after that body has ended"};

}  // namespace

open_task::open_task(std::shared_ptr<context> in, source_site site) : in_(std::move(in)) {
  plan_.site = site;
}

static_assert(sizeof(open_task) <= base::largest_pooled_block, "else each costs an allocation");

open_task::~open_task() = default;

void open_task::check_setup(const char* what) const {
  if (phase_ == phase::setup) return;
  if (std::string_view(what) == "start") {
    throw error(errc::usage, base::cat(plan_.full_name(),
                                       " was already started; start a task once, and make "
                                       "another for more work"));
  }
  throw error(errc::usage,
              base::cat(plan_.full_name(), " was already started; call ", what, " before start()"));
}

void open_task::check_open(const char* what) const {
  if (phase_ == phase::open) return;
  if (std::string_view(what) == "end") {
    throw error(
        errc::usage,
        base::cat(name(), phase_ < phase::open ? " is not started yet; call start() before end()"
                                               : " has ended already; call end() once"));
  }
  throw error(
      errc::usage,
      base::cat(name(), phase_ < phase::open ? " is not started yet; call " : " has ended; call ",
                what, " between start() and end()"));
}

void open_task::add_dep(task_dep&& dep) {
  check_setup("add_dep");
  deps_.push_back(std::move(dep));
}

void open_task::set_place(exec_place place) {
  check_setup("set_place");
  place_ = place;
}

void open_task::set_symbol(std::string_view symbol) {
  check_setup("set_symbol");
  symbol_ = symbol;
}

void open_task::set_kind(task_kind kind) {
  check_setup("set_kind");
  kind_ = kind;
}

task_spec open_task::spec() const noexcept {
  return {kind_, place_, symbol_, plan_.site, std::span<const task_dep>(deps_)};
}

// A body in the caller's thread that touches host memory has to wait for it;
// one that only queues work on a device's stream does not.
bool open_task::runs_in_caller() const noexcept {
  if (is_described()) return false;
  return in_->on().has(backend::capability::host_memory) ||
         (plan_.exec == host_place && in_->on().has(backend::capability::values));
}

// What ends early, with an exception, leaves the task as it was or to be ended.
class open_task::attempt {
 public:
  explicit attempt(open_task& task) noexcept : task_(task) { task_.phase_ = phase::starting; }
  ~attempt() {
    if (task_.phase_ == phase::starting) task_.phase_ = phase::setup;
    if (task_.phase_ == phase::entering) task_.phase_ = phase::open;
  }
  attempt(const attempt&) = delete;
  attempt& operator=(const attempt&) = delete;

 private:
  open_task& task_;
};

// What throws inside has ended it nevertheless: what is left to do was done before.
class open_task::last_step {
 public:
  explicit last_step(open_task& task) noexcept : task_(task) { task_.phase_ = phase::ending; }
  ~last_step() { task_.phase_ = phase::ended; }
  last_step(const last_step&) = delete;
  last_step& operator=(const last_step&) = delete;

 private:
  open_task& task_;
};

void open_task::start() {
  check_setup("start");
  check_process();
  check_outside_node(in_->on(), "start");
  const attempt now(*this);
  make_plan(*in_, spec(), plan_);
  if (is_described()) check_described();
  in_caller_ = runs_in_caller();
  context::lock held(in_->mutex());
  completion_set ready;
  failed_task* spoiled = nullptr;
  try {
    in_->start(held, plan_, in_caller_ ? &ready : nullptr);
  } catch (const poisoned_start& known) {
    spoiled = known.because;
    in_->skip(held, plan_, *spoiled);
    if (is_described()) return open_skipped();
    phase_ = phase::ended;
  }
  if (spoiled == nullptr) {
    begin(held);
    spoiled = await_inputs(held, ready);
  }
  if (spoiled == nullptr) return;
  const std::string data_name = poisoned_name();
  held.unlock();
  throw_poisoned(plan_.full_name(), data_name, *spoiled);
}

// Null if the task is open now. Else an input turned out to be poisoned while
// waiting.
failed_task* open_task::await_inputs(context::lock& held, const completion_set& ready) {
  try {
    if (in_caller_) in_->wait_on_host(held, ready, self_wait);
  } catch (const error& broken) {
    // The earlier uses have not ended, so they stay what the next task waits for. A user who wants
    // out, or a wait that could never end, leaves the data as they were.
    give_up(held, outcome::failed);
    if (broken.code() == errc::interrupted || broken.code() == errc::deadlock) {
      in_->undo_writes(held, plan_);
    } else {
      in_->fail(held, plan_, std::current_exception(), /*known=*/true);
    }
    throw;
  }
  failed_task* const spoiled = in_->poisoned_input(plan_);
  if (spoiled == nullptr) {
    phase_ = phase::open;
    note_begin();
    return nullptr;
  }
  static_cast<void>(in_->end_body(held, plan_, {}));  // a stage that is lost says so itself
  in_->publish(held, plan_, in_caller_ ? completion{} : in_->end_of(held, plan_));
  in_->spoil(held, plan_, *spoiled);
  give_up(held, outcome::skipped);
  return spoiled;
}

void open_task::begin(const context::lock& held) {
  in_->begin(held, body_);
  phase_ = phase::entering;
}

void open_task::give_up(const context::lock& held, outcome how) noexcept {
  in_->remove_open(held, body_);
  phase_ = phase::ended;
  if (trace_listener* told = in_->listener()) told->ended(plan_.id, base::now_ns(), how);
}

std::string open_task::poisoned_name() const {
  for (const access& each : plan_.accesses) {
    if (reads(each.mode) && (!each.shared || each.inherited) &&
        each.what->poison.find(each.version) != nullptr)
      return each.what->name();
  }
  return "its data";
}

void open_task::note_begin() {
  if (is_described() && !launches_kernels()) return;
  if (trace_listener* told = in_->listener()) told->began(plan_.id, base::now_ns());
  if (in_caller_ && in_->options().check) begin_check();
}

void open_task::begin_check() {
  base::small_vector<checked_access, 6> seen;
  for (const access& each : plan_.accesses) {
    if (!each.shared) seen.push_back({each.what, each.mode, each.address});
  }
  check_ = std::make_unique<access_check>(seen);
}

// The block goes on without effect.
void open_task::open_skipped() {
  pointers_.resize(plan_.access_of_dep.size());
  skipped_ = true;
  phase_ = phase::open;
}

void open_task::finish(context::lock& held, std::exception_ptr failed, bool known) {
  const last_step now(*this);
  in_->end(held, body_, plan_, in_caller_, {std::move(failed), known});
}

void open_task::end() {
  check_open("end");
  if (is_described()) return end_described();
  if (check_) return end_checked();
  const last_step now(*this);
  context::lock held(in_->mutex());
  in_->end_well(held, body_, plan_, in_caller_);
}

void open_task::end_checked() {
  const std::string changed = check_->changed();
  {
    context::lock held(in_->mutex());
    finish(held, nullptr, false);
  }
  if (changed.empty()) return;
  throw error(errc::usage, base::cat(plan_.full_name(), " changed ", changed,
                                     ", which it declared read; declare rw()"));
}

void open_task::fail(std::exception_ptr cause) noexcept {
  if (phase_ != phase::open) return;
  const std::unique_ptr<launch_list> dropped = std::move(launches_);
  context::lock held(in_->mutex());
  if (skipped_) {
    phase_ = phase::ended;
  } else {
    finish(held, std::move(cause), /*known=*/true);
  }
}

const task_dep& open_task::dep(std::size_t index) const {
  if (index < deps_.size()) return deps_[index];
  throw error(errc::out_of_range, base::cat(name(), " has ", deps_.size(),
                                            " dependencies; there is no number ", index));
}

void* open_task::pointer(std::size_t index) const {
  check_open("its accessors");
  const task_dep& wanted = dep(index);
  if (wanted.data.is_token()) {
    throw error(errc::usage, base::cat("dependency ", index, " of ", name(),
                                       " is a token, which has no bytes; use it for order only"));
  }
  return skipped_ ? nullptr : plan_.accesses[plan_.access_of_dep[index]].address;
}

body_call open_task::call_on(std::uint64_t queue) {
  if (pointers_.empty()) {
    for (const std::uint16_t index : plan_.access_of_dep)
      pointers_.push_back(plan_.accesses[index].address);
  }
  return in_->call_of(plan_, {pointers_.begin(), pointers_.size()}, queue);
}

body_call open_task::call() {
  check_open("its accessors");
  const context::lock held(in_->mutex());
  // A recorded lane has no stream unless a body is captured on it.
  if (skipped_ || (is_described() && in_->is_recorded(plan_))) return call_on(0);
  return call_on(in_->lanes(held).queue_number(plan_.lane));
}

std::string abandoned_text(const open_task& task) {
  return base::cat(task.full_name(), " was dropped before end(); end it, or use it in a scope");
}

std::string open_task::name() const {
  if (!symbol_.empty()) return base::cat("task ", base::quoted(symbol_));
  return plan_.name();
}

}  // namespace millstream::core

namespace millstream::inline v1 {

untyped_task::untyped_task(const untyped_context& in, source_site site)
    : state_(new (detail::take_block(sizeof(core::open_task))) core::open_task(in.state(), site)) {}

void untyped_task::let_go() noexcept {
  if (base::forked_child()) return;
  if (state_->is_open()) {
    try {
      throw error(errc::usage, core::abandoned_text(*state_));
    } catch (...) {
      state_->fail(std::current_exception());
    }
  }
  state_->~open_task();
  detail::give_block(std::exchange(state_, nullptr), sizeof(core::open_task));
}

core::open_task& untyped_task::task() const {
  if (state_ != nullptr) return *state_;
  throw error(errc::usage,
              "this task is empty; make it with a context, or use the one it was moved to");
}

void untyped_task::add_dep(task_dep dep) {
  task().add_dep(std::move(dep));
}
void untyped_task::set_place(exec_place place) {
  task().set_place(place);
}
void untyped_task::set_symbol(std::string_view name) {
  task().set_symbol(name);
}
void untyped_task::set_kind(task_kind kind) {
  task().set_kind(kind);
}
void untyped_task::start() {
  task().start();
}
void untyped_task::end() {
  try {
    task().end();
  } catch (...) {
    if (state_ != nullptr) state_->drop_deps();  // where it has ended nevertheless
    throw;
  }
  state_->drop_deps();
  core::drain_retired();
}
void untyped_task::fail(std::exception_ptr cause) noexcept {
  if (state_ == nullptr) return;
  state_->fail(std::move(cause));
  state_->drop_deps();
}
void untyped_task::launch(kernel_launch&& what) {
  task().launch(std::move(what));
}
void untyped_task::abandon() noexcept {
  if (state_ != nullptr) state_->abandon();
}
bool untyped_task::is_skipped() const noexcept {
  return state_ != nullptr && state_->is_skipped();
}
bool untyped_task::is_open() const noexcept {
  return state_ != nullptr && state_->is_open();
}
bool untyped_task::is_ended() const noexcept {
  return state_ != nullptr && state_->is_ended();
}
std::size_t untyped_task::dep_count() const noexcept {
  return state_ == nullptr ? 0 : state_->dep_count();
}
const task_dep& untyped_task::dep(std::size_t index) const {
  return task().dep(index);
}
void* untyped_task::pointer(std::size_t index) const {
  return task().pointer(index);
}
body_call untyped_task::call() const {
  return task().call();
}
std::string untyped_task::name() const {
  return task().name();
}

}  // namespace millstream::inline v1
