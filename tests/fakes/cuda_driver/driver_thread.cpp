// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/driver_thread.hpp"

#include <chrono>
#include <thread>

#include "tests/fakes/cuda_driver/state.hpp"

namespace fake_cuda {

namespace {

thread_local bool inside = false;

}  // namespace

bool driver_thread::is_inside() noexcept {
  return inside;
}

void driver_thread::wake() {
  if (!started_) {
    started_ = true;
    // Never joined: like the driver it lives until the process ends, and it touches only state that
    // is never destroyed.
    std::thread([this] { loop(); }).detach();
  }
  all_.work.changed().notify_all();
}

void driver_thread::run(const op_ptr& operation, host_function function, void* data) {
  due_.push_back({operation, function, data});
  wake();
}

void driver_thread::drain(std::unique_lock<std::mutex>& hold) {
  while (running_ || !due_.empty())
    all_.work.pause(hold);
}

void driver_thread::run_next(std::unique_lock<std::mutex>& hold) {
  const due next = due_.front();
  due_.pop_front();
  running_ = true;
  hold.unlock();
  inside = true;
  next.function(next.data);
  inside = false;
  hold.lock();
  running_ = false;
  if (next.operation != nullptr) all_.work.complete(*next.operation);
}

void driver_thread::take_turns(std::unique_lock<std::mutex>& hold) {
  hold.unlock();
  std::this_thread::yield();
  hold.lock();
}

void driver_thread::let_idle_work_run(std::unique_lock<std::mutex>& hold) {
  const std::uint64_t calls_before = calls_;
  const auto is_called = [this, calls_before] { return calls_ != calls_before || !due_.empty(); };
  const auto limit =
      std::chrono::system_clock::now() + std::chrono::milliseconds(all_.config.idle_ms);
  if (all_.work.changed().wait_until(hold, limit, is_called)) return;
  while (!is_called() && all_.work.step(false))
    take_turns(hold);
}

void driver_thread::wait(std::unique_lock<std::mutex>& hold) {
  const bool background = all_.config.background;
  if (background && all_.work.hurried_pending()) {
    all_.work.pause(hold);
  } else if (background && all_.config.idle_ms > 0 && all_.work.pending() != 0) {
    let_idle_work_run(hold);
  } else {
    all_.work.changed().wait(hold);
  }
}

void driver_thread::loop() {
  std::unique_lock hold(all_.mutex);
  for (;;) {
    if (!due_.empty()) {
      run_next(hold);
    } else if (all_.config.background && all_.work.hurried_pending() && all_.work.step(true)) {
      take_turns(hold);
    } else {
      wait(hold);
    }
  }
}

}  // namespace fake_cuda
