// SPDX-License-Identifier: Apache-2.0
/// A mark at a position of a queue, which other queues and the host can wait for.
#pragma once

#include <chrono>

#include "backend/status.hpp"

namespace millstream::backend {

/// `queue::record` sets the mark at the queue's tail, again and again; a wait refers to the mark
/// set last when it was issued and is not disturbed by a later record. Never recorded = completed.
/// Any thread, but records and waits of queues come one at a time. The owner destroys it only when
/// no queue can still wait for it, which every backend tolerates while work is in flight.
class event {
 public:
  virtual ~event() = default;
  event() = default;
  event(const event&) = delete;
  event& operator=(const event&) = delete;

  /// Whether the last mark was passed. Never blocks.
  [[nodiscard]] virtual result<bool> is_done() = 0;
  /// Blocks until the last mark was passed or the limit is over; the value tells which (true =
  /// passed). Callers hold no lock.
  [[nodiscard]] virtual result<bool> wait_for(std::chrono::milliseconds limit) = 0;
};

}  // namespace millstream::backend
