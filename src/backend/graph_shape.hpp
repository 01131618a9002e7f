// SPDX-License-Identifier: Apache-2.0
/// What a graph of the host and the null machine is made of, but for the parameters of its nodes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/call.hpp"
#include "backend/graph.hpp"

namespace millstream::backend {

enum class node_kind : std::uint8_t { kernel, copy, fill, host, child };
inline constexpr std::array<const char*, 5> node_kind_names{"kernel", "copy", "fill", "host",
                                                            "child"};
/// What counts nodes of the kind.
[[nodiscard]] constexpr call node_call(node_kind of) noexcept {
  return static_cast<call>(first_node_count + static_cast<std::size_t>(of));
}

/// Where a machine whose memory is all alike runs them: at the device that is written or read, else
/// at the host side (-1).
[[nodiscard]] constexpr int place_of(const copy_request& what) noexcept {
  const int to = static_cast<int>(what.to_home);
  return to >= 0 ? to : std::max(-1, static_cast<int>(what.from_home));
}
[[nodiscard]] constexpr int place_of(const fill_request& what) noexcept {
  return std::max(-1, static_cast<int>(what.home));
}

/// `invalid_value` for what is neither a device nor the host side.
[[nodiscard]] status check_device(int device, std::size_t devices, const std::string& who) noexcept;

/// Kinds, places and edges, in the order in which nodes were added. Some 12 bytes a node
/// and 4 an edge in vectors that grow by doubling and keep their room, so that a shape that is used
/// again allocates only for what it never held, and for the shapes of children. Members that grow
/// may throw std::bad_alloc and then change nothing.
class graph_shape {
 public:
  using index = std::uint32_t;

  graph_shape();

  /// Adds a node that comes after `after`, of which `graph_node::none` is no part. `invalid_value`
  /// for what is no node of this graph and for a node named twice; `who` begins the text.
  [[nodiscard]] result<graph_node> add(node_kind kind, int place, node_span after,
                                       const std::string& who);
  [[nodiscard]] result<graph_node> add_child(std::shared_ptr<const graph_shape> child,
                                             node_span after, const std::string& who);

  /// What `add` says of `after`.
  [[nodiscard]] status check(node_span after, const std::string& who);

  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }
  [[nodiscard]] node_kind kind(std::size_t at) const noexcept { return rows_[at].kind; }
  /// Where the node runs: a device, or -1.
  [[nodiscard]] int place(std::size_t at) const noexcept { return rows_[at].place; }
  /// In increasing order.
  [[nodiscard]] std::span<const index> predecessors(std::size_t at) const noexcept;

  /// `unsupported` with the first difference, if there is one.
  [[nodiscard]] status check_same(const graph_shape& target, const std::string& who) const;

  /// The shape of another graph from now on, without nodes.
  void clear() noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept;
  [[nodiscard]] std::string dot() const;

 private:
  struct row {
    index past_edges;  // its predecessors end there in edges_
    index marked_by;   // the attempt to add a node that named it last
    std::int16_t place;
    node_kind kind;
  };
  [[nodiscard]] static index index_of(graph_node node) noexcept {
    return static_cast<index>(static_cast<std::uintptr_t>(node));
  }
  /// Empty if there is none.
  [[nodiscard]] std::string difference(const graph_shape& other) const;

  // The upper half of the names of nodes, so that those of another graph are known as such.
  std::uint32_t serial_;
  index attempt_ = 0;
  std::vector<row> rows_;
  std::vector<index> edges_;
  std::vector<std::shared_ptr<const graph_shape>> children_;  // of the child nodes, in their order
};

}  // namespace millstream::backend
