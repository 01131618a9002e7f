// SPDX-License-Identifier: Apache-2.0
/// A queue and an event of the null machine, and what all its objects share.
#pragma once

#include <memory>
#include <string>

#include "backend/arena_set.hpp"
#include "backend/call_gate.hpp"
#include "backend/live_count.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::null {

struct machine_state {
  call_gate gate{call_gate::counting::always};
  live_count live;
  bool runs_jobs = true;
  arena_set memory;
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

  [[nodiscard]] std::uint64_t handle() const noexcept override { return number_; }
  status copy(const copy_request& request) override;
  status fill(const fill_request& request) override;
  status run(job& work) override;
  status launch(const launch_request& request) override;
  status record(backend::event& mark) override;
  status wait(backend::event& mark) override;

  status release(arena& from, void* block, std::size_t bytes);

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  const std::uint64_t number_;
  const bool runs_jobs_;
};

}  // namespace millstream::backend::null
