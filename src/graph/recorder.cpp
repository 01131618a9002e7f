// SPDX-License-Identifier: Apache-2.0
#include "graph/recorder.hpp"

#include <algorithm>
#include <utility>

#include <millstream/error.hpp>

#include "base/fork_guard.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "core/lanes.hpp"

namespace millstream::graph {
namespace {

constexpr std::size_t no_stream = ~std::size_t{0};
// Of each place. Libraries keep up to some 30 MB for each.
constexpr std::size_t most_streams = 8;
// Fewer predecessors of a lane without an operation are those of each that waits for it.
constexpr std::size_t most_handed_on = 16;

template <class Value>
Value value_of(backend::result<Value> answer) {
  if (!answer) core::check(answer.take_status());
  return std::move(answer.value());
}

}  // namespace

recorder::recorder(core::machine& on, std::shared_ptr<executable_cache> cache)
    : machine_(on), cache_(std::move(cache)), queue_(drawing_) {
  if (!on.has(backend::capability::graphs)) {
    throw error(errc::unsupported, base::cat("machine ", base::quoted(on.name()),
                                             " has no graphs; open the context without use_graph"));
  }
  const std::string problem = base::environment().problem_with("MILLSTREAM_CHECK_BODIES");
  if (!problem.empty()) throw error(errc::invalid_value, problem);
}

recorder::~recorder() {
  if (base::forked_child()) {
    for (body_stream& each : streams_) {
      [[maybe_unused]] const auto* const queue = each.lease.queue.release();
      [[maybe_unused]] const auto* const mark = each.lease.mark.release();
    }
    [[maybe_unused]] const auto* const left = graph_.release();
    [[maybe_unused]] const auto* const shown = launched_.release();
    return;
  }
  give_up();
  for (body_stream& each : streams_) {
    each.beside.reset();
    machine_.give_back(each.place, std::move(each.lease));
  }
}

// The graph is instantiated for the device of its first task.
void recorder::begin_stage(core::place_index place) {
  graph_place_ = std::max<core::place_index>(place, 0);
  graph_ = value_of(machine_.at(graph_place_).make_graph());
  if (base::environment().check_bodies == 0) graph_->keep_queues();
  drawing_.graph = graph_.get();
  drawing_.hash = 0;
}

void recorder::end_stage() noexcept {
  lane_count_ = 0;
  drawing_.jobs.clear();
  drawing_.graph = nullptr;
  unjoined_.clear();
  next_stream_ = 0;
  for (body_stream& each : streams_) {
    each.last = no_lane;
    each.is_joining = each.is_kept = false;
  }
  ++stage_;
}

core::lane_index recorder::open(core::place_index place) {
  if (graph_ == nullptr) begin_stage(place);
  if (lane_count_ == lanes_.size()) lanes_.emplace_back();
  recorded_lane& opened = lanes_[lane_count_];
  opened.place = place;
  opened.operations = 0;
  opened.body = opened.used = no_stream;
  opened.heir = no_lane;
  opened.ends.clear();
  opened.before.clear();
  opened.own = opened.distinct = 0;
  opened.is_waited_for = false;
  drawing_.mix(static_cast<std::uint64_t>(place) + 16);
  return core::first_recorded_lane + static_cast<core::lane_index>(lane_count_++);
}

backend::queue& recorder::queue(core::lane_index lane) noexcept {
  recorded_lane& selected = at(lane);
  const bool captured = selected.body != no_stream;
  queue_.select(selected, captured ? streams_[selected.body].lease.queue->handle() : number_);
  return queue_;
}

// A lane without an operation stands for what it waits for, each named once, since lanes of that
// kind behind one another would name it again and again. Where that is much and several wait for
// the lane, it becomes a node, or else their edges would be as many as the product.
backend::node_span recorder::ends_of(recorded_lane& ended) {
  if (!ended.ends.empty()) return {ended.ends.begin(), ended.ends.size()};
  if (ended.distinct != ended.before.size()) {
    make_unique(ended.before, drawing_.sorted);
    ended.distinct = ended.before.size();
  }
  const bool is_shared = std::exchange(ended.is_waited_for, true);
  if (is_shared && ended.before.size() > most_handed_on && !is_busy()) make_node(ended);
  const backend::node_list& stands_for = ended.ends.empty() ? ended.before : ended.ends;
  return {stands_for.begin(), stands_for.size()};
}

// A fill of nothing is a node that has nothing but its place.
void recorder::make_node(recorded_lane& lane) {
  const backend::node_span before{lane.before.begin(), lane.before.size()};
  const backend::graph_node made = value_of(graph_->add_fill({}, before));
  drawing_.mix(before.size());
  lane.ends.push_back(made);
  lane.before.clear();
  lane.distinct = 0;
}

void recorder::wait(core::lane_index waiter, core::completion what) {
  recorded_lane& ended = at(what.lane);
  recorded_lane& waiting = at(waiter);
  waiting.before.append(ends_of(ended));
  drawing_.mix(what.lane);
  if (ended.used != no_stream && ended.place == waiting.place) {
    waiting.heir = what.lane - core::first_recorded_lane;
  }
}

core::completion recorder::tail(core::lane_index lane) const noexcept {
  return {lane, (std::uint64_t{stage_} << 32U) | at(lane).operations};
}

core::completion recorder::advance(core::lane_index lane) noexcept {
  ++at(lane).operations;
  return tail(lane);
}

backend::node_span recorder::predecessors(core::lane_index lane) noexcept {
  queue_.select(at(lane), number_);
  return queue_.predecessors();
}

// A graph has one user at a time, and an open body uses it without any lock of ours.
std::thread::id recorder::user() const noexcept {
  const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const body_stream& each) {
    return each.is_open && each.stage == stage_ && each.beside == nullptr;
  });
  return found == streams_.end() ? std::thread::id() : found->thread;
}

