// SPDX-License-Identifier: Apache-2.0
/// The kinds of contract calls, for counting them (null machine, tests) and for failing the n-th
/// one (fault injection).
#pragma once

#include <array>
#include <cstdint>

namespace millstream::backend {

enum class call : std::uint8_t {
  make_queue,
  make_event,
  allocate,
  release,
  copy,
  fill,
  run,
  launch,
  record,
  wait,
  query,
  host_wait,
  register_memory,
  unregister_memory,
  make_graph,
  graph_add,   ///< any `add_` call of a graph
  graph_body,  ///< `begin_body` and `end_body`
  graph_instantiate,
  graph_update,
  graph_launch,
  // No calls, so no plan fails them: the nodes that graphs got, by kind, recorded bodies included
  // where the machine sees what they issue. In the order of node_kind (graph_shape.hpp).
  kernel_node,
  copy_node,
  fill_node,
  host_node,
  child_node,
};
inline constexpr std::size_t call_count = 25;
/// Those before are calls, the others are counts only.
inline constexpr std::size_t first_node_count = static_cast<std::size_t>(call::kernel_node);
inline constexpr std::array<const char*, call_count> call_names{"make_queue",
                                                                "make_event",
                                                                "allocate",
                                                                "release",
                                                                "copy",
                                                                "fill",
                                                                "run",
                                                                "launch",
                                                                "record",
                                                                "wait",
                                                                "query",
                                                                "host_wait",
                                                                "register_memory",
                                                                "unregister_memory",
                                                                "make_graph",
                                                                "graph_add",
                                                                "graph_body",
                                                                "graph_instantiate",
                                                                "graph_update",
                                                                "graph_launch",
                                                                "kernel_node",
                                                                "copy_node",
                                                                "fill_node",
                                                                "host_node",
                                                                "child_node"};

using call_counts = std::array<std::uint64_t, call_count>;

/// Which calls shall fail. `nth` counts from 1 over calls of `kind` (over all kinds if `any`);
/// 0 = none. With `rate` > 0 each call fails with that probability, drawn from `seed`.
/// An injected failure answers `out_of_memory` for `allocate`, `device` for everything else, with
/// the word "injected" in the text, and has no other effect.
struct fault_plan {
  call kind = call::allocate;
  bool any = false;
  std::uint64_t nth = 0;
  double rate = 0.0;
  std::uint64_t seed = 0;
};

}  // namespace millstream::backend
