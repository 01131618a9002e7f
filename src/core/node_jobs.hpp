// SPDX-License-Identifier: Apache-2.0
/// The jobs that graphs call on a thread of the driver's.
#pragma once

#include <utility>

#include "backend/job.hpp"

namespace millstream::core {

class task_job;

/// Those of one stage. Each is disposed of when its launch has called it, or will not, and nothing
/// here has it any more: never on a thread of the driver's.
class node_jobs {
 public:
  node_jobs() = default;
  /// The caller may hold locks: the last steps are left to `drain_retired`.
  ~node_jobs() { release(); }
  node_jobs(node_jobs&& other) noexcept : first_(std::exchange(other.first_, nullptr)) {}
  node_jobs& operator=(node_jobs&& other) noexcept {
    if (this != &other) {
      release();
      first_ = std::exchange(other.first_, nullptr);
    }
    return *this;
  }

  void add(task_job& one) noexcept;
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  /// Of jobs that were called. Without any lock of the library.
  void dispose() noexcept;
  /// They are somebody else's now.
  void forget() noexcept { first_ = nullptr; }

 private:
  void release() noexcept;
  task_job* first_ = nullptr;
};

/// A job that disposes of them, for a queue that comes by when their launch has ended.
[[nodiscard]] backend::job* make_stage_end(node_jobs&& jobs);

}  // namespace millstream::core
