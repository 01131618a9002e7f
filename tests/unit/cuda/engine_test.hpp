// SPDX-License-Identifier: Apache-2.0
/// What the tests of the engine on the CUDA machine are written with. The machine is opened once a
/// process and never closed, so the look-alike driver is not reset in between: tests compare with
/// what was before.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/fake_cuda/driver.hpp"

namespace millstream::test {

namespace abi = backend::cuda::abi;

#define MILLSTREAM_LOOK_ALIKE_ONLY() \
  if (!::fake_cuda_test::the_driver().is_fake) GTEST_SKIP() << "needs the look-alike driver"

[[nodiscard]] inline fake_cuda_test::driver& cuda_driver() {
  return fake_cuda_test::the_driver();
}
inline void must(abi::result answer) {
  ASSERT_EQ(answer, abi::result::success);
}
[[nodiscard]] inline abi::context current_context() {
  abi::context now = nullptr;
  cuda_driver().call.cuCtxGetCurrent(&now);
  return now;
}

/// Device 0 and the test kernels in it; kept until the process ends.
struct first_device {
  abi::context context = nullptr;
  abi::module kernels = nullptr;

  [[nodiscard]] abi::function kernel(const char* name) const {
    abi::function found = nullptr;
    must(cuda_driver().call.cuModuleGetFunction(&found, kernels, name));
    return found;
  }
};
[[nodiscard]] const first_device& device_0();

/// The calling thread's context is that of device 0 meanwhile.
class on_device_0 {
 public:
  on_device_0() : before_(current_context()) {
    must(cuda_driver().call.cuCtxSetCurrent(device_0().context));
  }
  ~on_device_0() { must(cuda_driver().call.cuCtxSetCurrent(before_)); }
  on_device_0(const on_device_0&) = delete;
  on_device_0& operator=(const on_device_0&) = delete;

 private:
  abi::context before_;
};

template <class... Arguments>
void launch(abi::function what, abi::stream on, Arguments... arguments) {
  void* list[] = {&arguments...};
  must(cuda_driver().call.cuLaunchKernel(what, 1, 1, 1, 32, 1, 1, 0, on, list, nullptr));
}
/// A body for device 0 that fills its first dependency, `count` words, on the task's stream.
[[nodiscard]] inline auto fill_words(std::uint32_t value, std::uint64_t count = 1) {
  return [value, count](const body_call& call) {
    const on_device_0 here;
    launch(device_0().kernel("test_fill_u32"), static_cast<abi::stream>(call.stream),
           reinterpret_cast<abi::device_pointer>(call.pointers[0]), value, count);
  };
}

/// Holds host functions back until it is opened, at the latest by the destructor. They may still be
/// on their way out then, so they take the waiter by value.
class gate {
 public:
  gate() = default;
  ~gate() { open(); }
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  void open() {
    is_open_->store(true);
    is_open_->notify_all();
  }
  [[nodiscard]] auto waiter() const {
    return [is_open = is_open_] { is_open->wait(false); };
  }
  void hold() const { waiter()(); }

 private:
  std::shared_ptr<std::atomic<bool>> is_open_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace millstream::test
