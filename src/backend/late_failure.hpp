// SPDX-License-Identifier: Apache-2.0
/// Failures that a queue finds only when an operation's turn comes.
#pragma once

#include "backend/status.hpp"

namespace millstream::backend {

/// Keeps a failure for those who wait for a queue, until somebody takes it.
class late_failure {
 public:
  /// The failure, which nobody else is told then. Success if somebody was.
  [[nodiscard]] virtual status take() noexcept = 0;

 protected:
  ~late_failure() = default;
};

/// For a job that was queued right behind a copy: how that ended. Its failure is taken from those
/// who wait for the queue. Success too where a queue tells failures when it is called.
[[nodiscard]] status take_failure_of_copy() noexcept;

/// For the thread of a queue: a copy failed at its turn. `kept` is there until the next job has
/// run.
void note_failed_copy(late_failure& kept) noexcept;

}  // namespace millstream::backend
