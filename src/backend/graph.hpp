// SPDX-License-Identifier: Apache-2.0
/// Recorded work (capability::graphs): declared here, served by the backends with the recording
/// issue. Until then every backend answers `unsupported`.
#pragma once

#include <memory>
#include <span>

#include "backend/queue.hpp"

namespace millstream::backend {

/// One node; belongs to its graph.
class graph_node {
 public:
  virtual ~graph_node() = default;
};

/// An executable graph. Two launches of one never overlap.
class executable_graph {
 public:
  virtual ~executable_graph() = default;
  virtual status launch(queue& on) = 0;
};

/// A graph under construction. Each call adds one node behind `after`.
class graph {
 public:
  virtual ~graph() = default;
  [[nodiscard]] virtual result<graph_node*> add_kernel(const launch_request& what,
                                                       std::span<graph_node* const> after) = 0;
  [[nodiscard]] virtual result<graph_node*> add_copy(const copy_request& what,
                                                     std::span<graph_node* const> after) = 0;
  [[nodiscard]] virtual result<graph_node*> add_fill(const fill_request& what,
                                                     std::span<graph_node* const> after) = 0;
  /// The job is called once per launch through `run` and finally disposed of through `discard`.
  [[nodiscard]] virtual result<graph_node*> add_host(job& what,
                                                     std::span<graph_node* const> after) = 0;
  [[nodiscard]] virtual result<graph_node*> add_child(graph& child,
                                                      std::span<graph_node* const> after) = 0;
  [[nodiscard]] virtual result<std::unique_ptr<executable_graph>> instantiate() = 0;
  /// Brings an executable graph up to date; refused with the reason when the topology differs.
  virtual status update(executable_graph& target) = 0;
};

}  // namespace millstream::backend
