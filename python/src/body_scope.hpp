// SPDX-License-Identifier: Apache-2.0
/// What a body finds around it: its device is current, and it has a stream.
#pragma once

#include <cstdint>
#include <memory>

#include "context.hpp"

namespace millstream::python {

/// As long as it lives, the device of the body is current for native calls of the thread that made
/// it, where the machine has such. Needs the interpreter lock.
class body_scope {
 public:
  body_scope(std::shared_ptr<context_state> in, const body_call& call);
  ~body_scope() { in_->on->opened().leave(device_, entered_); }
  body_scope(const body_scope&) = delete;
  body_scope& operator=(const body_scope&) = delete;

  /// Number of the stream: that of the task where it runs on a device, else that of its queue. A
  /// body on the host of a GPU machine gets a stream of the current device when it asks for one;
  /// what it queues there belongs to the task.
  [[nodiscard]] std::uint64_t stream();
  /// Before the body counts as ended: blocks until what it queued has ended, if it could.
  void finish();

 private:
  const std::shared_ptr<context_state> in_;
  const int device_;
  std::uint64_t entered_ = 0;
  std::uint64_t stream_;
  bool gave_stream_ = false;  // of the current device, to a body on the host
};

}  // namespace millstream::python
