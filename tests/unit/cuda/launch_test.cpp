// SPDX-License-Identifier: Apache-2.0
/// Kernels of others, and launches that are not plain.
#include <span>

#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

/// A kernel that somebody else loaded into device 0.
class Launch : public MachineTest {
 protected:
  struct fill_arguments {
    void* to;
    std::uint32_t value;
    std::uint32_t padding;
    std::uint64_t count;
  };
  void SetUp() override {
    MachineTest::SetUp();
    queue_ = make_queue();
    block_ = value(device().allocate(size, *queue_));
    call.cuDevicePrimaryCtxRetain(&own_, 0);
    call.cuCtxSetCurrent(own_);
    call.cuModuleLoadData(&module_, kernel_text().c_str());
    call.cuModuleGetFunction(&function_, module_, "test_fill_u32");
    call.cuLibraryLoadData(&library_, kernel_text().c_str(), nullptr, nullptr, 0, nullptr, nullptr,
                           0);
    call.cuLibraryGetKernel(&kernel_, library_, "test_fill_u32");
    call.cuCtxSetCurrent(nullptr);
  }
  void TearDown() override {
    finish(*queue_);
    ok(device().release(block_, size, *queue_));
    queue_.reset();
    call.cuCtxSetCurrent(own_);
    call.cuLibraryUnload(library_);
    call.cuModuleUnload(module_);
    call.cuCtxSetCurrent(nullptr);
    call.cuDevicePrimaryCtxRelease(0);
    MachineTest::TearDown();
  }
  void open_again() {
    ok(device().release(block_, size, *queue_));
    finish(*queue_);
    queue_.reset();
    close();
    open();
    queue_ = make_queue();
    block_ = value(device().allocate(size, *queue_));
  }
  static std::uint64_t number(const void* handle) {
    return reinterpret_cast<std::uint64_t>(handle);
  }
  backend::launch_request filling(backend::kernel* what, std::uint32_t with) {
    arguments_ = {block_, with, 0, size / 4};
    backend::launch_request request;
    request.what = what;
    request.grid = {4, 1, 1};
    request.block = {32, 1, 1};
    request.arguments = std::as_bytes(std::span(&arguments_, 1));
    return request;
  }
  void expect_filled(unsigned with) {
    EXPECT_EQ(read(*queue_, block_, size), bytes(size, std::byte(with)));
  }

  static constexpr std::size_t size = 64;
  queue_ptr queue_;
  void* block_ = nullptr;
  fill_arguments arguments_{};
  abi::context own_ = nullptr;
  abi::module module_ = nullptr;
  abi::function function_ = nullptr;
  abi::library library_ = nullptr;
  abi::kernel kernel_ = nullptr;
};

TEST_F(Launch, AFunctionOfSomebodyElseIsLaunched) {
  backend::kernel* const adopted = value(device().adopt_kernel(number(function_)));
  EXPECT_EQ(adopted->name(), "test_fill_u32");
  ok(queue_->launch(filling(adopted, 0x01010101)));
  expect_filled(1);
}

TEST_F(Launch, AKernelOfALibraryIsLaunched) {
  ok(queue_->launch(filling(value(device().adopt_kernel(number(kernel_))), 0x02020202)));
  expect_filled(2);
}

TEST_F(Launch, AKernelOfALibraryIsLaunchedOnEachDevice) {
  MILLSTREAM_NEEDS_DEVICES(2);
  const queue_ptr other = make_queue(1);
  void* theirs = value(device(1).allocate(size, *other));
  backend::launch_request request =
      filling(value(device(1).adopt_kernel(number(kernel_))), 0x03030303);
  arguments_.to = theirs;
  ok(other->launch(request));
  EXPECT_EQ(read(*other, theirs, size, 1), bytes(size, std::byte{3}));
  ok(device(1).release(theirs, size, *other));
}

