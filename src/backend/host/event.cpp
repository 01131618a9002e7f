// SPDX-License-Identifier: Apache-2.0
#include "backend/host/event.hpp"

#include <utility>

namespace millstream::backend::host {
namespace {

/// Beyond a year the limit could leave the range of the clock, and means "none" anyway.
time_limit limit_after(std::chrono::milliseconds wait) noexcept {
  constexpr std::chrono::hours year{24 * 365};
  return wait > year ? no_limit : std::chrono::steady_clock::now() + wait;
}

}  // namespace

result<bool> event::is_done() {
  if (status refused = machine_->gate.pass(call::query, who_); !refused) return refused;
  const wait_turn mark = last_mark();
  return mark.behind == nullptr || mark.behind->poll(mark.position);
}

result<bool> event::wait_for(std::chrono::milliseconds limit) {
  if (status refused = machine_->gate.pass(call::host_wait, who_); !refused) return refused;
  const wait_turn mark = last_mark();
  return mark.behind == nullptr || mark.behind->wait_until(mark.position, limit_after(limit));
}

void event::mark(std::shared_ptr<lane> at, std::uint64_t position) noexcept {
  const std::scoped_lock hold(mutex_);
  mark_.behind.swap(at);  // outlives the lock, as the lane before may end with it
  mark_.position = position;
}

wait_turn event::last_mark() const noexcept {
  const std::scoped_lock hold(mutex_);
  return mark_;
}

}  // namespace millstream::backend::host
