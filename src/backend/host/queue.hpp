// SPDX-License-Identifier: Apache-2.0
/// A queue of the host machine.
#pragma once

#include <memory>
#include <string>

#include "backend/host/state.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::host {

/// Checks what it is given and hands it to its lane.
class queue final : public backend::queue {
 public:
  /// `who` begins the texts of failures: "device 'host:0'".
  queue(std::shared_ptr<machine_state> machine, std::string who, int device);
  /// A second user of a queue: the lane stays open when this object goes.
  queue(std::shared_ptr<machine_state> machine, std::string who, std::uint64_t number,
        std::shared_ptr<lane> shared);
  ~queue() override;

  [[nodiscard]] std::uint64_t handle() const noexcept override { return number_; }
  status copy(const copy_request& request) override;
  status fill(const fill_request& request) override;
  status run(job& work) override;
  status launch(const launch_request& request) override;
  status record(backend::event& mark) override;
  status wait(backend::event& mark) override;
  [[nodiscard]] bool has_ended() const noexcept override { return lane_->is_empty(); }

  [[nodiscard]] const std::shared_ptr<lane>& where() const noexcept { return lane_; }
  /// Gives a block back at this queue's turn.
  status release(arena& from, void* block, std::size_t bytes);

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  const std::uint64_t number_;
  const std::shared_ptr<lane> lane_;
  const bool owns_lane_;
};

}  // namespace millstream::backend::host