TEST_F(Launch, OneHandleIsOneObject) {
  EXPECT_EQ(value(device().adopt_kernel(number(function_))),
            value(device().adopt_kernel(number(function_))));
  EXPECT_NE(value(device().adopt_kernel(number(function_))),
            value(device().adopt_kernel(number(kernel_))));
}

TEST_F(Launch, NoHandleIsRefused) {
  EXPECT_EQ(device().adopt_kernel(0).why().code(), errc::invalid_value);
}

TEST_F(Launch, TheArgumentsOfSomebodyElsesKernelAreChecked) {
  backend::launch_request request =
      filling(value(device().adopt_kernel(number(function_))), 0x01010101);
  request.arguments = request.arguments.first(16);
  const backend::status answer = queue_->launch(request);
  EXPECT_EQ(answer.code(), errc::invalid_value);
  EXPECT_NE(answer.text().find("it takes 24 bytes"), std::string::npos) << answer.text();
}

TEST_F(Launch, ADriverThatTellsNoNamesLaunchesAllTheSame) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.hide("cuFuncGetName", 1);
  control.hide("cuFuncGetParamInfo", 1);
  open_again();
  backend::kernel* const adopted = value(device().adopt_kernel(number(function_)));
  EXPECT_EQ(adopted->name(), "of a native handle");
  ok(queue_->launch(filling(adopted, 0x04040404)));
  expect_filled(4);
}

TEST_F(Launch, AttributesReachTheDriver) {
  backend::launch_request request =
      filling(value(device().adopt_kernel(number(function_))), 0x05050505);
  request.cooperative = true;
  request.programmatic = true;
  ok(queue_->launch(request));
  expect_filled(5);
  if (!fake().is_fake) return;
  EXPECT_EQ(control.launch_attributes(), (1U << 2U) | (1U << 6U));
  request.cluster = {2, 1, 1};
  request.cooperative = false;
  request.programmatic = false;
  ok(queue_->launch(request));
  EXPECT_EQ(control.launch_attributes(), 1U << 4U);
}

TEST_F(Launch, OnlyALaunchThatIsNotPlainTakesTheLongCall) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  backend::launch_request request =
      filling(value(device().adopt_kernel(number(function_))), 0x06060606);
  control.clear_counts();
  ok(queue_->launch(request));
  EXPECT_EQ(control.count("cuLaunchKernel"), 1U);
  EXPECT_EQ(control.count("cuLaunchKernelEx"), 0U);
  request.cooperative = true;
  ok(queue_->launch(request));
  EXPECT_EQ(control.count("cuLaunchKernel"), 1U);
  EXPECT_EQ(control.count("cuLaunchKernelEx"), 1U);
}

TEST_F(Launch, AClusterThatDoesNotDivideTheGridIsRefusedByName) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  backend::launch_request request =
      filling(value(device().adopt_kernel(number(function_))), 0x07070707);
  request.cluster = {3, 1, 1};
  const backend::status answer = queue_->launch(request);
  EXPECT_EQ(answer.code(), errc::device);
  EXPECT_NE(answer.text().find("CUDA_ERROR_INVALID_CLUSTER_SIZE"), std::string::npos)
      << answer.text();
  EXPECT_NE(answer.text().find("'test_fill_u32'"), std::string::npos) << answer.text();
}

TEST_F(Launch, ADriverWithoutTheLongCallRefusesAttributesOnly) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.hide("cuLaunchKernelEx", 1);
  open_again();
  backend::launch_request request =
      filling(value(device().adopt_kernel(number(function_))), 0x08080808);
  request.cooperative = true;
  const backend::status answer = queue_->launch(request);
  EXPECT_EQ(answer.code(), errc::unsupported);
  EXPECT_NE(answer.text().find("cuLaunchKernelEx"), std::string::npos) << answer.text();
  request.cooperative = false;
  ok(queue_->launch(request));
  expect_filled(8);
}

}  // namespace
}  // namespace cuda_test
