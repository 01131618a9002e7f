// SPDX-License-Identifier: Apache-2.0
#include "trace/recorder.hpp"

#include <algorithm>
#include <span>
#include <tuple>

#include "base/clock.hpp"

namespace millstream::trace {

void memory_recorder::submitted(const task_info& what) {
  const std::scoped_lock hold(mutex_);
  record kept;
  kept.id = what.id;
  kept.queue = what.queue;
  kept.submitted_ns = base::now_ns();
  kept.name = keep(what.name);
  kept.site = what.site;
  kept.first_access = accesses_.size();
  kept.access_count = what.deps.size();
  kept.place = what.place;
  kept.kind = what.kind;
  for (const dep_info& dep : what.deps) {
    accesses_.push_back({dep.data, dep.mode});
    note(dep.data, dep.name, dep.bytes);
  }
  edges_.add(what.id, what.deps);
  records_.push_back(kept);
}

void memory_recorder::submitted(const copy_info& what) {
  const std::scoped_lock hold(mutex_);
  record kept;
  kept.id = what.id;
  kept.queue = what.queue;
  kept.task = what.task;
  kept.submitted_ns = base::now_ns();
  kept.name = keep(what.name);
  kept.bytes = what.bytes;
  kept.first_access = accesses_.size();
  kept.access_count = 1;
  kept.place = what.to;
  kept.from = what.from;
  kept.is_copy = true;
  kept.reason = what.reason;
  accesses_.push_back({what.data, access_mode::read});
  note(what.data, what.name, what.bytes);
  records_.push_back(kept);
}

trace_snapshot memory_recorder::snapshot() const {
  trace_snapshot all;
  {
    const std::scoped_lock hold(mutex_);
    all.nodes.reserve(records_.size());
    for (const record& kept : records_)
      all.nodes.push_back(node(kept));
    all.edges = edges_.edges();
    all.data.reserve(data_.size());
    for (const auto& [id, kept] : data_)
      all.data.push_back({id, *kept.name, kept.bytes});
  }
  // A copy may be reported before the task it is made for, with a later id.
  std::ranges::sort(all.nodes, {}, &trace_node::id);
  std::ranges::sort(all.data, {}, &trace_data::id);
  std::ranges::sort(all.edges, {},
                    [](const trace_edge& edge) { return std::tuple(edge.to, edge.from); });
  return all;
}

const std::string* memory_recorder::keep(std::string_view name) {
  const auto known = names_.find(name);
  return known != names_.end() ? &*known : &*names_.emplace(name).first;
}

void memory_recorder::note(std::uint64_t data, std::string_view name, std::size_t bytes) {
  datum& kept = data_[data];
  // The symbol may be set after the first use; the last one given is what the user knows it by.
  if (kept.name == nullptr || !name.empty()) kept.name = keep(name);
  kept.bytes = std::max(kept.bytes, bytes);
}

trace_node memory_recorder::node(const record& kept) const {
  trace_node made;
  made.id = kept.id;
  made.is_copy = kept.is_copy;
  made.kind = kept.kind;
  made.reason = kept.reason;
  made.name = *kept.name;
  made.site = kept.site;
  made.place = kept.place;
  made.from = kept.from;
  made.queue = kept.queue;
  made.task = kept.task;
  made.bytes = kept.bytes;
  for (const access& use : std::span(accesses_).subspan(kept.first_access, kept.access_count)) {
    made.data.push_back(use.data);
    made.modes.push_back(use.mode);
  }
  made.submitted_ns = kept.submitted_ns;
  const stamp run = stamps_.at(kept.id);
  made.began_ns = run.began_ns;
  made.ended_ns = run.ended_ns;
  made.how = run.how;
  return made;
}

}  // namespace millstream::trace

namespace millstream::inline v1 {

std::shared_ptr<trace_recorder> make_trace_recorder() {
  return std::make_shared<trace::memory_recorder>();
}

}  // namespace millstream::inline v1
