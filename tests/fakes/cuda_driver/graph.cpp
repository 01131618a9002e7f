// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/graph.hpp"

#include <algorithm>
#include <unordered_map>

namespace fake_cuda {

graph_ptr make_graph(call& in) {
  const auto made = std::make_shared<graph_state>();
  made->handle = in.new_handle<graph>();
  in.all.graphs[made->handle] = made;
  return made;
}

void destroy_graph(call& in, const graph_ptr& gone) {
  for (const node_ptr& one : gone->nodes)
    in.all.nodes.erase(one->handle);
  in.all.graphs.erase(gone->handle);
}

graph_ptr graph_of(call& in, graph handle) {
  const graph_ptr found = look_up(in.all.graphs, handle);
  require(found != nullptr);
  return found;
}

std::vector<node_ptr> nodes_of(call& in, const graph_state& owner, const graph_node* list,
                               std::size_t count) {
  std::vector<node_ptr> found;
  for (std::size_t i = 0; i < count; ++i) {
    found.push_back(look_up(in.all.nodes, list[i]));
    require(std::find(owner.nodes.begin(), owner.nodes.end(), found.back()) != owner.nodes.end());
  }
  return found;
}

node_ptr add_node(call& in, graph_state& to, node_type type, std::vector<node_ptr> after,
                  op_factory make) {
  const auto made = std::make_shared<node_state>();
  made->handle = in.new_handle<graph_node>();
  made->type = type;
  made->after = std::move(after);
  made->make = std::move(make);
  to.nodes.push_back(made);
  in.all.nodes[made->handle] = made;
  return made;
}

namespace {

/// The operation that ends a launch: the stream goes on behind it.
op_ptr join_of(const stream_ptr& on, std::vector<op_ptr> all) {
  op_ptr join = make_operation("graph launch", on->owner, nullptr);
  join->after = std::move(all);
  return join;
}

/// Nodes are kept in the order they were made, so predecessors come first.
std::vector<op_ptr> queue_nodes(call& in, const executable_graph_state& what, const op_ptr& start) {
  std::unordered_map<const node_state*, op_ptr> made;
  std::vector<op_ptr> all{start};
  for (const node_ptr& one : what.nodes) {
    const op_ptr operation = one->make();
    operation->after.push_back(start);
    for (const node_ptr& before : one->after)
      operation->after.push_back(made.at(before.get()));
    in.all.work.submit(operation);
    made[one.get()] = operation;
    all.push_back(operation);
  }
  return all;
}

template <class Item>
result copy_list(const std::vector<Item>& items, Item* into, std::size_t* count) {
  require(count != nullptr);
  if (into != nullptr) std::copy_n(items.begin(), std::min(*count, items.size()), into);
  *count = items.size();
  return result::success;
}

}  // namespace

namespace served {

result cuGraphCreate(call& in, graph* made, std::uint32_t flags) {
  require(made != nullptr && flags == 0);
  *made = make_graph(in)->handle;
  return result::success;
}

result cuGraphDestroy(call& in, graph gone) {
  destroy_graph(in, graph_of(in, gone));
  return result::success;
}

result cuGraphAddEmptyNode(call& in, graph_node* made, graph into, const graph_node* after,
                           std::size_t count) {
  require(made != nullptr);
  const graph_ptr found = graph_of(in, into);
  const auto nothing = [] { return std::make_shared<operation>(); };
  *made =
      add_node(in, *found, node_type::empty, nodes_of(in, *found, after, count), nothing)->handle;
  return result::success;
}

result cuGraphInstantiateWithFlags(call& in, executable_graph* made, graph from,
                                   std::uint64_t /*flags*/) {
  require(made != nullptr);
  static_cast<void>(in.current());
  const graph_ptr found = graph_of(in, from);
  require(!found->is_captured_into, result::illegal_state);
  const auto ready = std::make_shared<executable_graph_state>();
  ready->handle = in.new_handle<executable_graph>();
  ready->nodes = found->nodes;
  in.all.executables[ready->handle] = ready;
  *made = ready->handle;
  return result::success;
}

result cuGraphLaunch(call& in, executable_graph what, stream on) {
  const auto found = look_up(in.all.executables, what);
  require(found != nullptr);
  const stream_ptr here = in.at(on);
  require(here->capture == nullptr, result::stream_capture_unsupported);
  op_ptr start;
  issue(in, here, node_type::empty, [&] {
    start = make_operation("graph start", here->owner, nullptr);
    start->after.push_back(found->last);
    return start;
  });
  const std::vector<op_ptr> all = queue_nodes(in, *found, start);
  issue(in, here, node_type::empty, [&] { return join_of(here, all); });
  found->last = here->tail;
  return result::success;
}

result cuGraphExecDestroy(call& in, executable_graph gone) {
  require(in.all.executables.erase(gone) != 0);
  return result::success;
}

result cuGraphGetNodes(call& in, graph of, graph_node* nodes, std::size_t* count) {
  std::vector<graph_node> all;
  for (const node_ptr& one : graph_of(in, of)->nodes)
    all.push_back(one->handle);
  return copy_list(all, nodes, count);
}

result cuGraphGetRootNodes(call& in, graph of, graph_node* nodes, std::size_t* count) {
  std::vector<graph_node> roots;
  for (const node_ptr& one : graph_of(in, of)->nodes)
    if (one->after.empty()) roots.push_back(one->handle);
  return copy_list(roots, nodes, count);
}

result cuGraphGetEdges(call& in, graph of, graph_node* from, graph_node* to, std::size_t* count) {
  require(count != nullptr && (from == nullptr) == (to == nullptr));
  std::vector<graph_node> starts;
  std::vector<graph_node> ends;
  for (const node_ptr& one : graph_of(in, of)->nodes)
    for (const node_ptr& before : one->after) {
      starts.push_back(before->handle);
      ends.push_back(one->handle);
    }
  std::size_t same = *count;
  copy_list(starts, from, &same);
  return copy_list(ends, to, count);
}

result cuGraphNodeGetType(call& in, graph_node of, node_type* type) {
  require(type != nullptr);
  const node_ptr found = look_up(in.all.nodes, of);
  require(found != nullptr);
  *type = found->type;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
