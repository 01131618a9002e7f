// SPDX-License-Identifier: Apache-2.0
/// What the calling thread is in while the driver is called for it, and was in before.
#pragma once

#include "backend/cuda/driver.hpp"

namespace millstream::backend::cuda {

/// Makes a context the thread's current one and puts the caller's back at the end, also where the
/// caller had none. Other libraries change the current context as they like, so the driver is asked
/// at each outermost guard (a look at thread-local memory there); inside of a guard for the same
/// context nothing is asked. Nothing of the user runs inside of a guard.
class context_guard {
 public:
  context_guard(const driver& api, abi::context wanted) noexcept;
  ~context_guard();
  context_guard(const context_guard&) = delete;
  context_guard& operator=(const context_guard&) = delete;

  /// `success`, or why the context cannot be made current.
  [[nodiscard]] abi::result answer() const noexcept { return answer_; }

 private:
  const driver& api_;
  abi::context outer_;
  bool pushed_ = false;
  abi::result answer_ = abi::result::success;
};

/// Lets the thread make calls that are not queued on a stream (making streams and events, asking
/// events, page-locking, loading modules) while somebody captures in another mode than `relaxed`:
/// without it such a call fails and spoils the capture, even one in another thread. Legal at any
/// time. Calls that conflict with a capture in any mode are not allowed by it: asking an event
/// that was recorded inside of the capture, asking or waiting for a captured stream.
class relaxed_capture {
 public:
  explicit relaxed_capture(const driver& api) noexcept : api_(api) {
    api_->cuThreadExchangeStreamCaptureMode(&mode_);
  }
  ~relaxed_capture() { api_->cuThreadExchangeStreamCaptureMode(&mode_); }
  relaxed_capture(const relaxed_capture&) = delete;
  relaxed_capture& operator=(const relaxed_capture&) = delete;

 private:
  const driver& api_;
  abi::capture_mode mode_ = abi::capture_mode::relaxed;  // then the mode before
};

}  // namespace millstream::backend::cuda
