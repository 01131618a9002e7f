// SPDX-License-Identifier: Apache-2.0
/// Who waits for whom, over all contexts of the process, so that a wait that
/// could never end is an error instead.
#pragma once

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
};
[[nodiscard]] running_job current_job() noexcept;

class job_scope {
 public:
  job_scope(const context* owner, completion position, task_job* job) noexcept;
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

/// Registers a wait of this thread for as long as the object lives. Throws
/// error(deadlock, text) from the constructor if the wait would close a cycle
/// of waiting threads and the jobs they run: then nothing is registered. Takes
/// a process-wide innermost lock; cheap next to blocking.
class wait_registration {
 public:
  wait_registration(std::span<const std::thread::id> threads,
                    std::span<const awaited_position> positions, const char* text);
  ~wait_registration();
  wait_registration(const wait_registration&) = delete;
  wait_registration& operator=(const wait_registration&) = delete;
};

}  // namespace millstream::core
