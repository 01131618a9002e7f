// SPDX-License-Identifier: Apache-2.0
/// What a body finds around it: its device is current, and it has a stream.
#pragma once

#include <cstdint>
#include <utility>

#include "context.hpp"

namespace millstream::python {

/// As long as it lives, which is shorter than the context's state, the device of the body is
/// current for native calls of the thread that made it, where the machine has such. Needs the
/// interpreter lock.
class body_scope {
 public:
  body_scope(const context_state& in, const body_call& call);
  ~body_scope() {
    if (entered_ != 0) leave();
  }
  body_scope(body_scope&& other) noexcept
      : in_(other.in_),
        device_(other.device_),
        entered_(std::exchange(other.entered_, 0)),
        stream_(other.stream_),
        gave_stream_(std::exchange(other.gave_stream_, false)) {}
  body_scope& operator=(body_scope&&) = delete;

  /// Number of the stream: that of the task where it runs on a device, else that of its queue. A
  /// body on the host of a GPU machine gets a stream of the current device when it asks for one;
  /// what it queues there belongs to the task.
  [[nodiscard]] std::uint64_t stream();
  /// Before the body counts as ended: blocks until what it queued has ended, if it could.
  void finish();

 private:
  void leave() const noexcept;

  const context_state& in_;
  const int device_;
  std::uint64_t entered_ = 0;
  std::uint64_t stream_;
  bool gave_stream_ = false;  // of the current device, to a body on the host
};

}  // namespace millstream::python
