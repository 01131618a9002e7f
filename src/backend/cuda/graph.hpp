// SPDX-License-Identifier: Apache-2.0
/// A graph that streams are captured into.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "backend/cuda/state.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/graph.hpp"

namespace millstream::backend::cuda {

class graph_node final : public backend::graph_node {
 public:
  explicit graph_node(abi::graph_node raw) : raw_(raw) {}
  [[nodiscard]] abi::graph_node raw() const noexcept { return raw_; }

 private:
  const abi::graph_node raw_;
};

/// Serves captures (capability::capture_to_graph); everything else is `unsupported`. One capture at
/// a time: the driver refuses a second one into the same graph. Not destroyed during one.
class graph final : public backend::graph {
 public:
  [[nodiscard]] static result<std::unique_ptr<graph>> make(std::shared_ptr<device_state> on);
  graph(std::shared_ptr<device_state> on, abi::graph raw);
  ~graph() override;

  using nodes = std::span<backend::graph_node* const>;
  using node_result = result<backend::graph_node*>;
  [[nodiscard]] node_result add_kernel(const launch_request& what, nodes after) override;
  [[nodiscard]] node_result add_copy(const copy_request& what, nodes after) override;
  [[nodiscard]] node_result add_fill(const fill_request& what, nodes after) override;
  [[nodiscard]] node_result add_host(job& what, nodes after) override;
  [[nodiscard]] node_result add_child(backend::graph& child, nodes after) override;
  [[nodiscard]] result<std::unique_ptr<executable_graph>> instantiate() override;
  status update(executable_graph& target) override;

  /// In relaxed mode: the body may make any call, and any thread may end the capture.
  status begin_capture(stream& on, nodes after);
  /// `last` is the node behind which everything captured lies; null if that is nothing. After a
  /// failure the stream is not captured any more.
  status end_capture(stream& on, backend::graph_node** last);

 private:
  using raw_nodes = std::vector<abi::graph_node>;
  [[nodiscard]] result<raw_nodes> ends_of(const stream& on);
  [[nodiscard]] result<abi::graph_node> join(const raw_nodes& ends);

  const std::shared_ptr<device_state> on_;
  const live_mark alive_;
  const abi::graph raw_;
  std::deque<graph_node> nodes_;
};

}  // namespace millstream::backend::cuda
