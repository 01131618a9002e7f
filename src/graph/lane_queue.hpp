// SPDX-License-Identifier: Apache-2.0
/// The queue of a recorded lane: each operation becomes a node.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "backend/graph.hpp"
#include "backend/queue.hpp"
#include "core/place.hpp"

namespace millstream::graph {

/// One task or copy of the present stage.
struct recorded_lane {
  core::place_index place = core::host_place;
  std::uint32_t operations = 0;
  std::size_t body = ~std::size_t{0};  ///< the stream its open body is captured from
  std::size_t used = ~std::size_t{0};  ///< the stream that its body was captured from
  std::size_t heir = ~std::size_t{0};  ///< a lane that it comes after and whose stream it may have
  backend::node_list ends;             ///< what comes after this lane has to wait for
  backend::node_list before;           ///< what its next operation waits for besides
  std::size_t own = 0;                 ///< as many of `before` are there whatever its stream
  std::size_t distinct = 0;            ///< as many of `before` are known to be named once
  bool is_waited_for = false;          ///< without an operation
};

/// A node in a list, for sorting.
struct placed_node {
  backend::graph_node node;
  std::size_t place;
  friend auto operator<=>(const placed_node&, const placed_node&) = default;
};

/// What all lanes of a stage share: the graph, and a hash of its shape.
struct drawing {
  backend::graph* graph = nullptr;
  std::uint64_t hash = 0;
  std::vector<backend::job*> jobs;
  backend::node_list after;         // keeps its room from node to node
  std::vector<placed_node> sorted;  // likewise

  void mix(std::uint64_t value) noexcept {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15U;
    hash ^= hash >> 29U;
  }
};

/// Points at one lane at a time, since the engine asks for a queue and uses it at once.
class lane_queue final : public backend::queue {
 public:
  explicit lane_queue(drawing& into) : into_(into) {}
  void select(recorded_lane& lane, std::uint64_t handle) noexcept {
    lane_ = &lane;
    handle_ = handle;
  }

  /// What the lane's next operation comes after. Good until the next call.
  [[nodiscard]] backend::node_span predecessors();

  [[nodiscard]] std::uint64_t handle() const noexcept override { return handle_; }
  backend::status copy(const backend::copy_request& request) override;
  backend::status fill(const backend::fill_request& request) override;
  backend::status run(backend::job& work) override;
  backend::status launch(const backend::launch_request& request) override;
  /// Edges take the place of marks.
  backend::status record(backend::event& mark) override;
  backend::status wait(backend::event& mark) override;

 private:
  enum class kind : std::uint8_t { copy = 1, fill, host, kernel };
  backend::status note(kind what, backend::result<backend::graph_node> made);

  drawing& into_;
  recorded_lane* lane_ = nullptr;
  std::uint64_t handle_ = 0;
};

/// Leaves out what was there before. The order is kept: the driver updates an executable only by a
/// graph whose edges were named in the same order, and the names of nodes have none.
void make_unique(backend::node_list& nodes, std::vector<placed_node>& scratch);

}  // namespace millstream::graph
