// SPDX-License-Identifier: Apache-2.0
/// A graph that streams are captured into.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/state.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/graph.hpp"

namespace millstream::backend::cuda {

/// Serves captures (capability::capture_to_graph), one at a time; everything else is `unsupported`.
/// Not destroyed during a capture.
class graph final : public backend::graph {
 public:
  [[nodiscard]] static result<std::unique_ptr<graph>> make(std::shared_ptr<device_state> on);
  graph(std::shared_ptr<device_state> on, abi::graph raw);
  ~graph() override;

  [[nodiscard]] result<graph_node> add_kernel(const launch_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_copy(const copy_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_fill(const fill_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_host(job& what, int device, node_span after) override;
  [[nodiscard]] result<graph_node> add_child(const backend::graph& child, node_span after) override;
  status begin_body(backend::queue& on, node_span after) override;
  status end_body(backend::queue& on, node_list& last) override;
  [[nodiscard]] std::size_t node_count() const noexcept override;
  [[nodiscard]] result<std::unique_ptr<executable_graph>> instantiate() override;
  status update(executable_graph& target) override;
  [[nodiscard]] result<std::string> dot() const override;

 private:
  [[nodiscard]] result<node_list> ends_of(const stream& on);

  const std::shared_ptr<device_state> on_;
  const live_mark alive_;
  const abi::graph raw_;
};

}  // namespace millstream::backend::cuda
