// SPDX-License-Identifier: Apache-2.0
#include "backend/host/plan.hpp"

#include <utility>

namespace millstream::backend::host {

std::size_t recording::bytes() const noexcept {
  return shape.bytes() + work.capacity() * sizeof(node_work);
}

plan::plan(const recording& what) {
  edge_list edges;
  static_cast<void>(add_nodes(what, {}, edges));
  sort(edges);
}

std::vector<plan::index> plan::add_nodes(const recording& in, std::optional<index> entry,
                                         edge_list& edges) {
  kept_.insert(kept_.end(), in.kept.begin(), in.kept.end());
  std::vector<index> ends;
  ends.reserve(in.shape.size());
  for (std::size_t at = 0; at < in.shape.size(); ++at) {
    const auto first = static_cast<index>(steps_.size());
    ends.push_back(add_node(in, at, edges));
    const auto before = in.shape.predecessors(at);
    if (before.empty() && entry) edges.push_back({*entry, first});
    for (const graph_shape::index each : before)
      edges.push_back({ends[each], first});
  }
  return ends;
}

plan::index plan::add_step(const step_work& work, int place) {
  steps_.push_back({work, 0, 0, place});
  return static_cast<index>(steps_.size() - 1);
}

plan::index plan::add_node(const recording& in, std::size_t at, edge_list& edges) {
  const node_work& work = in.work[at];
  const int place = in.shape.place(at);
  if (const auto* child = std::get_if<std::shared_ptr<const recording>>(&work)) {
    const index entry = add_step({}, place);
    return add_child(**child, entry, edges);
  }
  if (const auto* copy = std::get_if<copy_request>(&work)) return add_step(*copy, place);
  if (const auto* fill = std::get_if<fill_request>(&work)) return add_step(*fill, place);
  return add_step(std::get<job*>(work), place);
}

plan::index plan::add_child(const recording& child, index entry, edge_list& edges) {
  std::vector<bool> is_last(child.shape.size(), true);
  for (std::size_t at = 0; at < child.shape.size(); ++at) {
    for (const graph_shape::index before : child.shape.predecessors(at))
      is_last[before] = false;
  }
  const std::vector<index> ends = add_nodes(child, entry, edges);
  const index exit = add_step({}, -1);
  edges.push_back({entry, exit});  // for a child without nodes
  for (std::size_t at = 0; at < ends.size(); ++at) {
    if (is_last[at]) edges.push_back({ends[at], exit});
  }
  return exit;
}

/// A counting sort: each step's successors lie together, in the order of the edges.
void plan::sort(const edge_list& edges) {
  for (const edge& each : edges) {
    ++steps_[each.from].past_successors;
    ++steps_[each.to].predecessors;
  }
  index first = 0;
  for (step& each : steps_)
    first += std::exchange(each.past_successors, first);
  successors_.resize(edges.size());
  for (const edge& each : edges)
    successors_[steps_[each.from].past_successors++] = each.to;
}

std::span<const plan::index> plan::successors(index of) const noexcept {
  const index first = of == 0 ? 0 : steps_[of - 1].past_successors;
  return std::span(successors_).subspan(first, steps_[of].past_successors - first);
}

operation plan::turn_of(index of) const noexcept {
  const step_work& work = steps_[of].work;
  if (const auto* copy = std::get_if<copy_request>(&work)) return *copy;
  if (const auto* fill = std::get_if<fill_request>(&work)) return *fill;
  return job_turn{std::get<job*>(work)};
}

std::size_t plan::bytes() const noexcept {
  return sizeof *this + steps_.capacity() * sizeof(step) + successors_.capacity() * sizeof(index);
}

}  // namespace millstream::backend::host
