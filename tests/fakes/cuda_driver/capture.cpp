// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/capture.hpp"

#include <algorithm>

#include "tests/fakes/cuda_driver/graph.hpp"

namespace fake_cuda {

namespace {

/// All captures that are going on.
std::vector<capture_ptr> captures_of(state& all) {
  std::vector<capture_ptr> open;
  for (const std::weak_ptr<capture_state>& one : all.captures)
    if (capture_ptr held = one.lock(); held != nullptr && !held->ended) open.push_back(held);
  return open;
}

bool is_disturbed_by(const capture_state& what, const thread_state& caller) {
  if (caller.mode == capture_mode::relaxed || what.mode == capture_mode::relaxed) return false;
  if (what.thread == caller.number) return true;
  return caller.mode == capture_mode::global && what.mode == capture_mode::global;
}

void add_member(capture_state& to, const stream_ptr& what, std::vector<node_ptr> after,
                const capture_ptr& shared) {
  what->capture = shared;
  what->capture_tail = std::move(after);
  to.members.emplace_back(what);
}

void merge(std::vector<node_ptr>& into, const std::vector<node_ptr>& more) {
  for (const node_ptr& one : more)
    if (std::find(into.begin(), into.end(), one) == into.end()) into.push_back(one);
}

/// Whatever nothing comes after must be an end of the origin. Nodes that a stream was made to
/// forget count as joined.
bool all_joined(const capture_state& what, const stream_state& origin) {
  std::size_t ends = 0;
  for (const node_ptr& one : origin.capture_tail)
    ends += what.unjoined.count(one.get());
  return ends == what.unjoined.size();
}

void refuse_spoilt(const capture_state& what) {
  require(!what.invalid, result::stream_capture_invalidated);
}

void end(state& all, capture_state& what) {
  what.ended = true;
  what.into->is_captured_into = false;
  what.into->user = graph_state::nobody;
  what.into = nullptr;  // events remember the capture, and the graph is not theirs
  for (const std::weak_ptr<stream_state>& one : what.members)
    if (const stream_ptr member = one.lock()) {
      member->capture = nullptr;
      member->capture_tail.clear();
    }
  std::erase_if(all.captures, [&what](const std::weak_ptr<capture_state>& one) {
    const capture_ptr held = one.lock();
    return held == nullptr || held.get() == &what;
  });
}

void begin(call& in, const stream_ptr& on, capture_mode mode, const graph_ptr& into,
           std::vector<node_ptr> after, bool graph_is_new) {
  require(!on->legacy, result::stream_capture_unsupported);
  require(on->capture == nullptr, result::illegal_state);
  const auto made = std::make_shared<capture_state>();
  made->id = in.all.next_id++;
  made->mode = mode;
  made->thread = in.thread.number;
  made->into = into;
  made->graph_is_new = graph_is_new;
  made->origin = on;
  into->is_captured_into = true;
  into->user = in.thread.number;
  in.all.captures.emplace_back(made);
  add_member(*made, on, std::move(after), made);
}

bool is_mode(capture_mode mode) {
  return mode == capture_mode::global || mode == capture_mode::thread_local_mode ||
         mode == capture_mode::relaxed;
}

/// Only blocking streams are ordered with the legacy one.
std::vector<capture_ptr> captures_beside_legacy(const context_state& in) {
  std::vector<capture_ptr> found;
  for (const std::weak_ptr<stream_state>& one : in.streams)
    if (const stream_ptr other = one.lock();
        other != nullptr && other->blocking && other->capture != nullptr)
      found.push_back(other->capture);
  return found;
}

}  // namespace

void spoil(capture_state& what) {
  what.invalid = true;
}

void record_node(call& in, const stream_ptr& on, node_work work) {
  capture_state& here = *on->capture;
  refuse_spoilt(here);
  here.into->user = in.thread.number;
  work.fixed = reinterpret_cast<std::uint64_t>(on->owner->handle);
  const node_ptr made = add_node(in, *here.into, std::move(work), on->capture_tail);
  for (const node_ptr& before : on->capture_tail)
    here.unjoined.erase(before.get());
  here.unjoined.insert(made.get());
  on->capture_tail = {made};
}

bool join_capture(const stream_ptr& on, const event_ptr& mark) {
  const capture_ptr theirs = mark->captured_in;
  if (theirs == nullptr) {
    if (on->capture == nullptr) return false;
    if (mark->mark == nullptr) return true;
    spoil(*on->capture);
    throw refusal{result::stream_capture_isolation};
  }
  require(!theirs->ended);
  refuse_spoilt(*theirs);
  if (on->capture == nullptr) {
    require(!on->legacy, result::stream_capture_implicit);
    add_member(*theirs, on, mark->captured_after, theirs);
    return true;
  }
  if (on->capture != theirs) {
    spoil(*on->capture);
    spoil(*theirs);
    throw refusal{result::stream_capture_merge};
  }
  merge(on->capture_tail, mark->captured_after);
  return true;
}

void refuse_unsafe_call(call& in) {
  bool disturbs = false;
  for (const capture_ptr& one : captures_of(in.all))
    if (is_disturbed_by(*one, in.thread)) {
      spoil(*one);
      disturbs = true;
    }
  require(!disturbs, result::stream_capture_unsupported);
}

void refuse_captures(context_state& in) {
  bool disturbs = false;
  for (const std::weak_ptr<stream_state>& one : in.streams)
    if (const stream_ptr other = one.lock(); other != nullptr && other->capture != nullptr) {
      spoil(*other->capture);
      disturbs = true;
    }
  require(!disturbs, result::stream_capture_unsupported);
}

void refuse_captured(call& in, const stream_ptr& of) {
  if (of->capture != nullptr) {
    refuse_spoilt(*of->capture);
    spoil(*of->capture);
    throw refusal{result::stream_capture_unsupported};
  }
  refuse_implicit_dependence(in, of);
}

void refuse_implicit_dependence(call& /*in*/, const stream_ptr& on) {
  if (!on->legacy) return;
  const std::vector<capture_ptr> beside = captures_beside_legacy(*on->owner);
  for (const capture_ptr& one : beside)
    spoil(*one);
  require(beside.empty(), result::stream_capture_implicit);
}

namespace served {

result cuStreamIsCapturing(call& in, stream of, capture_status* now) {
  require(now != nullptr);
  const stream_ptr here = in.at(of);
  require(!here->legacy || captures_beside_legacy(*here->owner).empty(),
          result::stream_capture_implicit);
  *now = here->capture == nullptr ? capture_status::none
         : here->capture->invalid ? capture_status::invalidated
                                  : capture_status::active;
  return result::success;
}

result cuThreadExchangeStreamCaptureMode(call& in, capture_mode* mode) {
  require(mode != nullptr && is_mode(*mode));
  std::swap(in.thread.mode, *mode);
  return result::success;
}

result cuStreamGetCaptureInfo(call& in, stream of, capture_status* now, std::uint64_t* id,
                              graph* into, const graph_node** after, const graph_edge** edges,
                              std::size_t* count) {
  const result answer = cuStreamIsCapturing(in, of, now);
  if (*now == capture_status::none) return answer;
  const stream_ptr here = in.at(of);
  here->capture->into->user = graph_state::nobody;
  if (id != nullptr) *id = here->capture->id;
  if (into != nullptr) *into = here->capture->into->handle;
  // Valid until the next call on the stream, as the driver promises.
  here->listed_tail.clear();
  for (const node_ptr& one : here->capture_tail)
    here->listed_tail.push_back(one->handle);
  if (after != nullptr) *after = here->listed_tail.data();
  if (edges != nullptr) *edges = nullptr;
  if (count != nullptr) *count = here->listed_tail.size();
  return answer;
}

result cuStreamBeginCapture(call& in, stream on, capture_mode mode) {
  require(is_mode(mode));
  const stream_ptr here = in.at(on);
  require(!here->legacy, result::stream_capture_unsupported);
  require(here->capture == nullptr, result::illegal_state);
  begin(in, here, mode, make_graph(in), {}, true);
  return result::success;
}

result cuStreamBeginCaptureToGraph(call& in, stream on, graph into, const graph_node* after,
                                   const graph_edge* /*edges*/, std::size_t count,
                                   capture_mode mode) {
  require(is_mode(mode));
  const graph_ptr found = graph_of(in, into);
  require(!found->is_captured_into, result::illegal_state);
  begin(in, in.at(on), mode, found, nodes_of(in, *found, after, count), false);
  return result::success;
}

result cuStreamUpdateCaptureDependencies(call& in, stream of, graph_node* after,
                                         const graph_edge* /*edges*/, std::size_t count,
                                         capture_dependencies_flags how) {
  require(how == capture_dependencies_flags::add || how == capture_dependencies_flags::set);
  const stream_ptr here = in.at(of);
  require(here->capture != nullptr, result::illegal_state);
  refuse_spoilt(*here->capture);
  here->capture->into->user = in.thread.number;
  const std::vector<node_ptr> given = nodes_of(in, *here->capture->into, after, count);
  if (how == capture_dependencies_flags::set) {
    for (const node_ptr& one : here->capture_tail)
      here->capture->unjoined.erase(one.get());
    here->capture_tail.clear();
  }
  merge(here->capture_tail, given);
  return result::success;
}

result cuStreamEndCapture(call& in, stream on, graph* captured) {
  require(captured != nullptr);
  *captured = nullptr;
  const stream_ptr here = in.at(on);
  const capture_ptr ending = here->capture;
  require(ending != nullptr, result::illegal_state);
  if (ending->origin.lock() != here) {
    spoil(*ending);
    throw refusal{result::stream_capture_unmatched};
  }
  // Another thread ends the capture, but gets nothing.
  const bool may_end = ending->mode == capture_mode::relaxed || ending->thread == in.thread.number;
  const bool joined = all_joined(*ending, *here);
  const graph_ptr into = ending->into;
  into->capture_ends.insert(into->capture_ends.end(), here->capture_tail.begin(),
                            here->capture_tail.end());
  end(in.all, *ending);
  const bool good = may_end && joined && !ending->invalid;
  if (!good) destroy_graph(in, into);  // a graph of the caller, too, as an H200 did
  require(may_end, result::stream_capture_wrong_thread);
  refuse_spoilt(*ending);
  require(joined, result::stream_capture_unjoined);
  *captured = into->handle;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
