// SPDX-License-Identifier: Apache-2.0
// Graphs that are ready to be launched.
#include <algorithm>
#include <unordered_map>

#include "tests/fakes/cuda_driver/capture.hpp"
#include "tests/fakes/cuda_driver/graph.hpp"
#include "tests/fakes/cuda_driver/graph_memory.hpp"

namespace fake_cuda {

std::shared_ptr<const executable_body> make_body(const graph_state& of) {
  const auto made = std::make_shared<executable_body>();
  made->kept = of.kept;
  std::unordered_map<const node_state*, std::size_t> places;
  for (const node_ptr& one : of.nodes) {
    executable_body::node copy{one->work, {}, {}};
    for (const node_ptr& before : one->after)
      copy.after.push_back(places.at(before.get()));
    for (const node_ptr& before : one->early)
      copy.early.push_back(places.at(before.get()));
    places[one.get()] = made->nodes.size();
    made->nodes.push_back(std::move(copy));
  }
  for (const node_ptr& end : of.capture_ends)
    made->capture_ends.push_back(places.at(end.get()));
  return made;
}

bool owns_memory(const executable_body& what) {
  return std::any_of(what.nodes.begin(), what.nodes.end(), [](const executable_body::node& one) {
    return one.work.memory != nullptr ||
           (one.work.child != nullptr && owns_memory(*one.work.child));
  });
}

namespace {

/// Waits for others and does nothing.
op_ptr make_join(const char* what, const std::shared_ptr<fault_scope>& faults, int device,
                 std::vector<op_ptr> all) {
  const auto join = std::make_shared<operation>();
  join->what = what;
  join->device = device;
  join->faults = faults;
  join->after = std::move(all);
  return join;
}

/// Waits for an operation that holds its launch, and for all of the launch before it: an H200 was
/// seen to come back from such a launch only when host nodes beside the copy had ended, if these
/// were made before it.
void finish_launched(call& in, const std::vector<op_ptr>& so_far) {
  for (const op_ptr& one : so_far)
    finish(in, one);
}

/// Queues the nodes of a body behind `start`. Answers what ends it. `so_far` is the whole launch.
op_ptr queue_body(call& in, const executable_body& what, const op_ptr& start,
                  std::vector<op_ptr>& so_far) {
  std::vector<op_ptr> ends;
  for (const executable_body::node& one : what.nodes) {
    std::vector<op_ptr> before{start};
    for (const std::size_t place : one.after)
      before.push_back(ends[place]);
    if (one.work.child != nullptr) {
      const op_ptr inner = make_join("child graph", start->faults, start->device, before);
      in.all.work.submit(inner);
      ends.push_back(queue_body(in, *one.work.child, inner, so_far));
      continue;
    }
    const op_ptr made = one.work.make();
    if (made->faults == nullptr) made->faults = start->faults;
    made->after.insert(made->after.end(), before.begin(), before.end());
    const bool holds_launch = made->holds_launch;
    in.all.work.submit(made);
    ends.push_back(made);
    so_far.push_back(made);
    if (holds_launch) finish_launched(in, so_far);
  }
  ends.push_back(start);
  const op_ptr end = make_join("graph", start->faults, start->device, std::move(ends));
  in.all.work.submit(end);
  return end;
}

graph_update_result difference(const executable_body& to, const executable_body& from) {
  if (to.nodes.size() != from.nodes.size()) return graph_update_result::topology_changed;
  for (std::size_t i = 0; i < to.nodes.size(); ++i) {
    const executable_body::node& ours = to.nodes[i];
    const executable_body::node& theirs = from.nodes[i];
    if (ours.work.type != theirs.work.type) return graph_update_result::node_type_changed;
    if (ours.after != theirs.after || ours.early != theirs.early)
      return graph_update_result::topology_changed;
    if (ours.work.memory != nullptr) return graph_update_result::not_supported;
    if (ours.work.attributes != theirs.work.attributes)
      return graph_update_result::attributes_changed;
    if (ours.work.fixed != theirs.work.fixed)
      return ours.work.type == node_type::launch ? graph_update_result::unsupported_function_change
                                                 : graph_update_result::parameters_changed;
    if (ours.work.child == nullptr) continue;
    const graph_update_result inside = difference(*ours.work.child, *theirs.work.child);
    if (inside != graph_update_result::success) return inside;
  }
  return to.capture_ends == from.capture_ends ? graph_update_result::success
                                              : graph_update_result::topology_changed;
}

/// The first node of the type that tests forbid, or null.
graph_node find_refused(call& in, graph from) {
  const graph_ptr found = graph_of(in, from);
  for (const node_ptr& one : found->nodes) {
    if (static_cast<int>(one->work.type) == in.all.config.refused_node) return one->handle;
  }
  return nullptr;
}

result instantiate(call& in, executable_graph* made, graph from) {
  static_cast<void>(in.current());
  const graph_ptr found = graph_of(in, from);
  require(!found->is_captured_into, result::illegal_state);
  require(found->moved_into == nullptr);
  const auto ready = std::make_shared<executable_graph_state>();
  ready->handle = in.new_handle<executable_graph>();
  ready->body = make_body(*found);
  // Graphs with memory of their own have one executable at a time.
  require(!owns_memory(*ready->body) || in.all.executables.count(found->instance) == 0,
          result::not_supported);
  found->instance = ready->handle;
  in.all.executables[ready->handle] = ready;
  *made = ready->handle;
  return result::success;
}

std::shared_ptr<executable_graph_state> executable_of(call& in, executable_graph handle) {
  auto found = look_up(in.all.executables, handle);
  require(found != nullptr);
  return found;
}

}  // namespace

namespace served {

result cuGraphInstantiateWithFlags(call& in, executable_graph* made, graph from,
                                   std::uint64_t /*flags*/) {
  require(made != nullptr);
  return instantiate(in, made, from);
}

result cuGraphInstantiateWithParams(call& in, executable_graph* made, graph from,
                                    graph_instantiate_parameters* how) {
  require(made != nullptr && how != nullptr);
  how->error_node = find_refused(in, from);
  how->result = graph_instantiate_result::error;
  require(how->error_node == nullptr, result::not_supported);
  const result answer = instantiate(in, made, from);
  how->result = graph_instantiate_result::success;
  return answer;
}

/// Launches on their way go on as they were. A refusal changes nothing.
result cuGraphExecUpdate(call& in, executable_graph target, graph from, graph_update_info* how) {
  require(how != nullptr);
  *how = {graph_update_result::error, nullptr, nullptr};
  const auto found = executable_of(in, target);
  const graph_ptr source = graph_of(in, from);
  require(!source->is_captured_into, result::illegal_state);
  require(source->moved_into == nullptr);
  auto body = make_body(*source);
  how->result = difference(*found->body, *body);
  require(how->result == graph_update_result::success, result::graph_update_failure);
  found->body = std::move(body);
  return result::success;
}

/// Refused for a stream that is captured, as the real driver was seen to do.
result cuGraphLaunch(call& in, executable_graph what, stream on) {
  const auto found = executable_of(in, what);
  const stream_ptr here = in.at(on);
  refuse_captured(in, here);
  const memory_promise promised = promise_memory(in, *found->body);
  op_ptr start;
  issue(in, here, node_type::empty, [&] {
    start = make_operation("graph start", here->owner, nullptr);
    start->after.push_back(found->last);
    return start;
  });
  const std::shared_ptr<const executable_body> body = found->body;
  std::vector<op_ptr> so_far;
  const op_ptr end = queue_body(in, *body, start, so_far);
  issue(in, here, node_type::empty, [&] {
    op_ptr join = make_join("graph launch", here->owner->faults, here->owner->device, {end});
    join->skipped = [all = &in.all, promised] { end_promise(*all, promised); };
    // What the body keeps outlasts an update and the end of the executable.
    join->run = [all = &in.all, promised, body] {
      end_promise(*all, promised);
      return turn::done;
    };
    return join;
  });
  found->last = here->tail;
  return result::success;
}

/// A launch on its way goes on.
result cuGraphExecDestroy(call& in, executable_graph gone) {
  require(in.all.executables.erase(gone) != 0);
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
