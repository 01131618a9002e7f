// SPDX-License-Identifier: Apache-2.0
#include "trace/edges.hpp"

#include <algorithm>
#include <cstddef>

namespace millstream::trace {

void edge_finder::add(std::uint64_t task, std::span<const dep_info> deps) {
  const auto first = static_cast<std::ptrdiff_t>(edges_.size());
  for (const dep_info& dep : deps)
    follow(task, dep);
  const auto begin = edges_.begin() + first;
  // Stable, so that of several data between the same two tasks the first declared one stays.
  std::stable_sort(begin, edges_.end(),
                   [](const trace_edge& a, const trace_edge& b) { return a.from < b.from; });
  edges_.erase(
      std::unique(begin, edges_.end(),
                  [](const trace_edge& a, const trace_edge& b) { return a.from == b.from; }),
      edges_.end());
}

void edge_finder::follow(std::uint64_t task, const dep_info& dep) {
  history& past = data_[dep.data];
  if (!writes(dep.mode)) {
    if (!reads(dep.mode)) return;
    link(past.writer, task, dep.data);
    past.readers.push_back(task);
    return;
  }
  // The readers come after the last writer, so an edge to it would say nothing new.
  if (past.readers.empty()) link(past.writer, task, dep.data);
  for (const std::uint64_t reader : past.readers)
    link(reader, task, dep.data);
  past.readers.clear();
  past.writer = task;
}

void edge_finder::link(std::uint64_t from, std::uint64_t to, std::uint64_t data) {
  if (from != 0 && from != to) edges_.push_back({from, to, data});
}

}  // namespace millstream::trace
