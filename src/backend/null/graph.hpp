// SPDX-License-Identifier: Apache-2.0
/// Graphs of the null machine: their nodes are counted and their edges checked.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backend/null/queue.hpp"

namespace millstream::backend::null {

class executable final : public executable_graph {
 public:
  executable(std::shared_ptr<machine_state> machine, std::string who, const recording& what);

  status launch(backend::queue& on) override;
  [[nodiscard]] std::size_t bytes() const noexcept override;
  /// Same shape only. What was here goes on with the room.
  void take_over(const recording& what) {
    what_.jobs = what.jobs;
    what_.kept = what.kept;
  }
  [[nodiscard]] const graph_shape& shape() const noexcept { return what_.shape; }

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  recording what_;
};

/// Adding a node allocates only where a vector outgrows all that graphs before it had, as
/// machine_state keeps their room. What remains: a child costs a copy of its shape, and a recorded
/// body that comes after more than two nodes a list of them.
class graph final : public backend::graph {
 public:
  graph(std::shared_ptr<machine_state> machine, std::string who, int device);
  ~graph() override;

  [[nodiscard]] result<graph_node> add_kernel(const launch_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_copy(const copy_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_fill(const fill_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_host(job& what, int device, node_span after) override;
  [[nodiscard]] result<graph_node> add_child(const backend::graph& child, node_span after) override;
  status begin_body(backend::queue& on, node_span after) override;
  status end_body(backend::queue& on, node_list& last) override;
  status record_into(backend::queue& on) override;
  status keep(std::shared_ptr<void> what) override;
  /// Nothing is gained by keeping them.
  void keep_queues() noexcept override {}
  status release_queues() override;
  [[nodiscard]] std::size_t node_count() const noexcept override { return what_.shape.size(); }
  [[nodiscard]] result<std::unique_ptr<executable_graph>> instantiate() override;
  status update(executable_graph& target) override;
  [[nodiscard]] result<std::string> dot() const override;

  // For queues:
  [[nodiscard]] int place() const noexcept { return device_; }
  /// A call on a queue that is recorded.
  status record(queue& on, node_kind kind, int place);
  /// The queue is gone.
  void forget(queue& on) noexcept;

 private:
  [[nodiscard]] status enter(call kind) const;
  [[nodiscard]] status check_usable() const;
  [[nodiscard]] status check_whole() const;
  [[nodiscard]] result<graph_node> add(node_kind kind, int place, node_span after);

  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const int device_;
  const live_mark alive_;
  recording what_;
  std::vector<queue*> bodies_;  // open ones
  std::thread::id recorded_by_;
  bool broken_ = false;
};

}  // namespace millstream::backend::null
