// SPDX-License-Identifier: Apache-2.0
/// Graphs that recorded contexts gave out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/graph.hpp"
#include "core/failures.hpp"
#include "core/recorder.hpp"

namespace millstream::core {

class context;

/// How the latest launch of a graph that was given out went. Any thread.
class launch_outcome {
 public:
  /// What its first task that failed threw, or null.
  [[nodiscard]] virtual std::exception_ptr failure() noexcept = 0;

 protected:
  ~launch_outcome() = default;
};

/// State behind recorded_graph. What the nodes use goes with the machine's graph and what others
/// made of it (backend::graph::keep), not with this object. Any thread.
class given_graph {
 public:
  given_graph(std::shared_ptr<context> from, place_index place,
              std::unique_ptr<backend::graph> graph, std::size_t nodes,
              std::weak_ptr<launch_outcome> outcome);

  // As in recorded_graph.
  std::uint64_t launch(std::optional<std::uint64_t> stream);
  [[nodiscard]] std::uint64_t handle();
  [[nodiscard]] std::size_t node_count() const noexcept { return nodes_; }
  [[nodiscard]] std::string native_dot();

  /// One launch on the queue, or one node of what somebody else records of it. An executable is
  /// made at the first launch. After `await_launched`, which may block.
  void launch_on(backend::queue& on);
  /// Where the graph has host nodes of a device's: returns when the launch before has ended, since
  /// copies would not see what that brings to the user's buffers. Without any lock.
  void await_launched();
  /// Calls `use` with the graph, which has one user at a time.
  template <class Use>
  void with_graph(Use&& use) {
    const std::scoped_lock hold(mutex_);
    use(*graph_);
  }
  [[nodiscard]] context& from() const noexcept { return *from_; }
  /// Null where nothing in the graph can tell. What keeps it keeps what the nodes use.
  [[nodiscard]] std::shared_ptr<launch_outcome> outcome() const noexcept { return outcome_.lock(); }

 private:
  [[nodiscard]] bool has_host_nodes() const noexcept;
  [[nodiscard]] std::shared_ptr<backend::event> launch_on_its_way();
  void note_launch(backend::queue& on);

  const std::shared_ptr<context> from_;
  const place_index place_;
  const std::size_t nodes_;
  const std::weak_ptr<launch_outcome> outcome_;
  std::mutex
      mutex_;  // guards the members below; under a context's, and the driver is called under it
  std::unique_ptr<backend::graph> graph_;
  std::unique_ptr<backend::executable_graph> executable_;  // null until the first launch
  std::shared_ptr<backend::event> launched_;               // null where nobody waits for launches
};

}  // namespace millstream::core
