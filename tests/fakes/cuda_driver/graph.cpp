// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/graph.hpp"

#include <algorithm>
#include <fstream>
#include <unordered_set>

namespace fake_cuda {

graph_ptr make_graph(call& in) {
  const auto made = std::make_shared<graph_state>();
  made->handle = in.new_handle<graph>();
  in.all.graphs[made->handle] = made;
  return made;
}

void destroy_graph(call& in, const graph_ptr& gone) {
  for (const node_ptr& one : gone->nodes) {
    in.all.nodes.erase(one->handle);
    if (one->moved != nullptr) destroy_graph(in, one->moved);
  }
  in.all.graphs.erase(gone->handle);
}

graph_ptr graph_of(call& in, graph handle) {
  const graph_ptr found = look_up(in.all.graphs, handle);
  require(found != nullptr);
  return found;
}

node_ptr node_of(call& in, graph_node handle) {
  const node_ptr found = look_up(in.all.nodes, handle);
  require(found != nullptr);
  return found;
}

std::vector<node_ptr> nodes_of(call& in, const graph_state& owner, const graph_node* list,
                               std::size_t count) {
  require(count == 0 || list != nullptr);
  std::vector<node_ptr> found;
  std::unordered_set<graph_node> seen;
  for (std::size_t i = 0; i < count; ++i) {
    found.push_back(node_of(in, list[i]));
    require(found.back()->owner == owner.handle && seen.insert(list[i]).second);
  }
  return found;
}

namespace {

// The names of a driver's nodes say nothing of their order.
graph_node name_of_node(call& in) {
  constexpr std::uint64_t odd = 0x9e3779b97f4a7c15U;
  const auto number = reinterpret_cast<std::uint64_t>(in.new_handle<graph_node>());
  return reinterpret_cast<graph_node>(number * odd);
}

}  // namespace

node_ptr add_node(call& in, graph_state& to, node_work work, std::vector<node_ptr> after) {
  const auto made = std::make_shared<node_state>();
  made->handle = name_of_node(in);
  made->owner = to.handle;
  made->work = std::move(work);
  made->after = std::move(after);
  to.nodes.push_back(made);
  in.all.nodes[made->handle] = made;
  return made;
}

namespace {

template <class Item>
result copy_list(const std::vector<Item>& items, Item* into, std::size_t* count) {
  require(count != nullptr);
  if (into != nullptr) std::copy_n(items.begin(), std::min(*count, items.size()), into);
  *count = items.size();
  return result::success;
}

const char* name_of(node_type type) {
  switch (type) {
    case node_type::launch: return "KERNEL";
    case node_type::copy: return "MEMCPY";
    case node_type::fill: return "MEMSET";
    case node_type::host: return "HOST";
    case node_type::child: return "GRAPH";
    case node_type::memory_allocation: return "MEM_ALLOC";
    case node_type::memory_free: return "MEM_FREE";
    default: return "NODE";
  }
}

}  // namespace

namespace served {

result cuGraphCreate(call& in, graph* made, std::uint32_t flags) {
  require(made != nullptr && flags == 0);
  *made = make_graph(in)->handle;
  return result::success;
}

result cuGraphDestroy(call& in, graph gone) {
  const graph_ptr found = graph_of(in, gone);
  require(found->moved_into == nullptr);
  destroy_graph(in, found);
  return result::success;
}

result cuGraphGetNodes(call& in, graph of, graph_node* nodes, std::size_t* count) {
  const graph_ptr found = graph_of(in, of);
  if (nodes == nullptr) {
    require(count != nullptr);
    *count = found->nodes.size();
    return result::success;
  }
  std::vector<graph_node> all;
  for (const node_ptr& one : found->nodes)
    all.push_back(one->handle);
  return copy_list(all, nodes, count);
}

result cuGraphGetRootNodes(call& in, graph of, graph_node* nodes, std::size_t* count) {
  std::vector<graph_node> roots;
  for (const node_ptr& one : graph_of(in, of)->nodes)
    if (one->after.empty()) roots.push_back(one->handle);
  return copy_list(roots, nodes, count);
}

/// The kinds of edges are not left out where there are others than ordinary ones.
result cuGraphGetEdges(call& in, graph of, graph_node* from, graph_node* to, graph_edge* kinds,
                       std::size_t* count) {
  require(count != nullptr && (from == nullptr) == (to == nullptr));
  std::vector<graph_node> starts;
  std::vector<graph_node> ends;
  std::vector<graph_edge> between;
  bool is_any_early = false;
  for (const node_ptr& one : graph_of(in, of)->nodes)
    for (const node_ptr& before : one->after) {
      const bool is_early =
          std::find(one->early.begin(), one->early.end(), before) != one->early.end();
      starts.push_back(before->handle);
      ends.push_back(one->handle);
      between.push_back(is_early ? programmatic_edge : graph_edge{});
      is_any_early = is_any_early || is_early;
    }
  require(kinds != nullptr || from == nullptr || !is_any_early, result::lossy_query);
  std::size_t same = *count;
  copy_list(starts, from, &same);
  same = *count;
  copy_list(between, kinds, &same);
  return copy_list(ends, to, count);
}

result cuGraphNodeGetType(call& in, graph_node of, node_type* type) {
  require(type != nullptr);
  *type = node_of(in, of)->work.type;
  return result::success;
}

/// A node that others come after leaves them without that predecessor.
result cuGraphDestroyNode(call& in, graph_node gone) {
  const node_ptr found = node_of(in, gone);
  const graph_ptr owner = graph_of(in, found->owner);
  require(!owner->is_captured_into, result::not_supported);
  require(!owns_memory(*make_body(*owner)), result::not_supported);
  std::erase(owner->nodes, found);
  std::erase(owner->capture_ends, found);
  for (const node_ptr& one : owner->nodes) {
    std::erase(one->after, found);
    std::erase(one->early, found);
  }
  in.all.nodes.erase(gone);
  return result::success;
}

result cuGraphDebugDotPrint(call& in, graph of, const char* path, std::uint32_t /*flags*/) {
  require(path != nullptr);
  const graph_ptr found = graph_of(in, of);
  std::ofstream file(path);
  require(file.is_open(), result::operating_system);
  const auto number = [](const node_state& one) {
    return reinterpret_cast<std::uintptr_t>(one.handle);
  };
  file << "digraph dot {\n";
  for (const node_ptr& one : found->nodes) {
    file << "  n" << number(*one) << " [label=\"" << name_of(one->work.type) << "\"];\n";
    for (const node_ptr& before : one->after)
      file << "  n" << number(*before) << " -> n" << number(*one) << ";\n";
  }
  file << "}\n";
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
