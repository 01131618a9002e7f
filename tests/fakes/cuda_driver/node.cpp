// SPDX-License-Identifier: Apache-2.0
// Nodes that are added one by one.
#include <cstring>

#include "tests/fakes/cuda_driver/graph.hpp"
#include "tests/fakes/cuda_driver/launch.hpp"

namespace fake_cuda {

namespace {

// A graph has one user at a time: another thread captures into it whenever it likes, so that the
// real driver was seen to crash here. Looking at the capture is taken for the end of that.
result add(call& in, graph_node* made, const graph_ptr& into, const graph_node* after,
           std::size_t count, node_work work) {
  require(into->user == graph_state::nobody || into->user == in.thread.number,
          result::illegal_state);
  *made = add_node(in, *into, std::move(work), nodes_of(in, *into, after, count))->handle;
  return result::success;
}

std::uint64_t number_of(const context_state& of) {
  return reinterpret_cast<std::uint64_t>(of.handle);
}

launch_config shape_of(const kernel_node& what) {
  return {what.grid_x,  what.grid_y,       what.grid_z, what.block_x, what.block_y,
          what.block_z, what.shared_bytes, nullptr,     nullptr,      0};
}

/// A kernel of a library runs in the context that is named, or the current one.
context_ptr context_for(call& in, const kernel_node& what, const function_state& entry) {
  if (entry.owner != nullptr) return entry.owner;
  require(what.entry == nullptr, result::invalid_handle);
  return what.in == nullptr ? in.current() : in.context_of(what.in);
}

node_work work_of(call& in, const kernel_node& what) {
  const function_ptr entry =
      what.entry != nullptr ? function_of(in, what.entry) : function_of(in, what.of_library);
  const context_ptr owner = context_for(in, what, *entry);
  node_work work;
  work.type = node_type::launch;
  work.how = shape_of(what);
  work.make = check_launch(in, work.how, entry, owner, what.parameters, what.extra);
  work.fixed = number_of(*owner);
  return work;
}

bool is_same(const graph_edge& a, const graph_edge& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// Which predecessors need not have ended, by the kinds of the edges from them: ordinary ones, and
/// those from kernels to a kernel.
std::vector<node_ptr> early_of(const std::vector<node_ptr>& after, const graph_edge* kinds,
                               node_type type) {
  std::vector<node_ptr> early;
  for (std::size_t i = 0; kinds != nullptr && i < after.size(); ++i) {
    if (is_same(kinds[i], {})) continue;
    require(is_same(kinds[i], programmatic_edge));
    require(type == node_type::launch && after[i]->work.type == node_type::launch);
    early.push_back(after[i]);
  }
  return early;
}

/// A graph that is moved, as drivers do since 12.9: with the memory that it owns, and to be
/// destroyed with the graph that it becomes a part of.
result move_graph(call& in, graph_node* made, const graph_ptr& into, const graph_node* after,
                  std::size_t count, const child_node& what) {
  constexpr int moving_since = 12090;
  require(what.ownership == child_ownership::moved && in.all.config.version >= moving_since);
  const graph_ptr inner = graph_of(in, what.child);
  require(inner != into && !inner->is_captured_into && inner->moved_into == nullptr);
  node_work work;
  work.type = node_type::child;
  work.child = make_body(*inner);
  static_cast<void>(add(in, made, into, after, count, std::move(work)));
  inner->moved_into = into->handle;
  node_of(in, *made)->moved = inner;
  return result::success;
}

}  // namespace

namespace served {

result cuGraphAddEmptyNode(call& in, graph_node* made, graph into, const graph_node* after,
                           std::size_t count) {
  require(made != nullptr);
  node_work work;
  work.make = [] { return std::make_shared<operation>(); };
  return add(in, made, graph_of(in, into), after, count, std::move(work));
}

result cuGraphAddKernelNode(call& in, graph_node* made, graph into, const graph_node* after,
                            std::size_t count, const kernel_node* what) {
  require(made != nullptr && what != nullptr);
  const graph_ptr found = graph_of(in, into);
  return add(in, made, found, after, count, work_of(in, *what));
}

result cuGraphKernelNodeSetAttribute(call& in, graph_node of, launch_attribute_id what,
                                     const launch_attribute_value* value) {
  require(value != nullptr);
  node_work& work = node_of(in, of)->work;
  require(work.type == node_type::launch);
  // Order among launches of a stream is what edges are for.
  require(what != launch_attribute_id::programmatic_stream_serialization);
  in.all.launch_attributes = work.attributes;
  check_attribute(in, work.how, {what, {}, *value});
  work.attributes = in.all.launch_attributes;
  return result::success;
}

result cuGraphAddMemcpyNode(call& in, graph_node* made, graph into, const graph_node* after,
                            std::size_t count, const copy_3d* what, context where) {
  require(made != nullptr && what != nullptr);
  const graph_ptr found = graph_of(in, into);
  const context_ptr owner = in.context_of(where);
  constexpr std::uint64_t kinds = 8;
  node_work work;
  work.type = node_type::copy;
  work.make = make_copy(in, *what, owner);
  work.fixed = (number_of(*owner) * kinds + static_cast<std::uint64_t>(what->to_type)) * kinds +
               static_cast<std::uint64_t>(what->from_type);
  return add(in, made, found, after, count, std::move(work));
}

result cuGraphAddMemsetNode(call& in, graph_node* made, graph into, const graph_node* after,
                            std::size_t count, const fill_node* what, context where) {
  require(made != nullptr && what != nullptr);
  const graph_ptr found = graph_of(in, into);
  const context_ptr owner = in.context_of(where);
  node_work work;
  work.type = node_type::fill;
  work.make = make_fill(in, *what, owner);
  work.fixed = number_of(*owner);
  return add(in, made, found, after, count, std::move(work));
}

result cuGraphAddHostNode(call& in, graph_node* made, graph into, const graph_node* after,
                          std::size_t count, const host_node* what) {
  require(made != nullptr && what != nullptr);
  node_work work;
  work.type = node_type::host;
  work.make = make_host_call(in, nullptr, what->call, what->data);
  return add(in, made, graph_of(in, into), after, count, std::move(work));
}

/// The nodes of the child as they are now.
result cuGraphAddChildGraphNode(call& in, graph_node* made, graph into, const graph_node* after,
                                std::size_t count, graph child) {
  require(made != nullptr);
  const graph_ptr inner = graph_of(in, child);
  const graph_ptr found = graph_of(in, into);
  require(inner != found && !inner->is_captured_into && inner->moved_into == nullptr);
  node_work work;
  work.type = node_type::child;
  work.child = make_body(*inner);
  require(!owns_memory(*work.child), result::not_supported);
  return add(in, made, found, after, count, std::move(work));
}

/// Of all kinds of nodes kernels and graphs that are moved. An early kernel runs in order here, as
/// it may.
result cuGraphAddNode(call& in, graph_node* made, graph into, const graph_node* after,
                      const graph_edge* edges, std::size_t count, any_node* what) {
  require(made != nullptr && what != nullptr);
  const graph_ptr found = graph_of(in, into);
  std::vector<node_ptr> early = early_of(nodes_of(in, *found, after, count), edges, what->type);
  if (what->type == node_type::child)
    return move_graph(in, made, found, after, count, what->nested);
  require(what->type == node_type::launch);
  static_cast<void>(add(in, made, found, after, count, work_of(in, what->launch)));
  node_of(in, *made)->early = std::move(early);
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
