// SPDX-License-Identifier: Apache-2.0
/// Graphs of the host machine.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "backend/graph.hpp"
#include "backend/host/launch.hpp"
#include "backend/host/plan.hpp"
#include "backend/host/state.hpp"
#include "backend/live_count.hpp"

namespace millstream::backend::host {

/// Launches carry out the plan by themselves (launch.hpp), so updating and destroying it concerns
/// the next one only. Any thread.
class executable final : public executable_graph {
 public:
  /// May throw std::bad_alloc.
  executable(std::shared_ptr<machine_state> machine, std::string who,
             std::shared_ptr<const recording> what);

  status launch(backend::queue& on) override;
  [[nodiscard]] std::size_t bytes() const noexcept override;
  /// `unsupported`, and nothing changes, for another shape.
  status take_over(const std::shared_ptr<const recording>& what);

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  mutable std::mutex mutex_;  // guards the members below; those of launches and lanes come under it
  std::shared_ptr<const recording> what_;
  std::shared_ptr<const plan> plan_;
  std::shared_ptr<host::launch> last_;
};

/// What executables and graphs with it as a child refer to is shared with them and copied when the
/// graph grows after that.
class graph final : public backend::graph {
 public:
  graph(std::shared_ptr<machine_state> machine, std::string who);

  [[nodiscard]] result<graph_node> add_kernel(const launch_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_copy(const copy_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_fill(const fill_request& what, node_span after) override;
  [[nodiscard]] result<graph_node> add_host(job& what, int device, node_span after) override;
  [[nodiscard]] result<graph_node> add_child(const backend::graph& child, node_span after) override;
  status begin_body(backend::queue& on, node_span after) override;
  status end_body(backend::queue& on, node_list& last) override;
  status record_into(backend::queue& on) override;
  status keep(std::shared_ptr<void> what) override;
  void keep_queues() noexcept override {}
  status release_queues() override { return {}; }
  [[nodiscard]] std::size_t node_count() const noexcept override { return what_->shape.size(); }
  [[nodiscard]] result<std::unique_ptr<executable_graph>> instantiate() override;
  status update(executable_graph& target) override;
  [[nodiscard]] result<std::string> dot() const override;

 private:
  [[nodiscard]] result<graph_node> add(node_kind kind, int place, node_work work, node_span after);
  /// With the work of a node; `how` adds it to the shape.
  template <class AddToShape>
  [[nodiscard]] result<graph_node> add_with(node_work work, AddToShape&& how);
  /// Ours to change.
  [[nodiscard]] recording& own();
  [[nodiscard]] std::shared_ptr<const recording> share() const noexcept;

  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  std::shared_ptr<recording> what_;
  mutable bool shared_ = false;
};

}  // namespace millstream::backend::host
