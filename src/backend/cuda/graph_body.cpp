// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/graph_body.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "backend/cuda/state.hpp"
#include "backend/guarded.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {
namespace {

abi::graph_node raw_node(graph_node node) noexcept {
  return reinterpret_cast<abi::graph_node>(static_cast<std::uintptr_t>(node));
}

graph_node node_name(abi::graph_node raw) noexcept {
  return graph_node{reinterpret_cast<std::uintptr_t>(raw)};
}

bool is_in(const std::vector<stream*>& list, const stream& what) noexcept {
  return std::find(list.begin(), list.end(), &what) != list.end();
}

status spoilt(const std::string& who) {
  return {errc::usage, base::cat(who,
                                 " could not record a body: a call that cannot be recorded "
                                 "spoilt it, such as waiting for the whole device; leave the call "
                                 "out of the body, or make it before the recording")};
}

status answered(device_state& on, std::string_view what, abi::result answer) {
  if (answer == abi::result::stream_capture_invalidated) return spoilt(on.who());
  return on.check(what, answer);
}

status unjoined(const std::string& who) {
  return {errc::usage,
          base::cat(who,
                    " could not record a body: another stream that the body made wait for its "
                    "own was not joined again; make the body's stream wait for it before the "
                    "body ends")};
}

status taken_away(const std::string& who) {
  return {errc::usage, base::cat(who,
                                 " could not record a body: its stream is not recorded into "
                                 "this graph any more; leave the recording to the graph")};
}

}  // namespace

// The names of nodes are what the driver calls them, so a list without `none` is used as it is.
predecessors::predecessors(node_span after)
    : first_(reinterpret_cast<const abi::graph_node*>(after.data())), count_(after.size()) {
  if (std::find(after.begin(), after.end(), graph_node::none) == after.end()) return;
  for (const graph_node each : after) {
    if (each != graph_node::none) without_none_.push_back(raw_node(each));
  }
  first_ = without_none_.begin();
  count_ = without_none_.size();
}

void body_recorder::abandon() noexcept {
  bodies_.clear();
  if (is_recording()) static_cast<void>(end_capture());
}

status body_recorder::failure() const {
  return failed_.empty() ? status{} : status(errc::usage, failed_);
}

void body_recorder::note_failure(const status& why) {
  if (failed_.empty()) {
    failed_ = base::cat(why.text(), " (the graph cannot be used any more; make a new one)");
  }
}

status body_recorder::check_begin(stream& on) const {
  if (is_open() && thread_ != std::this_thread::get_id()) {
    return {errc::usage, base::cat(on.on.who(),
                                   " cannot record a body while another thread records into the "
                                   "graph; use a graph of its own")};
  }
  if (is_in(bodies_, on)) {
    return {errc::usage, base::cat(on.on.who(),
                                   " cannot record two bodies on one queue at a time; end the "
                                   "first or use another queue")};
  }
  if (is_in(members_, on)) return {};
  auto captured = on.is_capturing();
  if (!captured) return captured.take_status();
  if (!captured.value()) return {};
  return {errc::usage, base::cat(on.on.who(),
                                 " cannot record a body on a queue that is being recorded by "
                                 "somebody else; use another queue")};
}

status body_recorder::begin(stream& on, node_span after) {
  if (status wrong = check_begin(on); !wrong) return wrong;
  const predecessors before(after);
  bodies_.reserve(bodies_.size() + 1);
  members_.reserve(members_.size() + 1);
  if (!is_recording()) {
    if (status failed = start(on, before); !failed) return failed;
  } else {
    if (!is_in(members_, on)) {
      if (status failed = fork(on); !failed) return failed;
    }
    status behind = put_behind(on, before.data(), before.size());
    if (!behind) return behind;
  }
  bodies_.push_back(&on);
  thread_ = std::this_thread::get_id();
  return {};
}

status body_recorder::start(stream& on, const predecessors& after) {
  const context_guard in(on.on.api(), on.on.context());
  const abi::result answer = on.on.api()->cuStreamBeginCaptureToGraph(
      on.raw, into_, after.data(), nullptr, after.size(), abi::capture_mode::relaxed);
  if (status failed = on.on.check("begin to record a body", answer); !failed) return failed;
  origin_ = &on;
  members_.push_back(&on);
  on.expect_capture();
  return {};
}

// An event makes no node.
status body_recorder::fork(stream& on) {
  device_state& there = origin_->on;
  if (fork_ == nullptr || fork_->home != there.stream_context()) {
    auto made = raw_event::make(there);
    if (!made) return made.take_status();
    fork_ = std::move(made.value());
  }
  {
    const context_guard in(there.api(), there.context());
    const abi::result answer = there.api()->cuEventRecord(fork_->handle, origin_->raw);
    if (status failed = answered(there, "begin to record a body", answer); !failed) return failed;
  }
  const context_guard in(on.on.api(), on.on.context());
  const abi::result answer =
      on.on.api()->cuStreamWaitEvent(on.raw, fork_->handle, abi::event_wait_flags::none);
  if (status failed = answered(on.on, "begin to record a body", answer); !failed) return failed;
  members_.push_back(&on);
  on.expect_capture();
  return {};
}

