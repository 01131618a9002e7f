// SPDX-License-Identifier: Apache-2.0
/// What host nodes of graphs call.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "backend/job.hpp"
#include "backend/lane.hpp"
#include "backend/queue.hpp"
#include "base/block_pool.hpp"

namespace millstream::backend::cuda {

/// A thread for the jobs of graphs that may call the driver, which the driver's own must not. Its
/// callers wait, so it has one job at a time. Any thread.
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
  /// Nothing is done where it is only there to hold something.
  using work = std::variant<std::monostate, job*, fill_request, copy_request>;

  /// `with` is held until the last launch has called it. Its end must not call the driver.
  host_call(std::shared_ptr<host_runner> by, work what, std::shared_ptr<void> with) noexcept
      : by_(std::move(by)), what_(what), with_(std::move(with)) {}
  [[nodiscard]] static void* operator new(std::size_t size) { return base::take_block(size); }
  static void operator delete(void* block, std::size_t size) noexcept {
    base::give_block(block, size);
  }
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
  const std::shared_ptr<void> with_;
  std::atomic<std::uint32_t> holders_{1};
  std::atomic<std::uint32_t> expected_{0};
  std::atomic<bool> always_{false};
};

/// Holds calls. In pooled blocks, so that a graph like one before allocates nothing for them.
class host_calls {
 public:
  host_calls() = default;
  host_calls(const host_calls& other) : host_calls() { add(other); }
  host_calls(host_calls&& other) noexcept { swap(other); }
  host_calls& operator=(host_calls other) noexcept {
    swap(other);
    return *this;
  }
  ~host_calls() { remove_last(size_); }

  /// The driver is to be given the call that is added.
  host_call& add(const std::shared_ptr<host_runner>& by, host_call::work what,
                 std::shared_ptr<void> with = {});
  void add(const host_calls& other);
  void remove_last(std::size_t count = 1) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const block* each = last_; each != nullptr; each = each->before)
      for (std::size_t i = 0; i < each->count; ++i)
        visit(*each->all[i]);
  }

 private:
  struct block {
    block* before = nullptr;
    std::size_t count = 0;
    std::array<host_call*, 62> all{};
  };
  /// There is room for one more afterwards.
  void make_room();
  void push(host_call& one) noexcept {
    last_->all[last_->count++] = &one;
    ++size_;
  }
  void swap(host_calls& other) noexcept {
    std::swap(last_, other.last_);
    std::swap(size_, other.size_);
  }

  block* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace millstream::backend::cuda
