// SPDX-License-Identifier: Apache-2.0
#include "core/given_graph.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/text.hpp"
#include "core/blocking.hpp"
#include "core/context.hpp"
#include "core/task_job.hpp"

namespace millstream::core {
namespace {

template <class Value>
Value value_of(backend::result<Value> answer) {
  if (!answer) check(answer.take_status());
  return std::move(answer.value());
}

// What is recorded in place of a task that ran by itself.
std::string way_into_graphs(const machine& on) {
  const bool runs_jobs = on.has(backend::capability::runs_jobs);
  const bool records_bodies = runs_jobs || on.has(backend::capability::capture_to_graph);
  return base::cat(records_bodies ? "hand its body over as a function for a device with "
                                    "ctx.submit, which is recorded"
                                  : "describe its kernels with ctx.cuda_kernel, which are recorded",
                   runs_jobs ? ""
                             : "; a host function is, too, if it is declared not to use the device "
                               "(uses_device = false)");
}

// Native graphs of others; what they look like is told apart by their number of nodes and by the
// machine.
constexpr std::uint64_t hash_of_others = 0x67726170'68730000U;

}  // namespace

given_graph::given_graph(std::shared_ptr<context> from, place_index place,
                         std::unique_ptr<backend::graph> graph, std::size_t nodes,
                         std::weak_ptr<launch_outcome> outcome)
    : from_(std::move(from)),
      place_(place),
      nodes_(nodes),
      outcome_(std::move(outcome)),
      graph_(std::move(graph)) {}

std::uint64_t given_graph::handle() {
  check_process();
  const std::scoped_lock hold(mutex_);
  return value_of(graph_->hand_out());
}

std::string given_graph::native_dot() {
  check_process();
  const std::scoped_lock hold(mutex_);
  return value_of(graph_->dot());
}

void given_graph::launch_on(backend::queue& on) {
  const std::scoped_lock hold(mutex_);
  if (value_of(on.is_capturing())) return check(graph_->record_into(on));
  if (executable_ == nullptr) executable_ = value_of(graph_->instantiate());
  check(executable_->launch(on));
  if (has_host_nodes()) note_launch(on);
}

// What has no jobs has no outcome.
bool given_graph::has_host_nodes() const noexcept {
  return !from_->on().has(backend::capability::runs_jobs) && !outcome_.expired();
}

void given_graph::note_launch(backend::queue& on) {
  if (launched_ == nullptr) launched_ = value_of(from_->on().take_event());
  check(on.record(*launched_));
}

// Null if there is none.
std::shared_ptr<backend::event> given_graph::launch_on_its_way() {
  const std::scoped_lock hold(mutex_);
  return launched_ == nullptr || value_of(launched_->is_done()) ? nullptr : launched_;
}

void given_graph::await_launched() {
  if (!has_host_nodes()) return;
  while (const std::shared_ptr<backend::event> before = launch_on_its_way()) {
    const blocking_section blocking;
    static_cast<void>(value_of(before->wait_for(wait_slice)));
    if (blocking.is_interrupted()) {
      throw error(errc::interrupted, "the launch was interrupted before it began");
    }
  }
}

std::uint64_t given_graph::launch(std::optional<std::uint64_t> stream) {
  check_process();
  machine& on = from_->on();
  check_outside_node(on, "launch");
  await_launched();
  if (stream) {
    const adopted_queue adopted = on.adopt(*stream, /*one_thread=*/true);
    const blocking_section blocking;
    launch_on(*adopted.queue);
    return *stream;
  }
  leased_queue own = value_of(on.lease(place_));
  const std::uint64_t number = own.queue->handle();
  try {
    const blocking_section blocking;
    launch_on(*own.queue);
  } catch (...) {
    on.give_back(place_, std::move(own));
    throw;
  }
  on.give_back(place_, std::move(own));
  return number;
}

/// What the nodes of a graph use, in its keeping. Ends without any lock of the library.
struct context::given_parts final : launch_outcome {
  /// The first node: failures of the launch before are no longer known.
  class fresh_start final : public backend::job {
   public:
    explicit fresh_start(given_parts& parts) : parts_(parts) {}
    void run() noexcept override { parts_.forget_late_failures(); }
    void discard() noexcept override {}

