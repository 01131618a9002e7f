// SPDX-License-Identifier: Apache-2.0
#include "graph/lane_queue.hpp"

#include <algorithm>
#include <utility>

namespace millstream::graph {

namespace {

// Fewer are compared one by one.
constexpr std::size_t many = 16;

void make_many_unique(backend::node_list& nodes, std::vector<placed_node>& scratch) {
  scratch.clear();
  for (const backend::graph_node each : nodes)
    scratch.push_back({each, scratch.size()});
  std::sort(scratch.begin(), scratch.end());
  const auto is_same = [](const placed_node& a, const placed_node& b) { return a.node == b.node; };
  scratch.erase(std::unique(scratch.begin(), scratch.end(), is_same), scratch.end());
  std::sort(scratch.begin(), scratch.end(),
            [](const placed_node& a, const placed_node& b) { return a.place < b.place; });
  nodes.clear();
  for (const placed_node& each : scratch)
    nodes.push_back(each.node);
}

}  // namespace

void make_unique(backend::node_list& nodes, std::vector<placed_node>& scratch) {
  if (nodes.size() > many) return make_many_unique(nodes, scratch);
  auto* end = nodes.begin();
  for (const backend::graph_node each : nodes) {
    if (std::find(nodes.begin(), end, each) == end) *end++ = each;
  }
  nodes.resize(static_cast<std::size_t>(end - nodes.begin()));
}

// Mostly one, of one of the lists.
backend::node_span lane_queue::predecessors() {
  const backend::node_list& ends = lane_->ends;
  const backend::node_list& before = lane_->before;
  if (ends.size() + before.size() <= 1) {
    const backend::node_list& all = ends.empty() ? before : ends;
    return {all.begin(), all.size()};
  }
  backend::node_list& after = into_.after;
  after.clear();
  after.append({ends.begin(), ends.size()});
  after.append({before.begin(), before.size()});
  make_unique(after, into_.sorted);
  return {after.begin(), after.size()};
}

// Which lanes the operation comes after is mixed in when the engine says so.
backend::status lane_queue::note(kind what, backend::result<backend::graph_node> made) {
  if (!made) return made.take_status();
  if (made.value() == backend::graph_node::none) return {};
  into_.mix(static_cast<std::uint64_t>(what));
  lane_->before.clear();
  lane_->ends.clear();
  lane_->ends.push_back(made.value());
  return {};
}

backend::status lane_queue::copy(const backend::copy_request& request) {
  into_.mix(static_cast<std::uint64_t>(request.to_home));
  into_.mix(static_cast<std::uint64_t>(request.from_home));
  into_.mix(request.rank);
  return note(kind::copy, into_.graph->add_copy(request, predecessors()));
}

backend::status lane_queue::fill(const backend::fill_request& request) {
  into_.mix(static_cast<std::uint64_t>(request.home));
  into_.mix(request.pattern_bytes);
  return note(kind::fill, into_.graph->add_fill(request, predecessors()));
}

backend::status lane_queue::run(backend::job& work) {
  backend::status added =
      note(kind::host, into_.graph->add_host(work, lane_->place, predecessors()));
  if (added.ok()) into_.jobs.push_back(&work);
  return added;
}

// What an update may not change; a plain launch has nothing of it.
backend::status lane_queue::launch(const backend::launch_request& request) {
  const bool is_clustered = request.cluster != std::array<std::uint32_t, 3>{1, 1, 1};
  const unsigned form =
      (is_clustered ? 1U : 0U) | (request.cooperative ? 2U : 0U) | (request.programmatic ? 4U : 0U);
  if (form != 0) into_.mix(form);
  return note(kind::kernel, into_.graph->add_kernel(request, predecessors()));
}

backend::status lane_queue::record(backend::event& /*mark*/) {
  return {errc::internal, "a mark was set in a recorded lane; its completions are its nodes"};
}

backend::status lane_queue::wait(backend::event& /*mark*/) {
  return {errc::internal, "a recorded lane was told to wait for a mark"};
}

}  // namespace millstream::graph
