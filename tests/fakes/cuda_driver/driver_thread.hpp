// SPDX-License-Identifier: Apache-2.0
/// The driver's own thread. It runs host functions, one after the other, and lets the operations
/// run that a host function waits for, because nobody else may be driving: the host may be waiting
/// for just that function. When the program makes no call for a while although work is queued, it
/// lets that run as well, so that waiting by other means than the driver's ends, too.
#pragma once

#include <condition_variable>
#include <deque>

#include "tests/fakes/cuda_driver/engine.hpp"
#include "tests/fakes/cuda_driver/rows.hpp"

namespace fake_cuda {

struct state;

class driver_thread {
 public:
  explicit driver_thread(state& all) : all_(all) {}

  /// The following are called with the fake's mutex held.

  /// There is work now. Starts the thread at the first time.
  void wake();
  /// Takes an operation whose host function shall run; completes it afterwards.
  void run(const op_ptr& operation, host_function function, void* data);
  /// The same for a function that no operation waits for.
  void run(host_function function, void* data) { run(nullptr, function, data); }
  void note_call() noexcept { ++calls_; }
  /// Waits until no host function runs or is due to.
  void drain(std::unique_lock<std::mutex>& hold);

  /// The calling thread is inside a host function, where no call of the driver is allowed.
  [[nodiscard]] static bool is_inside() noexcept;

 private:
  struct due {
    op_ptr operation;
    host_function function;
    void* data;
  };
  void loop();
  void run_next(std::unique_lock<std::mutex>& hold);
  void wait(std::unique_lock<std::mutex>& hold);
  void let_idle_work_run(std::unique_lock<std::mutex>& hold);
  /// Lets other threads at the mutex.
  static void take_turns(std::unique_lock<std::mutex>& hold);

  state& all_;
  bool started_ = false;
  bool running_ = false;
  std::uint64_t calls_ = 0;
  std::deque<due> due_;
};

}  // namespace fake_cuda
