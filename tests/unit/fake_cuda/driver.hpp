// SPDX-License-Identifier: Apache-2.0
/// What the tests of the look-alike driver are written with. They load it as the product does. What
/// they say of the driver's own functions holds for NVIDIA's driver as well: with
/// MILLSTREAM_CUDA_DRIVER=libcuda.so.1 the same program asks that one, and skips the rest.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "base/dynamic_library.hpp"
#include "tests/fakes/cuda_driver/fake_cuda.h"
#include "tests/fakes/cuda_driver/rows.hpp"

namespace millstream::backend::cuda::abi {
/// Shows results as their numbers.
inline void PrintTo(result answer, std::ostream* out) {
  *out << static_cast<std::uint32_t>(answer);
}
}  // namespace millstream::backend::cuda::abi

namespace fake_cuda_test {

using namespace fake_cuda;

/// The driver's functions. Null where it lacks one.
struct entry_points {
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters) result(*name) parameters = nullptr;
#include "backend/cuda/driver.inc"
#include "tests/fakes/cuda_driver/extra.inc"
#undef MILLSTREAM_CUDA_ROW
};

/// The control functions. Null with a real driver.
struct controls {
#define FAKE_CUDA_CONTROL(name) decltype(&fake_cuda_##name) name = nullptr;
#include "tests/unit/fake_cuda/controls.inc"
#undef FAKE_CUDA_CONTROL
};

class driver {
 public:
  driver();
  /// Looks all functions up again, as a program that starts now would find them.
  void look_up();
  [[nodiscard]] void* find(const char* name, int version) const;

  bool is_fake = false;
  entry_points call;
  controls control;

 private:
  millstream::base::dynamic_library library_;
  get_proc_address get_ = nullptr;
};

/// Loaded once a process. Throws std::runtime_error where there is none.
[[nodiscard]] driver& the_driver();
/// Names of the calls that the body makes in this thread. Threads of earlier work may still be at
/// it. With the look-alike driver only.
[[nodiscard]] std::vector<std::string> calls_of_this_thread(const std::function<void()>& body);
/// The text of kernels.ptx.
[[nodiscard]] std::string kernel_text();

#define OK(expression) EXPECT_EQ(expression, fake_cuda::result::success)

/// Device 0 with its primary context current. What the helpers make is ended after the test, and
/// then nothing may be left.
class DriverTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  stream make_stream(stream_flags flags = stream_flags::non_blocking);
  event make_event();
  /// The second stream waits for what is in the first.
  void order(stream first, stream second) {
    const event mark = make_event();
    OK(call.cuEventRecord(mark, first));
    OK(call.cuStreamWaitEvent(second, mark, event_wait_flags::none));
  }
  device_pointer make_block(std::size_t bytes);
  template <class Value>
  Value* make_pinned(std::size_t count) {
    return static_cast<Value*>(pinned(count * sizeof(Value)));
  }
  function find_kernel(const char* name);
  /// A launch with one block of threads, with the arguments as they are.
  template <class... Arguments>
  result launch(stream on, const char* name, Arguments... arguments) {
    void* list[] = {&arguments...};
    return call.cuLaunchKernel(find_kernel(name), 1, 1, 1, 32, 1, 1, 0, on, list, nullptr);
  }
  std::vector<std::uint32_t> read_words(device_pointer from, std::size_t count);
  std::uint32_t read_word(device_pointer from) { return read_words(from, 1).front(); }
  /// Fills with words of one value, and waits.
  void fill_words(device_pointer to, std::uint32_t value, std::size_t count);
  void finally(std::function<void()> action) { at_end_.push_back(std::move(action)); }
  std::string last_fault() const;

  driver& api = the_driver();
  const entry_points& call = api.call;
  const controls& control = api.control;
  context here = nullptr;

 private:
  void* pinned(std::size_t bytes);
  std::vector<std::function<void()>> at_end_;
  module kernels_ = nullptr;
};

/// Tests of what only the look-alike driver does.
class FakeDriverTest : public DriverTest {
 protected:
  void SetUp() override {
    if (!the_driver().is_fake) GTEST_SKIP() << "this is a promise of the look-alike driver";
    DriverTest::SetUp();
  }
  void TearDown() override {
    if (the_driver().is_fake) DriverTest::TearDown();
  }
};

}  // namespace fake_cuda_test
