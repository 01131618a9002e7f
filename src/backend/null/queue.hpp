// SPDX-License-Identifier: Apache-2.0
/// A queue and an event of the null machine, and what all its objects share. A queue that is
/// recorded adds nodes to the graph; marks do not take the recording to other queues.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/arena_set.hpp"
#include "backend/call_gate.hpp"
#include "backend/graph_shape.hpp"
#include "backend/live_count.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::null {

class graph;

/// What a graph or an executable is made of: kinds, edges, and the jobs in the order of the nodes.
struct recording {
  graph_shape shape;
  std::vector<job*> jobs;
  std::vector<std::shared_ptr<void>> kept;
};

struct machine_state {
  call_gate gate{call_gate::counting::always};
  live_count live;
  bool runs_jobs = true;
  arena_set memory;
  // Of graphs that are gone, so that the next ones find room; a few only.
  std::mutex spare_mutex;  // guards the member below; innermost
  std::vector<recording> spare_recordings;
};

class event final : public backend::event {
 public:
  event(std::shared_ptr<machine_state> machine, std::string who)
      : machine_(std::move(machine)), who_(std::move(who)), alive_(machine_->live) {}

  [[nodiscard]] result<bool> is_done() override;
  [[nodiscard]] result<bool> wait_for(std::chrono::milliseconds limit) override;

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
};

class queue final : public backend::queue {
 public:
  queue(std::shared_ptr<machine_state> machine, std::string who, bool runs_jobs);
  ~queue() override;

  [[nodiscard]] std::uint64_t handle() const noexcept override { return number_; }
  status copy(const copy_request& request) override;
  status fill(const fill_request& request) override;
  status run(job& work) override;
  status launch(const launch_request& request) override;
  status record(backend::event& mark) override;
  status wait(backend::event& mark) override;
  [[nodiscard]] bool has_ended() const noexcept override { return true; }
  [[nodiscard]] result<bool> is_capturing() override { return into_ != nullptr; }
  status keep(std::shared_ptr<void> what) override;

  status release(arena& from, void* block, std::size_t bytes);

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  const std::uint64_t number_;
  const bool runs_jobs_;

  friend class graph;  // while a body is recorded:
  graph* into_ = nullptr;
  node_list ends_;  // what comes next in the body comes after these
};

}  // namespace millstream::backend::null