   private:
    given_parts& parts_;
  };

  explicit given_parts(std::shared_ptr<context> from) : of(std::move(from)), begin(*this) {
    begin.calls_no_driver = true;
  }
  ~given_parts() {
    for (task_job* each : jobs)
      each->dispose();
    stage = {};
    of->end_given();
    for (data* each : contents)
      each->drop_reference();
  }
  given_parts(const given_parts&) = delete;
  given_parts& operator=(const given_parts&) = delete;

  void forget_late_failures() noexcept {
    of->forget_late_failures();
    const lock held(of->mutex_);
    for (task_job* each : jobs)
      each->forget_failure();
  }
  // The jobs are in the order of submission.
  [[nodiscard]] std::exception_ptr failure() noexcept override {
    const lock held(of->mutex_);
    const auto failed = std::find_if(jobs.begin(), jobs.end(), [](const task_job* each) {
      return each->last_failure() != nullptr;
    });
    return failed == jobs.end() ? nullptr : (*failed)->last_failure();
  }

  std::shared_ptr<context> of;
  std::shared_ptr<void> with;
  fresh_start begin;
  std::vector<task_job*> jobs;
  kept_stage stage;
  std::vector<data*> contents;  // a reference each
};

void context::forget_late_failures() noexcept {
  const lock held(mutex_);
  for (data* each : all_data_)
    each->poison.forget_later();
}

// The graph cannot run any more, so all of it may go.
void context::end_given() noexcept {
  std::vector<std::shared_ptr<void>> dropped;
  try {
    const lock held(mutex_);
    close(dropped);
  } catch (const std::exception& broken) {
    base::log(base::log_level::warning,
              base::cat("what a graph used was not given back: ", broken.what()));
  }
}

void context::check_may_give(const lock& held) {
  check_takes_work(held, "to_graph");
  if (lanes_.recording() == nullptr) {
    throw error(errc::usage,
                "to_graph was called on an immediate context, which records nothing; open it with "
                "use_graph");
  }
  if (lanes_.has_caller()) {
    throw error(errc::usage,
                "to_graph was called on a context on a stream; open it without one, and launch the "
                "graph on the stream");
  }
  check_no_open_task("to_graph");
  if (!outside_.empty()) {
    throw error(errc::usage, base::cat("to_graph was called after ", outside_,
                                       " had run by itself, so that the graph would lack it; ",
                                       way_into_graphs(on())));
  }
  if (lanes_.recording()->stage() > 0) {
    throw error(errc::usage,
                "to_graph was called after a part of the tasks had been launched; call it before "
                "fence, wait, get and done");
  }
}

std::shared_ptr<context::given_parts> context::take_parts(const lock& held,
                                                          recorder::taken_stage& taken) {
  (void)held;
  auto parts = std::make_shared<given_parts>(shared_from_this());
  parts->jobs.reserve(taken.jobs.size());
  for (backend::job* each : std::exchange(taken.jobs, {})) {
    // Lanes that are recorded have no others.
    parts->jobs.push_back(static_cast<task_job*>(each));
    parts->jobs.back()->keep();
  }
  present_.jobs.forget();
  parts->stage = std::exchange(present_, {});
  for (data* each : all_data_) {
    each->add_reference();
    parts->contents.push_back(each);
    each->poison.remember();
  }
  return parts;
}

// A body that could not be recorded may be found only now.
template <class Call>
void context::or_lose_stage(const lock& held, Call&& call) {
  try {
    call();
  } catch (const error& broken) {
    const std::string recorded = recorded_text(lanes_.recording()->stage());
    lanes_.give_up_stage();
    const error named(broken.code(),
                      base::cat(recorded, " could not be given out: ", broken.what()));
    lose_stage(held, std::make_exception_ptr(named), "a recording");
    failures_.mark_seen({last_task_});
    throw named;
  }
}

std::shared_ptr<given_graph> context::give_graph(std::shared_ptr<void> with) {
  check_process();
  check_outside_node(on(), "to_graph");
  if (current_job().owner == this) {
    throw error(errc::deadlock, base::cat("to_graph was called inside ", running_task_name(),
                                          " of the same context; call it after that has returned"));
  }
  recorder::taken_stage taken;
  std::shared_ptr<given_parts> parts;
  {
    lock held(mutex_);
    check_may_give(held);
    // The memory that nodes use, and buffers that a stream still fills. Unlocks meanwhile.
    for (bool waits = true; waits;) {
      or_lose_stage(held, [&] { waits = lanes_.await_stage(); });
      drain_lanes(held);
      check_may_give(held);
    }
    write_back_postponed(held, /*all=*/true);
    for (data* each : all_data_) {
      if (each->let_go || !each->registered) continue;
      each->poison.watch(each->version);
      write_back(*each, /*guarded=*/true, /*recorded=*/true);
    }
    or_lose_stage(held, [&] { taken = lanes_.take_stage(); });
    phase_ = phase::given;
    parts = take_parts(held, taken);
  }
  // From here on without the lock, as a failure ends all of it.
  parts->with = std::move(with);
  const std::size_t nodes = taken.graph->node_count();
  std::unique_ptr<backend::graph> graph = std::move(taken.graph);
  std::weak_ptr<launch_outcome> outcome;
  if (!parts->jobs.empty()) {
    if (on().has(backend::capability::values)) outcome = parts;  // else no job runs
    const int caller = on().has(backend::capability::runs_jobs) ? taken.place : host_place;
    auto whole = value_of(on().at(taken.place).make_graph());
    const backend::graph_node begin = value_of(whole->add_host(parts->begin, caller, {}));
    static_cast<void>(value_of(whole->take_child(std::move(graph), {&begin, 1})));
    graph = std::move(whole);
  }
  check(graph->keep(std::move(parts)));
  return std::make_shared<given_graph>(shared_from_this(), taken.place, std::move(graph), nodes,
                                       std::move(outcome));
}

// Copies of a graph may read the user's buffers while it is launched, whatever they come after.
bool context::await_buffers(lock& held, const plan& of) {
  if (on().has(backend::capability::runs_jobs) || lanes_.is_recorded()) return false;
  if (is_to_be_recorded(of, /*in_caller=*/false)) return false;
  completion_set before;
  for (const access& each : of.accesses) {
    if (!is_at_home(each)) continue;
    data& what = *each.what;
    if (copies_in(each)) write_back(what, /*guarded=*/false);
    before.add(what.instances[0].ready);
    before.add(what.writer);
  }
  lanes_.poll(before);
  if (lanes_.are_done(before)) return false;
  wait_on_host(held, before, {of.call(), "make that call after the body has ended"});
  return true;
}

void context::launch_graph(const lock& held, const plan& of, backend::graph* graph,
                           given_graph* ours) {
  if (ours != nullptr) {
    ours->launch_on(lanes_.queue(of.lane));
    return;
  }
  if (!options_.resources) options_.resources.emplace();
  held.ask_policy_of(options_.resources->state());
  options_.resources->state()->launch(*graph, hash_of_others, of.exec, lanes_.queue(of.lane),
                                      graph_counts_, graph_trail_);
}

void context::issue_graph(const lock& held, const plan& of, backend::graph* graph,
                          given_graph* ours) {
  try {
    if (!is_recorded(of)) {
      launch_graph(held, of, graph, ours);
    } else if (ours != nullptr) {
      ours->with_graph(
          [&](const backend::graph& what) { lanes_.recording()->add_graph(of.lane, what); });
    } else {
      lanes_.recording()->add_graph(of.lane, *graph);
    }
  } catch (const error& broken) {
    if (is_lost()) throw loss_error(held);
    const error named(broken.code(),
                      base::cat(of.full_name(), " could not be queued: ", broken.what()));
    fail(held, of, std::make_exception_ptr(named), /*known=*/true);
    throw named;
  }
  const completion launched = lanes_.advance(of.lane);
  auto outcome = ours != nullptr ? ours->outcome() : nullptr;
  if (outcome == nullptr) return publish(held, of, launched);
  // Failures of its tasks are those of this one.
  body_ptr look = make_body([told = std::move(outcome)](const body_call&) {
    if (const std::exception_ptr why = told->failure()) std::rethrow_exception(why);
  });
  if (on().has(backend::capability::runs_jobs)) return queue_body(held, of, look);
  look_by_host(held, of, launched, look);
}

// Queues of the device take no jobs. In a capture of the caller's nobody can look at each launch.
void context::look_by_host(const lock& held, const plan& of, completion launched, body_ptr& look) {
  if (lanes_.is_recorded()) return publish(held, of, launched);
  plan by_host = of;
  by_host.exec = host_place;
  const bool recorded = is_recorded(of);
  by_host.lane = recorded ? lanes_.open_recorded(host_place) : lanes_.idle_host_lane();
  lanes_.wait(by_host.lane, launched);
  if (recorded) {
    has_host_nodes_ = true;
    note_doubt(by_host);
  }
  queue_body(held, by_host, look);
}

void context::add_graph(const task_spec& what, const added_graph& given) {
  check_process();
  check_outside_node(on(), "add_graph");
  task_spec asked = what;
  asked.kind = task_kind::add_graph;
  plan of;
  make_plan(*this, asked, of);
  const auto refuse = [&](errc code, const std::string& why) {
    return error(code, base::cat(of.full_name(), " cannot take the graph: ", why));
  };
  if (of.exec == host_place) {
    throw refuse(errc::invalid_value, "graphs run on devices; leave the host place out");
  }
  if (given.ours != nullptr && &given.ours->from().on() != &on()) {
    throw refuse(errc::invalid_value,
                 base::cat("it is one of machine ", base::quoted(given.ours->from().on().name()),
                           "; record it on the machine of the context"));
  }
  const bool becomes_part = options_.use_graph || lanes_.is_recorded();
  std::unique_ptr<backend::graph> native;
  if (given.ours == nullptr) {
    auto adopted = on().at(of.exec).adopt_graph(given.native);
    if (!adopted) throw refuse(adopted.why().code(), adopted.why().text());
    native = std::move(adopted.value());
    const backend::status allowed = becomes_part ? native->may_be_part() : backend::status{};
    if (!allowed.ok()) throw refuse(allowed.code(), allowed.text());
  } else if (becomes_part) {
    backend::status allowed;
    given.ours->with_graph([&](const backend::graph& ours) { allowed = ours.may_be_part(); });
    if (!allowed.ok()) throw refuse(allowed.code(), allowed.text());
  }
  if (given.ours != nullptr) given.ours->await_launched();
  {
    lock held(mutex_);
    check_live(held, of.call());
    try {
      start(held, of, /*in_caller=*/nullptr);
      report(of);
      issue_graph(held, of, native.get(), given.ours);
    } catch (const poisoned_start& known) {
      skip(held, of, *known.because);
    }
  }
  drain_retired();
}

}  // namespace millstream::core

namespace millstream::inline v1 {

core::given_graph& recorded_graph::given() const {
  if (state_ != nullptr) return *state_;
  throw error(errc::usage, "this graph is empty; get one from to_graph");
}

std::uint64_t recorded_graph::launch(std::optional<std::uint64_t> stream) {
  return given().launch(stream);
}
std::uint64_t recorded_graph::handle() const {
  return given().handle();
}
std::size_t recorded_graph::node_count() const {
  return given().node_count();
}
std::string recorded_graph::native_dot() const {
  return given().native_dot();
}
machine recorded_graph::where() const {
  return given().from().options().on;
}
std::vector<failure> recorded_graph::take_failures(std::size_t most) {
  return given().from().failures().take(most);
}
void recorded_graph::check_errors() {
  raise(take_failures(1));
}

}  // namespace millstream::inline v1
