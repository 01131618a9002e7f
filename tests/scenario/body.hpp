// SPDX-License-Identifier: Apache-2.0
/// The bodies that run in the engine: they check every element they see, and compute what the
/// oracle computed.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <millstream/untyped.hpp>

#include "tests/scenario/oracle.hpp"
#include "tests/scenario/problems.hpp"
#include "tests/scenario/program.hpp"

namespace millstream::scenario {

/// What a failing body throws.
class planned_failure : public std::runtime_error {
 public:
  explicit planned_failure(const std::string& task) : std::runtime_error("planned in " + task) {}
};

/// A task on its way through the engine. Outlives its body.
struct task_record {
  std::uint32_t line = 0;
  const task_statement* what = nullptr;
  const task_forecast* forecast = nullptr;
  /// Addresses of the user's buffers, per access; null = not at its home place.
  std::vector<const void*> homes;
  /// Accesses whose values depend on other threads, so only their uniformity is checked.
  std::vector<bool> shared;
  std::atomic<int> runs{0};
  std::atomic<int> bodies{0};  ///< body objects alive
};

struct body_times {
  std::uint64_t began_ns = 0;
  std::uint64_t ended_ns = 0;
};

/// When bodies really ran, by the name of the task; 0 = not. Any thread.
class time_log {
 public:
  void note(const std::string& task, body_times when) {
    const std::scoped_lock hold(mutex_);
    all_[task] = when;
  }
  [[nodiscard]] body_times of(const std::string& task) const {
    const std::scoped_lock hold(mutex_);
    const auto found = all_.find(task);
    return found == all_.end() ? body_times{} : found->second;
  }

 private:
  mutable std::mutex mutex_;  // guards all_; innermost
  std::map<std::string, body_times> all_;
};

class device_bodies;

/// Where bodies run and where they complain.
struct body_world {
  std::string file;
  problem_list* problems = nullptr;
  time_log* times = nullptr;
  bool has_values = true;           ///< false on a machine that only counts: memory is not touched
  device_bodies* device = nullptr;  ///< where the CPU does not see the memory of devices
};

/// Only the checks of the call and of the inputs. On a device they come when the stream does.
void check_inputs(task_record& task, const body_call& call, const body_world& world);
/// The whole body. Throws planned_failure where the program says so.
void run_body(task_record& task, const body_call& call, const body_world& world);

/// Counts the body objects of a task, so that one that is lost or destroyed twice is seen.
class body_token {
 public:
  explicit body_token(task_record& task) noexcept : task_(&task) { ++task_->bodies; }
  body_token(const body_token& other) noexcept : task_(other.task_) { ++task_->bodies; }
  body_token& operator=(const body_token&) = delete;
  ~body_token() { --task_->bodies; }
  [[nodiscard]] task_record& task() const noexcept { return *task_; }

 private:
  task_record* task_;
};

}  // namespace millstream::scenario
