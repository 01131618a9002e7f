// SPDX-License-Identifier: Apache-2.0
/// What host nodes of graphs call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backend/job.hpp"
#include "backend/lane.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::cuda {

/// A thread for the jobs of graphs: the driver's own may not call the driver. Its callers wait, so
/// it has one job at a time. Any thread.
class host_runner {
 public:
  explicit host_runner(const std::string& who);
  ~host_runner();
  host_runner(const host_runner&) = delete;
  host_runner& operator=(const host_runner&) = delete;
  /// Blocks until the job ran. Without a thread it is discarded.
  void run(job& work) noexcept;

 private:
  const std::shared_ptr<lane> lane_;
};

/// One host node, in however many graphs. The driver knows its address, so it lives until the last
/// launch has called it. Any thread.
class host_call {
 public:
  using work = std::variant<job*, fill_request>;

  host_call(std::shared_ptr<host_runner> by, work what) noexcept
      : by_(std::move(by)), what_(what) {}
  host_call(const host_call&) = delete;
  host_call& operator=(const host_call&) = delete;

  void hold() noexcept { holders_.fetch_add(1, std::memory_order_relaxed); }
  void drop() noexcept;

  /// A launch will call it once more.
  void expect() noexcept;
  /// From now on launches call it that do not say so, for as long as somebody holds it.
  void expect_always() noexcept { always_.store(true, std::memory_order_relaxed); }
  /// The launch was refused.
  void unexpect() noexcept;
  /// The device is lost: the driver may or may not call what is expected. The jobs are discarded.
  void give_up() noexcept;

  /// The driver's callback. Runs on a thread of the driver.
  static void run(void* of) noexcept;

 private:
  ~host_call() = default;
  [[nodiscard]] bool claim() noexcept;
  void carry_out() noexcept;

  const std::shared_ptr<host_runner> by_;
  const work what_;
  std::atomic<std::uint32_t> holders_{1};
  std::atomic<std::uint32_t> expected_{0};
  std::atomic<bool> always_{false};
};

/// Holds calls.
class host_calls {
 public:
  host_calls() = default;
  host_calls(const host_calls& other) { add(other); }
  host_calls(host_calls&& other) noexcept : calls_(std::move(other.calls_)) {}
  host_calls& operator=(host_calls other) noexcept {
    calls_.swap(other.calls_);
    return *this;
  }
  ~host_calls();

  /// The driver is to be given the call that is added.
  host_call& add(const std::shared_ptr<host_runner>& by, host_call::work what);
  void add(const host_calls& other);
  void remove_last(std::size_t count = 1) noexcept;

  [[nodiscard]] auto begin() const noexcept { return calls_.begin(); }
  [[nodiscard]] auto end() const noexcept { return calls_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return calls_.size(); }

 private:
  std::vector<host_call*> calls_;
};

}  // namespace millstream::backend::cuda
