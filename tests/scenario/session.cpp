// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/session.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace millstream::scenario {
namespace {

std::string edge_text(const edge& one) {
  return one.first + "->" + one.second;
}

using node_map = std::map<std::uint64_t, const trace_node*>;

node_map tasks_of(const trace_snapshot& seen) {
  node_map tasks;
  for (const trace_node& node : seen.nodes) {
    if (!node.is_copy) tasks[node.id] = &node;
  }
  return tasks;
}

std::vector<edge> named_edges(const trace_snapshot& seen) {
  const node_map tasks = tasks_of(seen);
  std::vector<edge> edges;
  for (const trace_edge& one : seen.edges) {
    const auto from = tasks.find(one.from);
    const auto to = tasks.find(one.to);
    if (from == tasks.end() || to == tasks.end()) continue;
    if (from->second->name.empty() || to->second->name.empty()) continue;
    edges.emplace_back(from->second->name, to->second->name);
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

class trace_check {
 public:
  trace_check(session& in, const program& what, const forecast& plan)
      : session_(in), program_(what), plan_(plan), seen_(in.recorder->snapshot()) {}

  void run() {
    compare_edges();
    if (!session_.world.has_values) return;
    check_times(session_, program_.file, seen_);
    compare_ends();
    compare_copies();
    for (const statement& one : program_.statements) {
      if (const auto* order = std::get_if<expect_order>(&one.what)) compare_order(one.line, *order);
    }
  }

 private:
  void complain(std::uint32_t line, const std::string& text) {
    session_.problems.add(program_.file, line, text);
  }

  void compare_edges() {
    const std::vector<edge> edges = named_edges(seen_);
    for (const edge& one : plan_.edges) {
      if (!std::binary_search(edges.begin(), edges.end(), one)) {
        complain(last_line(), "edge " + edge_text(one) + " is missing");
      }
    }
    for (const edge& one : edges) {
      if (!std::binary_search(plan_.edges.begin(), plan_.edges.end(), one)) {
        complain(last_line(), "edge " + edge_text(one) + " is not asked for");
      }
    }
  }

  void compare_ends() {
    for (const trace_node& node : seen_.nodes) {
      if (node.is_copy || node.name.empty()) continue;
      const outcome wanted = contains(plan_.failed, node.name)    ? outcome::failed
                             : contains(plan_.skipped, node.name) ? outcome::skipped
                                                                  : outcome::done;
      if (node.how == wanted || contains(plan_.maybe_skipped, node.name)) continue;
      complain(node.site.line, "task '" + node.name + "' ended as " + to_string(node.how) +
                                   ", expected " + to_string(wanted));
    }
  }

  void compare_copies() {
    if (!plan_.copies) return;
    std::map<copy_key, std::uint64_t> copies;
    for (const trace_node& node : seen_.nodes) {
      if (!node.is_copy || node.reason == copy_reason::read_back) continue;
      ++copies[{node.reason == copy_reason::write_back, node.name, node.place}];
    }
    for (const auto& [key, count] : *plan_.copies)
      compare_count(key, copies[key], count);
    for (const auto& [key, count] : copies) {
      if (!plan_.copies->contains(key)) compare_count(key, count, 0);
    }
  }

  void compare_count(const copy_key& key, std::uint64_t count, std::uint64_t wanted) {
    if (count == wanted) return;
    const auto& [write_back, name, to] = key;
    complain(last_line(), "'" + name + "' was copied " + std::to_string(count) + " times to " +
                              place_name(to) + (write_back ? " (write-back)" : "") + ", expected " +
                              std::to_string(wanted));
  }

  void compare_order(std::uint32_t line, const expect_order& wanted) {
    std::uint64_t before_ended = 0;
    for (const std::string& name : wanted.tasks) {
      const trace_node* node = find(name);
      const body_times now = node == nullptr ? body_times{} : times_of(session_, *node);
      if (now.began_ns == 0) {
        complain(line, "'" + name + "' never began");
      } else if (now.began_ns < before_ended) {
        complain(line, "'" + name + "' began before the one before it had ended");
      }
      before_ended = now.ended_ns;
    }
  }

  [[nodiscard]] const trace_node* find(const std::string& name) const {
    for (const trace_node& node : seen_.nodes) {
      if (!node.is_copy && node.name == name) return &node;
    }
    return nullptr;
  }

  static bool contains(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  [[nodiscard]] std::uint32_t last_line() const {
    return program_.statements.empty() ? 0 : program_.statements.back().line;
  }

  session& session_;
  const program& program_;
  const forecast& plan_;
  trace_snapshot seen_;
};

}  // namespace

session::session(const std::string& file, int devices, const run_options& options)
    : traits(traits_of(options.backend)), recorder(make_trace_recorder()) {
  world.file = file;
  world.problems = &problems;
  world.times = &times;
  world.has_values = options.backend != "null";
  context_options wanted;
  if (options.backend == "cuda") {
    wanted.on = machine({options.backend, devices, {}});
    device.emplace();
    world.device = &*device;
    device->choose_order(options.seed.value_or(0));
    stalls_before = device->stalls();
  } else {
    wanted.on = machine({options.backend, devices, options.seed});
  }
  wanted.listener = recorder;
  wanted.use_graph = options.recorded;
  context.emplace(std::move(wanted));
}

void check_trace(session& in, const program& what, const forecast& plan) {
  trace_check(in, what, plan).run();
}

// The recorder knows when a body for a device was called, which is before it runs.
body_times times_of(const session& in, const trace_node& of) {
  if (in.world.device != nullptr) return in.times.of(of.name);
  return {of.began_ns, of.ended_ns};
}

void check_stalls(session& in, const std::string& file) {
  if (in.world.device == nullptr) return;
  const std::uint64_t stalls = in.device->stalls() - in.stalls_before;
  if (stalls == 0) return;
  in.problems.add(file, 0, "parked streams held others up " + std::to_string(stalls) + " times");
}

void check_times(session& in, const std::string& file, const trace_snapshot& seen) {
  const node_map tasks = tasks_of(seen);
  for (const trace_edge& one : seen.edges) {
    const auto from = tasks.find(one.from);
    const auto to = tasks.find(one.to);
    if (from == tasks.end() || to == tasks.end()) continue;
    const body_times first = times_of(in, *from->second);
    const body_times next = times_of(in, *to->second);
    if (first.began_ns == 0 || next.began_ns == 0) continue;
    if (next.began_ns >= first.ended_ns) continue;
    in.problems.add(
        file, to->second->site.line,
        "task '" + to->second->name + "' began before '" + from->second->name + "' had ended");
  }
}

void check_copies(session& in, std::uint32_t line, const expect_copies& wanted) {
  std::map<edge, std::uint64_t> seen;
  for (const trace_node& node : in.recorder->snapshot().nodes) {
    if (!node.is_copy || node.reason == copy_reason::read_back) continue;
    ++seen[{place_name(node.from), place_name(node.place)}];
  }
  std::map<edge, std::uint64_t> listed(wanted.counts.begin(), wanted.counts.end());
  for (const auto& [direction, count] : seen)
    listed.try_emplace(direction, 0);
  for (const auto& [direction, count] : listed) {
    if (seen[direction] == count) continue;
    in.problems.add(in.world.file, line,
                    std::to_string(seen[direction]) + " copies " + edge_text(direction) +
                        ", expected " + std::to_string(count));
  }
}

}  // namespace millstream::scenario
