// SPDX-License-Identifier: Apache-2.0
/// A piece of host code that a queue executes at its turn.
#pragma once

namespace millstream::backend {

/// Intrusive, so that handing one over allocates nothing. The queue that accepted a job calls
/// exactly one of `run` and `discard`, exactly once, and never touches the job afterwards: the job
/// disposes of itself.
class job {
 public:
  job() = default;
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  /// On a thread of the queue, without any lock of the backend held. May take long, may block, may
  /// call the API.
  virtual void run() noexcept = 0;
  /// Instead of `run`, where the job will never run: at once inside `queue::run` on a machine that
  /// runs nothing (then the caller's locks may be held, so it must only note the fact), or when
  /// the queue is closed.
  virtual void discard() noexcept = 0;

  job* next = nullptr;  ///< for whoever holds the job at the moment
  /// It makes no call of the driver and waits for nothing that does, so a graph may call it on a
  /// thread of the driver's (graph::add_host).
  bool calls_no_driver = false;

 protected:
  ~job() = default;
};

}  // namespace millstream::backend
