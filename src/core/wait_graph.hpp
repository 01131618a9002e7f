// SPDX-License-Identifier: Apache-2.0
/// Who waits for whom, over all contexts of the process, so that a wait that
/// could never end is an error instead.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "core/completion.hpp"

namespace millstream::core {

class context;
class task_job;

/// What the calling thread is executing for the engine right now: a job of a
/// lane. Set by the job.
struct running_job {
  const context* owner = nullptr;
  completion position;
  task_job* job = nullptr;
  bool in_node = false;  ///< called by a graph, on a thread of the driver's
};
namespace detail {
extern constinit thread_local running_job job_of_thread;
}
[[nodiscard]] inline const running_job& current_job() noexcept {
  return detail::job_of_thread;
}

class job_scope {
 public:
  explicit job_scope(const running_job& now) noexcept;
  ~job_scope();
  job_scope(const job_scope&) = delete;
  job_scope& operator=(const job_scope&) = delete;

 private:
  running_job before_;
};

/// The position of another lane that a waiting thread is waiting for, in that
/// context.
struct awaited_position {
  const context* owner = nullptr;
  completion position;
};

/// Threads whose open tasks are in the way, as long as the number is what was seen: with the end of
/// an open task it changes, and the waiting thread is about to look again.
struct awaited_threads {
  std::span<const std::thread::id> all;
  const std::atomic<std::uint64_t>* generation = nullptr;
  std::uint64_t seen = 0;
};

/// Registers a wait of this thread for as long as the object lives. Throws
/// error(deadlock, text) from the constructor if the wait would close a cycle
/// of waiting threads and the jobs they run: then nothing is registered. Takes
/// a process-wide innermost lock; cheap next to blocking.
class wait_registration {
 public:
  wait_registration(const awaited_threads& threads, std::span<const awaited_position> positions,
                    const char* text);
  ~wait_registration();
  wait_registration(const wait_registration&) = delete;
  wait_registration& operator=(const wait_registration&) = delete;
};

}  // namespace millstream::core
