// SPDX-License-Identifier: Apache-2.0
/// A mark in a lane of the host machine.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "backend/event.hpp"
#include "backend/host/state.hpp"
#include "backend/lane.hpp"
#include "backend/live_count.hpp"

namespace millstream::backend::host {

/// A lane and a position in it, so that recording costs no operation and a wait that was issued
/// holds what it waits for by itself: the event may be recorded again or destroyed.
class event final : public backend::event {
 public:
  event(std::shared_ptr<machine_state> machine, std::string who)
      : machine_(std::move(machine)), who_(std::move(who)), alive_(machine_->live) {}

  [[nodiscard]] result<bool> is_done() override;
  [[nodiscard]] result<bool> wait_for(std::chrono::milliseconds limit) override;

  void mark(std::shared_ptr<lane> at, std::uint64_t position) noexcept;
  /// The mark set last; no lane if there is none.
  [[nodiscard]] wait_turn last_mark() const noexcept;

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  mutable std::mutex mutex_;  // guards mark_; innermost
  wait_turn mark_;
};

}  // namespace millstream::backend::host