bool recorder::is_beside(core::lane_index lane) const noexcept {
  const std::size_t through = at(lane).body;
  return through != no_stream && streams_[through].beside != nullptr;
}

// A stream that the stage's graph keeps takes no body beside it.
bool recorder::is_free(const body_stream& which, core::place_index place) const noexcept {
  return which.place == place && !which.is_open && !which.is_joining &&
         !(which.is_kept && is_busy());
}

// The stream of a body that it comes after anyway; else one that the stage has not used, up to a
// number; else any, behind the last body there.
std::size_t recorder::take_stream(recorded_lane& by) {
  if (by.heir != no_lane) {
    const std::size_t inherited = lanes_[by.heir].used;
    const body_stream& theirs = streams_[inherited];
    if (theirs.last == by.heir && is_free(theirs, by.place)) return inherited;
  }
  std::size_t count = 0;
  std::size_t used = no_stream;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::size_t turn = (next_stream_ + i) % streams_.size();
    if (streams_[turn].place == by.place) ++count;
    if (used == no_stream && is_free(streams_[turn], by.place)) used = turn;
    if (is_free(streams_[i], by.place) && streams_[i].last == no_lane) return i;
  }
  if (used == no_stream || count < most_streams) {
    body_stream leased;
    leased.place = by.place;
    leased.lease = value_of(machine_.lease(by.place));
    streams_.push_back(std::move(leased));
    return streams_.size() - 1;
  }
  next_stream_ = used + 1;
  return used;
}

void recorder::come_after_last(recorded_lane& lane, const body_stream& of) {
  lane.own = lane.before.size();
  if (of.last == no_lane || of.last == lane.heir) return;
  const recorded_lane& last = lanes_[of.last];
  lane.before.append({last.ends.begin(), last.ends.size()});
  drawing_.mix(of.last);
}

void recorder::begin_body(core::lane_index lane) {
  recorded_lane& captured = at(lane);
  const bool beside = is_busy();
  const std::size_t chosen = take_stream(captured);
  body_stream& through = streams_[chosen];
  come_after_last(captured, through);
  if (beside) {
    auto own = value_of(machine_.at(captured.place).make_graph());
    core::check(own->begin_body(*through.lease.queue, {}));
    through.beside = std::move(own);
  } else {
    core::check(graph_->begin_body(*through.lease.queue, predecessors(lane)));
    through.is_kept = true;
  }
  through.is_open = true;
  through.lane = lane;
  through.stage = stage_;
  through.thread = std::this_thread::get_id();
  captured.body = captured.used = chosen;
}

void recorder::end_body(core::lane_index lane) {
  recorded_lane& captured = at(lane);
  body_stream& through = streams_[std::exchange(captured.body, no_stream)];
  through.is_open = false;
  backend::node_list last;
  if (auto beside = std::move(through.beside)) {
    core::check(beside->end_body(*through.lease.queue, last));
    unjoined_.emplace_back(lane, std::move(beside));
    through.is_joining = true;
    return;
  }
  core::check(graph_->end_body(*through.lease.queue, last));
  if (!has_issued(lane, last)) {
    drawing_.mix(0);
    captured.before.resize(captured.own);
    return;
  }
  drawing_.mix(last.size());
  captured.ends = std::move(last);
  captured.before.clear();
  through.last = lane - core::first_recorded_lane;
}

