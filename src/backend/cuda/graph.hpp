// SPDX-License-Identifier: Apache-2.0
/// Graphs of the driver, made node by node and by recording bodies.
#pragma once

#include <memory>
#include <unordered_set>
#include <vector>

#include "backend/cuda/graph_body.hpp"
#include "backend/cuda/host_call.hpp"
#include "backend/cuda/shape.hpp"
#include "backend/cuda/state.hpp"
#include "backend/graph.hpp"

namespace millstream::backend::cuda {

class kernel;
class launch_form;

/// A kernel, a copy, a fill or a host function is one node of the driver each. What one node cannot
/// express (a block whose rows have no common distance, a pattern that is no word) is one child
/// graph.
class graph final : public backend::graph {
 public:
  /// One that became a part of another graph is destroyed with that.
  enum class owner : std::uint8_t { us, caller, parent };
  [[nodiscard]] static result<std::unique_ptr<graph>> make(std::shared_ptr<device_state> on);
  [[nodiscard]] static result<std::unique_ptr<graph>> adopt(std::shared_ptr<device_state> on,
                                                            std::uint64_t native);
  graph(std::shared_ptr<device_state> on, abi::graph raw, owner whose = owner::us,
        std::size_t nodes = 0);
  ~graph() override;

  [[nodiscard]] result<graph_node> add_kernel(const launch_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_copy(const copy_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_fill(const fill_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_host(job& what, int device, node_span after) override;
  [[nodiscard]] result<graph_node> add_child(const backend::graph& child, node_span after) override;
  [[nodiscard]] result<graph_node> take_child(std::unique_ptr<backend::graph> child,
                                              node_span after) override;
  status begin_body(backend::queue& on, node_span after) override;
  status end_body(backend::queue& on, node_list& last) override;
  status record_into(backend::queue& on) override;
  status keep(std::shared_ptr<void> what) override;
  void keep_queues() noexcept override { bodies_.keep(); }
  status release_queues() override;
  [[nodiscard]] status may_be_part() const override;
  [[nodiscard]] result<std::uint64_t> hand_out() override;
  [[nodiscard]] std::size_t node_count() const noexcept override;
  [[nodiscard]] result<std::unique_ptr<executable_graph>> instantiate() override;
  status update(executable_graph& target) override;
  [[nodiscard]] result<std::string> dot() const override;

 private:
  /// `body` adds one node, which is counted as `kind`.
  template <class Body>
  result<graph_node> add(call kind, Body&& body);
  status enter(call kind, capability wanted) const;
  status check_whole() const;
  /// The answer to an attempt to add a node, which is looked at after the attempt.
  result<graph_node> added(std::string_view what, abi::result answer,
                           const abi::graph_node& node) const;
  status not_added(const kernel& what, const launch_request& request, abi::result answer) const;
  status set_attributes(launch_form& what, abi::graph_node node);
  [[nodiscard]] abi::result add_launch(const abi::kernel_node& node, const predecessors& after,
                                       abi::graph_node& made) const;
  /// One that may begin when those of its predecessors allow it that are kernels.
  [[nodiscard]] abi::result add_early(const abi::kernel_node& node, const predecessors& after,
                                      abi::graph_node& made);
  [[nodiscard]] result<device_state*> device_for(memory_home to, memory_home from) const;
  [[nodiscard]] result<graph_node> add_empty(node_span after);
  [[nodiscard]] result<graph_node> add_block(const copy_request& what, node_span after);
  [[nodiscard]] result<graph_node> add_words(const fill_request& what, const fill_shape& shape,
                                             node_span after);
  [[nodiscard]] result<graph_node> add_pattern(const fill_request& what, const fill_shape& shape,
                                               node_span after);
  [[nodiscard]] result<graph_node> add_call(host_call::work what, node_span after,
                                            std::shared_ptr<void> with = {});
  /// By a function of ours for the side of the host.
  [[nodiscard]] result<graph_node> add_by_host(const copy_request& what, node_span after);
  [[nodiscard]] result<graph_node> add_to_host(const copy_request& what, node_span after);
  [[nodiscard]] result<graph_node> add_from_host(const copy_request& what, node_span after);
  [[nodiscard]] result<std::shared_ptr<void>> take_staging(std::size_t bytes) const;
  template <class Body>
  result<graph_node> add_parts(std::string_view what, node_span after, Body&& body);
  /// Whether the driver makes a graph that is added to another one a part of it, not a copy.
  [[nodiscard]] bool can_move() const noexcept;
  /// Captured allocations, its own and those of its parts.
  [[nodiscard]] bool has_memory() const;
  [[nodiscard]] status check_child(const graph& child) const;
  [[nodiscard]] abi::result move_child(const graph& child, const predecessors& after,
                                       abi::graph_node& made) const;
  [[nodiscard]] status refuse_child_graph(const graph& child, abi::result answer) const;
  [[nodiscard]] status record_at(stream& on, const capture_place& place);
  [[nodiscard]] status let_others_launch();

  const std::shared_ptr<device_state> on_;
  const live_mark alive_;
  const abi::graph raw_;
  owner of_;
  host_calls calls_;  // of the host nodes, of children too
  body_recorder bodies_;
  bool had_bodies_ = false;  // only those allocate
  bool has_memory_in_parts_ = false;
  /// The driver counts in a time that grows with the graph, so that what we add is counted here,
  /// and it is asked once after bodies. What others have the handle of it is asked each time.
  mutable std::size_t nodes_;
  mutable bool is_counted_ = true;
  bool is_handed_out_ = false;
  std::vector<abi::graph_node> kernels_;  // that were added one by one
  /// The first `looked_up_` of these: only who asks for an edge between kernels pays for it.
  std::unordered_set<abi::graph_node> known_kernels_;
  std::size_t looked_up_ = 0;
};

}  // namespace millstream::backend::cuda
