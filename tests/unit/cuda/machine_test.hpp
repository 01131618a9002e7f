// SPDX-License-Identifier: Apache-2.0
/// What the tests of the CUDA machine are written with.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "backend/cuda/machine.hpp"
#include "tests/unit/fake_cuda/driver.hpp"

namespace cuda_test {

namespace abi = millstream::backend::cuda::abi;
namespace backend = millstream::backend;
using backend::capability;
using backend::memory_home;
using millstream::errc;
using queue_ptr = std::unique_ptr<backend::queue>;
using event_ptr = std::unique_ptr<backend::event>;
using bytes = std::vector<std::byte>;

inline constexpr std::chrono::milliseconds long_time{120'000};

inline void ok(const backend::status& answer) {
  if (!answer) throw std::runtime_error("a call failed: " + answer.text());
}
template <class T>
[[nodiscard]] T value(backend::result<T> answer) {
  ok(answer.why());
  return std::move(answer.value());
}

[[nodiscard]] inline fake_cuda_test::driver& fake() {
  return fake_cuda_test::the_driver();
}
/// Clears the look-alike driver; nothing on a real one.
void begin_anew();
/// Devices of the driver.
[[nodiscard]] int device_count();
/// What only the look-alike driver can be told to do.
#define MILLSTREAM_LOOK_ALIKE_ONLY() \
  if (!::cuda_test::fake().is_fake) GTEST_SKIP() << "needs the look-alike driver"
#define MILLSTREAM_NEEDS_DEVICES(count) \
  if (::cuda_test::device_count() < (count)) GTEST_SKIP() << "needs " #count " devices"

[[nodiscard]] std::string library_path();
[[nodiscard]] std::string kernel_text();

/// A job that calls a function.
class called_job final : public backend::job {
 public:
  explicit called_job(std::function<void()> body) : body_(std::move(body)) {}
  void run() noexcept override {
    body_();
    delete this;
  }
  void discard() noexcept override { delete this; }

 private:
  ~called_job() = default;
  std::function<void()> body_;
};
void run_job(backend::queue& on, std::function<void()> body);

/// A machine of two devices on the look-alike driver, reset before, or of up to two real ones. At
/// the end everything must be given back and the thread's context as it was, unless the test
/// expects otherwise.
class MachineTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  void open(int devices = 2);
  /// Closes the machine; nothing of it may be left.
  void close();

  [[nodiscard]] backend::machine& machine() { return *machine_; }
  [[nodiscard]] backend::device& device(int index = 0) {
    return index < 0 ? machine_->host() : machine_->at(index);
  }
  [[nodiscard]] queue_ptr make_queue(int index = 0) { return value(device(index).make_queue()); }
  [[nodiscard]] event_ptr mark(backend::queue& tail);
  void finish(backend::queue& tail);
  void fill(backend::queue& on, void* to, std::size_t count, int with, int home = 0);
  [[nodiscard]] bytes read(backend::queue& on, const void* from, std::size_t count, int home = 0);
  [[nodiscard]] abi::context current() const;
  /// "2 stream, ": the driver's objects that are alive; empty if none is.
  [[nodiscard]] std::string what_is_left() const;

  fake_cuda_test::entry_points& call = fake().call;
  const fake_cuda_test::controls& control = fake().control;
  bool expects_leaks = false;

 private:
  std::unique_ptr<backend::machine> machine_;
};

/// Keeps a queue from going on until it is opened.
class gate {
 public:
  gate(backend::machine& in, backend::queue& held);
  ~gate() { open(); }
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  void open() { opened_->store(true); }

 private:
  std::shared_ptr<std::atomic<bool>> opened_ = std::make_shared<std::atomic<bool>>(false);
  queue_ptr jobs_;
};

}  // namespace cuda_test