status body_recorder::put_behind(const stream& what, const abi::graph_node* after,
                                 std::size_t count) {
  const context_guard in(what.on.api(), what.on.context());
  const abi::result answer = what.on.api()->cuStreamUpdateCaptureDependencies(
      what.raw, const_cast<abi::graph_node*>(after), nullptr, count,
      abi::capture_dependencies_flags::set);
  return answered(what.on, "put a body behind others", answer);
}

status body_recorder::end(stream& on, node_list& last) {
  last.clear();
  const auto open = std::find(bodies_.begin(), bodies_.end(), &on);
  if (open == bodies_.end()) {
    return {errc::usage, base::cat(on.on.who(),
                                   " cannot end a body that was not begun; begin it "
                                   "on this queue first")};
  }
  bodies_.erase(open);
  if (status failed = failure(); !failed) {
    if (!is_open()) abandon();
    return failed;
  }
  const status now = guarded(on.on.who(), [&] { return finish(on, last); });
  if (now) return {};
  last.clear();
  note_failure(now);
  if (is_recording()) static_cast<void>(end_capture());
  return failure();
}

status body_recorder::finish(const stream& on, node_list& last) {
  if (status failed = read_ends(on, last); !failed) return failed;
  return is_open() || keeps_ ? status{} : close();
}

status body_recorder::release(const device_state& who) {
  if (is_open()) {
    return {errc::usage, base::cat(who.who(),
                                   " cannot release the queues of a graph while a body is "
                                   "recorded into it; end the body first")};
  }
  if (!is_recording()) return failure();
  const status now = close();
  if (now) return {};
  note_failure(now);
  abandon();
  return failure();
}

status body_recorder::close() {
  if (members_.size() > 1) {
    if (status failed = join_all(); !failed) return failed;
  }
  device_state& there = origin_->on;
  const abi::result answer = end_capture();
  if (answer == abi::result::stream_capture_unjoined) return unjoined(there.who());
  return answered(there, "end the recording of a body", answer);
}

// The nodes behind which the next operation would be put.
status body_recorder::read_ends(const stream& on, node_list& last) {
  auto now = abi::capture_status::none;
  abi::graph into = nullptr;
  const abi::graph_node* ends = nullptr;
  const abi::graph_edge* edges = nullptr;
  std::size_t count = 0;
  std::uint64_t id = 0;
  const context_guard in(on.on.api(), on.on.context());
  const abi::result answer =
      on.on.api()->cuStreamGetCaptureInfo(on.raw, &now, &id, &into, &ends, &edges, &count);
  if (answer == abi::result::success && now == abi::capture_status::invalidated) {
    return spoilt(on.on.who());
  }
  if (status failed = answered(on.on, "look at a recording", answer); !failed) return failed;
  if (now != abi::capture_status::active || into != into_) return taken_away(on.on.who());
  for (std::size_t i = 0; i < count; ++i)
    last.push_back(node_name(ends[i]));
  return {};
}

// What a stream was made to forget need not be joined, so that the last body of each counts. The
// order is that of the streams, as an update compares orders and the names of nodes have none.
status body_recorder::join_all() {
  node_list ends;
  for (const stream* each : members_) {
    if (status failed = read_ends(*each, ends); !failed) return failed;
  }
  std::set<graph_node> seen;
  auto* const first_again = std::remove_if(
      ends.begin(), ends.end(), [&](graph_node each) { return !seen.insert(each).second; });
  ends.resize(static_cast<std::size_t>(first_again - ends.begin()));
  const predecessors all({ends.begin(), ends.size()});
  return put_behind(*origin_, all.data(), all.size());
}

abi::result body_recorder::end_capture() noexcept {
  const stream& ending = *std::exchange(origin_, nullptr);
  const driver& api = ending.on.api();
  const context_guard in(api, ending.on.context());
  abi::graph into = nullptr;
  const abi::result answer = api->cuStreamEndCapture(ending.raw, &into);
  auto now = abi::capture_status::none;
  const bool is_left = answer != abi::result::success &&
                       api->cuStreamIsCapturing(ending.raw, &now) == abi::result::success &&
                       now != abi::capture_status::none;
  // Refused for a reason that has nothing to do with the capture: no stream may stay in it.
  if (is_left) api->cuStreamEndCapture(ending.raw, &into);
  // A driver destroys the graph of a capture that ends like this (0006), and the name cannot be
  // asked about any more. One that did not would leave the graph behind, which does less harm.
  is_graph_gone_ = answer == abi::result::stream_capture_invalidated ||
                   answer == abi::result::stream_capture_unjoined;
  for (stream* each : members_)
    each->capture_ended();
  members_.clear();
  return answer;
}

}  // namespace millstream::backend::cuda