// A body that issued nothing ends where it began. It stands for what it comes after, but not for
// what was in its stream: else each such body would hand on what all of those before came after.
bool recorder::has_issued(core::lane_index lane, const backend::node_list& last) noexcept {
  const backend::node_span began = predecessors(lane);
  return !std::is_permutation(last.begin(), last.end(), began.begin(), began.end());
}

void recorder::drop_body(core::lane_index lane, std::uint32_t stage) noexcept {
  for (body_stream& each : streams_) {
    if (!each.is_open || each.lane != lane || each.stage != stage) continue;
    each.beside.reset();
    each.is_open = false;
  }
}

void recorder::release_streams() {
  if (graph_ == nullptr || user() != std::thread::id()) return;
  for (body_stream& each : streams_)
    each.is_kept = false;
  core::check(graph_->release_queues());
}

void recorder::join_body(core::lane_index lane) {
  const auto found = std::find_if(unjoined_.begin(), unjoined_.end(),
                                  [&](const auto& each) { return each.first == lane; });
  if (found == unjoined_.end()) return;
  std::unique_ptr<backend::graph> beside = std::move(found->second);
  unjoined_.erase(found);
  body_stream& through = streams_[at(lane).used];
  through.is_joining = false;
  const std::size_t nodes = beside->node_count();
  if (nodes == 0) return at(lane).before.resize(at(lane).own);
  end_in_child(lane, value_of(graph_->take_child(std::move(beside), predecessors(lane))), nodes);
  through.last = lane - core::first_recorded_lane;
  ++stats_.child_graphs;
}

void recorder::add_graph(core::lane_index lane, const backend::graph& what) {
  end_in_child(lane, value_of(graph_->add_child(what, predecessors(lane))), what.node_count());
}

void recorder::end_in_child(core::lane_index lane, backend::graph_node child, std::size_t nodes) {
  recorded_lane& into = at(lane);
  into.ends.clear();
  into.ends.push_back(child);
  into.before.clear();
  drawing_.mix(nodes);
}

recorder::taken_stage recorder::take_stage() {
  if (graph_ == nullptr) begin_stage(0);
  release_streams();
  taken_stage taken{std::move(graph_), std::exchange(drawing_.jobs, {}), graph_place_};
  stats_.nodes += taken.graph->node_count();
  end_stage();
  return taken;
}

void recorder::launch(backend::queue& on) {
  try {
    release_streams();
    if (!value_of(on.is_capturing())) static_cast<void>(await_streams(on));
    cache_->launch(*graph_, drawing_.hash, graph_place_, on, stats_, trail_);
  } catch (...) {
    give_up();
    throw;
  }
  ++stats_.stages;
  stats_.nodes += graph_->node_count();
  launched_ = std::move(graph_);
  end_stage();
}

bool recorder::await_streams(backend::queue& on) {
  release_streams();
  bool any = false;
  for (body_stream& each : streams_) {
    if (each.is_open || !each.is_fresh) continue;
    core::check(each.lease.queue->record(*each.lease.mark));
    core::check(on.wait(*each.lease.mark));
    each.is_fresh = false;
    any = true;
  }
  return any;
}

void recorder::leave_streams(backend::queue& launches) {
  if (streams_.empty()) return;
  auto mark = value_of(machine_.take_event());
  core::check(launches.record(*mark));
  for (const body_stream& each : streams_) {
    if (!each.is_fresh && !each.is_open) core::check(each.lease.queue->wait(*mark));
  }
  machine_.give_back(std::move(mark));
}

void recorder::leave_streams(core::held_leases& to) {
  for (body_stream& each : streams_)
    to.add(each.place, std::move(each.lease));
  streams_.clear();
}

void recorder::give_up() noexcept {
  if (graph_ == nullptr) return;
  for (backend::job* each : drawing_.jobs)
    each->discard();
  graph_.reset();
  end_stage();
}

std::string recorder::native_dot() const {
  if (launched_ == nullptr && is_busy()) {
    throw error(errc::usage,
                "native_dot was called while another thread's task is being recorded, and nothing "
                "was launched yet; call it after fence or finalize");
  }
  const backend::graph* const shown = launched_ != nullptr ? launched_.get() : graph_.get();
  if (shown == nullptr) return "digraph {\n}\n";
  return value_of(shown->dot());
}

}  // namespace millstream::graph
