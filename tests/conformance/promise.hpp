// SPDX-License-Identifier: Apache-2.0
/// What the suites are written with. A suite is a fixture `promise<capabilities it needs...>`; it
/// is skipped on a machine that lacks one, and its opposite, the answer `unsupported`, is promised
/// in absent.cpp.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "tests/conformance/join.hpp"

namespace conformance {

using backend::memory_home;
using millstream::errc;
using queue_ptr = std::unique_ptr<backend::queue>;
using event_ptr = std::unique_ptr<backend::event>;
using bytes = std::vector<std::byte>;

/// What the command line said.
struct run_options {
  const join* with = nullptr;
  int devices = 2;
  std::optional<std::uint64_t> seed;
};
[[nodiscard]] run_options& options();

/// Long enough to be no limit for work that ends.
inline constexpr std::chrono::milliseconds long_time{120'000};

/// The answers of calls that must succeed; throw otherwise, which fails the test.
inline void ok(const backend::status& answer) {
  if (!answer) throw std::runtime_error("a call failed: " + answer.text());
}
template <class T>
[[nodiscard]] T value(backend::result<T> answer) {
  ok(answer.why());
  return std::move(answer.value());
}
[[nodiscard]] std::unique_ptr<backend::machine> open_machine();

/// How often the jobs of one kind were called.
struct job_log {
  std::atomic<int> runs{0};
  std::atomic<int> discards{0};
};

/// Queues a job that calls `body` and counts in `log`, which outlives it.
backend::status run_job(backend::queue& on, job_log& log, std::function<void()> body = {});

/// Held by what a job calls: its end tells that the job disposed of itself, whichever way. It may
/// come after the test.
class end_watch {
 public:
  explicit end_watch(std::shared_ptr<std::latch> disposed) : disposed_(std::move(disposed)) {}
  ~end_watch() { disposed_->count_down(); }
  end_watch(const end_watch&) = delete;
  end_watch& operator=(const end_watch&) = delete;

 private:
  const std::shared_ptr<std::latch> disposed_;
};

/// A job that does the same and disposes of itself when it is called.
[[nodiscard]] backend::job& new_job(job_log& log, std::function<void()> body = {});

/// A job that stays, for nodes of graphs.
class static_job final : public backend::job {
 public:
  explicit static_job(std::function<void()> body = {}) : body_(std::move(body)) {}
  void run() noexcept override {
    if (body_) body_();
    log.runs.fetch_add(1);
  }
  void discard() noexcept override { log.discards.fetch_add(1); }
  /// Calls of whatever kind.
  [[nodiscard]] int calls() const { return log.runs + log.discards; }
  job_log log;

 private:
  std::function<void()> body_;
};

/// Exit code of a child process that runs `body`.
[[nodiscard]] int exit_of_child(const std::function<int()>& body);

[[nodiscard]] bytes random_bytes(std::size_t count, std::uint64_t seed);

class promise_base : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  [[nodiscard]] virtual std::vector<capability> needs() const { return {}; }

  [[nodiscard]] backend::machine& machine() { return *machine_; }
  [[nodiscard]] backend::device& device(int index) {
    return index < 0 ? machine_->host() : machine_->at(index);
  }
  [[nodiscard]] bool has(capability bit) const { return machine_->capabilities().has(bit); }
  /// -1 (the host side) and all devices.
  [[nodiscard]] std::vector<int> places() const;

  /// Queues live until the end of the test, when they are waited for.
  backend::queue& queue_on(int device_index);
  [[nodiscard]] event_ptr new_event(int device_index = 0);
  [[nodiscard]] event_ptr mark(backend::queue& tail);
  /// Waits for all that is queued now.
  void finish(backend::queue& tail);
  /// Makes `later` wait for what is queued on `first` now.
  void put_behind(backend::queue& first, backend::queue& later);

  /// Memory that is given back at the end of the test, in the order of the queue.
  [[nodiscard]] std::byte* take(int device_index, std::size_t count, backend::queue& order);
  void write(backend::queue& on, int home, void* to, const bytes& from);
  [[nodiscard]] bytes read(backend::queue& on, int home, const void* from, std::size_t count);
  void fill(backend::queue& on, int home, void* to, std::size_t count, int value);
  [[nodiscard]] backend::copy_request copy_of(void* to, int to_home, const void* from,
                                              int from_home, std::size_t count) const;

 private:
  struct taken_block {
    int device;
    void* block;
    std::size_t count;
    backend::queue* order;
  };
  std::optional<testing::ScopedTrace> seed_trace_;
  std::unique_ptr<backend::machine> machine_;
  std::vector<queue_ptr> queues_;
  std::vector<taken_block> blocks_;
  std::deque<bytes> sources_;  // outlive the copies that read them

  friend class gate;
};

/// Keeps everything queued later on `held` from starting until it is opened, at the latest by the
/// destructor. Works on every machine that has values: a job on a host queue blocks, and the held
/// queue waits for it.
class gate {
 public:
  gate(promise_base& in, backend::queue& held);
  ~gate() { open(); }
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  void open();

 private:
  std::shared_ptr<std::latch> latch_ = std::make_shared<std::latch>(1);
  job_log log_;
  backend::queue* own_ = nullptr;
  promise_base* in_;
};

template <capability... Needed>
class promise : public promise_base {
  [[nodiscard]] std::vector<capability> needs() const override { return {Needed...}; }
};

}  // namespace conformance
