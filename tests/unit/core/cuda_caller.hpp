// SPDX-License-Identifier: Apache-2.0
/// A program that uses the driver itself, beside contexts on the CUDA machine.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/fake_cuda/driver.hpp"

namespace millstream::test {

namespace abi = backend::cuda::abi;
using fake_cuda_test::the_driver;

inline constexpr std::uint64_t count = 1000;
inline constexpr std::size_t block_bytes = count * sizeof(std::uint32_t);

inline void ok(abi::result answer, const char* what) {
  if (answer == abi::result::success) return;
  throw std::runtime_error(std::string(what) + " answered " +
                           std::to_string(static_cast<std::uint32_t>(answer)));
}
#define CALL(name, ...) ok(the_driver().call.name(__VA_ARGS__), #name)

/// The caller's side: a context, a stream, kernels and blocks of device memory.
class CudaCaller : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (the_driver().call.cuInit(0) != abi::result::success ||
        the_driver().call.cuDeviceGetCount(&devices) != abi::result::success || devices == 0) {
      GTEST_SKIP() << "there is no device";
    }
    CALL(cuDevicePrimaryCtxRetain, &here_, 0);
    CALL(cuCtxSetCurrent, here_);
    CALL(cuStreamCreate, &stream_, abi::stream_flags::non_blocking);
    std::ifstream file(std::string(MILLSTREAM_SOURCE_DIR) + "/tests/fakes/cuda_driver/kernels.ptx");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CALL(cuModuleLoadDataEx, &kernels_, text.c_str(), 0, nullptr, nullptr);
    CALL(cuModuleGetFunction, &fill_, kernels_, "test_fill_u32");
    CALL(cuModuleGetFunction, &add_, kernels_, "test_add_u32");
    CALL(cuModuleGetFunction, &spin_, kernels_, "test_spin");
    for (abi::device_pointer& each : blocks_)
      CALL(cuMemAlloc, &each, block_bytes);
  }
  void TearDown() override {
    if (here_ == nullptr) return;
    CALL(cuStreamSynchronize, stream_);
    for (const abi::device_pointer each : blocks_)
      CALL(cuMemFree, each);
    CALL(cuModuleUnload, kernels_);
    CALL(cuStreamDestroy, stream_);
    abi::context now = nullptr;
    CALL(cuCtxGetCurrent, &now);
    EXPECT_EQ(now, here_);
    CALL(cuCtxSetCurrent, nullptr);
    CALL(cuDevicePrimaryCtxRelease, 0);
  }

  [[nodiscard]] std::uint64_t stream() const { return reinterpret_cast<std::uint64_t>(stream_); }
  [[nodiscard]] untyped_context open_here(bool use_graph = false) const {
    context_options options;
    options.on = machine({.name = "cuda", .devices = 0, .seed = {}});
    options.stream = stream();
    options.use_graph = use_graph;
    return untyped_context(std::move(options));
  }
  untyped_data in_device(untyped_context& on, int block,
                         std::optional<std::uint64_t> producer = {}) {
    registration what;
    what.block = reinterpret_cast<void*>(blocks_[block]);
    what.bytes = block_bytes;
    what.place = data_place::device(0);
    what.producer = producer;
    return on.register_data(what);
  }
  static abi::stream stream_of(const body_call& call) {
    return static_cast<abi::stream>(call.stream);
  }
  template <class... Arguments>
  static void launch(abi::function what, abi::stream on, Arguments... arguments) {
    void* list[] = {&arguments...};
    CALL(cuLaunchKernel, what, 1, 1, 1, 32, 1, 1, 0, on, list, nullptr);
  }
  void submit_fill(untyped_context& on, const untyped_data& what, std::uint32_t value) {
    run(on, exec_place::device(0), {{what, access_mode::write, {}, {}}},
        [fill = fill_, value](const body_call& call) {
          launch(fill, stream_of(call), call.pointers[0], value, count);
        });
  }
  void submit_sum(untyped_context& on, const untyped_data& a, const untyped_data& b,
                  const untyped_data& sum) {
    run(on, exec_place::device(0),
        {{a, access_mode::read, {}, {}},
         {b, access_mode::read, {}, {}},
         {sum, access_mode::write, {}, {}}},
        [add = add_](const body_call& call) {
          launch(add, stream_of(call), call.pointers[2], call.pointers[0], call.pointers[1], count);
        });
  }
  /// The value of all elements, or a number that says which differ.
  std::uint32_t value_of(int block) {
    std::vector<std::uint32_t> got(count);
    CALL(cuStreamSynchronize, stream_);
    CALL(cuMemcpyDtoHAsync, got.data(), blocks_[block], block_bytes, stream_);
    CALL(cuStreamSynchronize, stream_);
    for (const std::uint32_t each : got) {
      if (each != got[0]) return 0xBAD;
    }
    return got[0];
  }
  void overwrite_all() {
    for (const abi::device_pointer each : blocks_)
      CALL(cuMemsetD32Async, each, 0xFFFFFFFFU, count, stream_);
  }

  abi::context here_ = nullptr;
  abi::stream stream_ = nullptr;
  abi::module kernels_ = nullptr;
  abi::function fill_ = nullptr;
  abi::function add_ = nullptr;
  abi::function spin_ = nullptr;
  abi::device_pointer blocks_[3] = {};
};

}  // namespace millstream::test
