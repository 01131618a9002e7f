// SPDX-License-Identifier: Apache-2.0
/// Graphs that are ready to be launched.
#pragma once

#include <memory>

#include "backend/cuda/host_call.hpp"
#include "backend/cuda/state.hpp"
#include "backend/graph.hpp"

namespace millstream::backend::cuda {

class executable final : public executable_graph {
 public:
  [[nodiscard]] static result<std::unique_ptr<executable>> make(std::shared_ptr<device_state> on,
                                                                abi::graph from,
                                                                const host_calls& calls,
                                                                std::size_t nodes,
                                                                bool with_memory);
  executable(std::shared_ptr<device_state> on, abi::executable_graph raw, host_calls calls,
             std::size_t nodes, bool with_memory);
  ~executable() override;

  status launch(backend::queue& on) override;
  [[nodiscard]] bool can_be_updated() const noexcept override {
    return !with_memory_ && !has_unsupported_;
  }
  [[nodiscard]] std::size_t bytes() const noexcept override;
  /// `unsupported` where the driver says that the two differ too much.
  status update(abi::graph from, const host_calls& calls);

 private:
  status launch_now(abi::stream on);

  const std::shared_ptr<device_state> on_;
  const live_mark alive_;
  const abi::executable_graph raw_;
  host_calls calls_;
  const std::size_t nodes_;
  const bool with_memory_;
  bool has_unsupported_ = false;  // nodes that the driver does not update, as it said
};

/// Nodes of a graph, children counted as one. Zero where the driver does not tell.
[[nodiscard]] std::size_t count_nodes(const driver& api, abi::graph of) noexcept;
/// Whether captured bodies allocate or free in it, which the driver lets nobody update or add to
/// another graph. Walks all nodes, which are `nodes`.
[[nodiscard]] bool owns_memory(const driver& api, abi::graph of, std::size_t nodes);
/// The kind of a node that keeps the graph from being a part of others, or null. Walks likewise.
[[nodiscard]] const char* part_refusal(const driver& api, abi::graph of, std::size_t nodes);
/// "kernel", "copy".
[[nodiscard]] const char* kind_of(const driver& api, abi::graph_node node) noexcept;

}  // namespace millstream::backend::cuda
