// SPDX-License-Identifier: Apache-2.0
/// What a graph of the host machine holds, and the form of it that is launched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "backend/graph_shape.hpp"
#include "backend/lane.hpp"

namespace millstream::backend::host {

struct recording;

/// What a node does; a child is another recording, which does not change any more.
using node_work = std::variant<copy_request, fill_request, job*, std::shared_ptr<const recording>>;

/// The nodes of a graph in the order they were added: shape and work have the same length.
struct recording {
  graph_shape shape;
  std::vector<node_work> work;
  std::vector<std::shared_ptr<void>> kept;

  [[nodiscard]] std::size_t bytes() const noexcept;
};

/// Steps with their edges in the direction in which they are carried out. Children are flattened:
/// an empty step before their first nodes and one behind their last nodes stand for them, so that a
/// child costs two counters and no waiting thread. Never changes after it was made; any number of
/// launches may carry it out.
class plan {
 public:
  using index = std::uint32_t;

  /// May throw std::bad_alloc.
  explicit plan(const recording& what);

  [[nodiscard]] std::size_t size() const noexcept { return steps_.size(); }
  [[nodiscard]] std::span<const index> successors(index of) const noexcept;
  /// How many steps it comes after.
  [[nodiscard]] index predecessors(index of) const noexcept { return steps_[of].predecessors; }
  /// The device at which it is carried out, or -1.
  [[nodiscard]] int place(index of) const noexcept { return steps_[of].place; }
  /// Whether there is nothing to do but to count.
  [[nodiscard]] bool is_empty(index of) const noexcept {
    return std::holds_alternative<std::monostate>(steps_[of].work);
  }
  /// Null if it is none.
  [[nodiscard]] job* job_of(index of) const noexcept {
    const auto* found = std::get_if<job*>(&steps_[of].work);
    return found != nullptr ? *found : nullptr;
  }
  /// Not for empty ones.
  [[nodiscard]] operation turn_of(index of) const noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  using step_work = std::variant<std::monostate, copy_request, fill_request, job*>;
  struct step {
    step_work work;
    index predecessors = 0;
    index past_successors = 0;  // its successors end there in successors_
    int place = -1;
  };
  struct edge {
    index from;
    index to;
  };
  using edge_list = std::vector<edge>;

  index add_step(const step_work& work, int place);
  /// Both answer the steps that what comes after the nodes waits for.
  [[nodiscard]] std::vector<index> add_nodes(const recording& in, std::optional<index> entry,
                                             edge_list& edges);
  [[nodiscard]] index add_node(const recording& in, std::size_t at, edge_list& edges);
  [[nodiscard]] index add_child(const recording& child, index entry, edge_list& edges);
  void sort(const edge_list& edges);

  std::vector<step> steps_;
  std::vector<index> successors_;
  std::vector<std::shared_ptr<void>> kept_;  // those of children, too
};

}  // namespace millstream::backend::host
