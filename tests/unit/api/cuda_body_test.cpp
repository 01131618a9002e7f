// SPDX-License-Identifier: Apache-2.0
// Bodies on a GPU machine: what they get, and what is refused because it is host code. Asks the
// driver that MILLSTREAM_CUDA_DRIVER names, the look-alike one or a real one.
#include "support.hpp"

#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/fake_cuda/driver.hpp"

namespace {

namespace abi = fake_cuda;
using fake_cuda_test::the_driver;

/// A context on the GPUs, and kernels to launch in its tasks as a program would. A test that
/// registers buffers ends with `ctx.finalize()`.
class CudaBody : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&home_, 0), abi::result::success);
    ASSERT_EQ(api.cuCtxSetCurrent(home_), abi::result::success);
    std::ifstream file(std::string(MILLSTREAM_SOURCE_DIR) + "/tests/fakes/cuda_driver/kernels.ptx");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    ASSERT_EQ(api.cuModuleLoadData(&kernels_, text.c_str()), abi::result::success);
  }
  void TearDown() override {
    ctx.finalize();
    api.cuModuleUnload(kernels_);
    api.cuCtxSetCurrent(nullptr);
    api.cuDevicePrimaryCtxRelease(0);
  }

  template <class... Arguments>
  void launch(const ms::stream& on, const char* name, Arguments... arguments) {
    abi::function kernel = nullptr;
    ASSERT_EQ(api.cuModuleGetFunction(&kernel, kernels_, name), abi::result::success);
    void* list[] = {&arguments...};
    ASSERT_EQ(api.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, static_cast<abi::stream>(on.get()),
                                 list, nullptr),
              abi::result::success);
  }
  void scale(const ms::stream& on, ms::view<double> v, double by) {
    launch(on, "test_scale_f64", v.data(), by, std::uint64_t{v.size()});
  }

  ms::machine gpus{{.name = "cuda", .devices = 0, .seed = {}}};
  ms::context ctx{gpus};
  const fake_cuda_test::entry_points& api = the_driver().call;

 private:
  abi::context home_ = nullptr;
  abi::module kernels_ = nullptr;
};

constexpr const char* needs_stream = "take a millstream::stream first and launch on it";

TEST_F(CudaBody, LaunchesOnItsStreamWithAddressesOfDeviceMemory) {
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), 0.0);
  const auto data = ctx.logical_data(values);
  ctx.task(data.rw(), [&](ms::stream s, ms::view<double> v) { scale(s, v, 3.0); });
  ctx.finalize();
  EXPECT_EQ(values[0], 0.0);
  EXPECT_EQ(values[999], 2997.0);
}

TEST_F(CudaBody, RunsAtOnceInTheCallingThreadWithANativeStream) {
  const auto data = ctx.logical_data<double>(8);
  std::thread::id ran;
  ms::stream given;
  const void* address = nullptr;
  ctx.task(ms::exec_place::device(0), data.write(), [&](ms::stream s, ms::view<double> v) {
    ran = std::this_thread::get_id();
    given = s;
    address = v.data();
  });
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_NE(given.get(), nullptr);
  EXPECT_EQ(given.device(), 0);
  auto type = abi::memory_type::unified;
  EXPECT_EQ(api.cuPointerGetAttribute(&type, abi::pointer_attribute::memory_type,
                                      reinterpret_cast<abi::device_pointer>(address)),
            abi::result::success);
  EXPECT_EQ(type, abi::memory_type::on_device);
}

TEST_F(CudaBody, OpenTaskGivesItsStreamAndDeviceAddresses) {
  std::vector<double> values(100, 2.0);
  auto data = ctx.logical_data(values);
  auto task = ctx.task();
  task.add_deps(data.rw());
  task.start();
  scale(task.get_stream(), task.get<ms::view<double>>(0), 4.0);
  task.end();
  ctx.finalize();
  EXPECT_EQ(values, std::vector<double>(100, 8.0));
}

TEST_F(CudaBody, OneBodyServesHostFunctionAndKernel) {
  std::vector<double> values(100, 1.0);
  const auto data = ctx.logical_data(values);
  const auto twice = [this](ms::stream s, ms::view<double> v) {
    if (s.get() != nullptr) return scale(s, v, 2.0);
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] *= 2.0;
  };
  ctx.task(data.rw(), twice);
  ctx.task(ms::exec_place::host(), data.rw(), twice);
  ctx.task(data.rw(), twice);
  ctx.finalize();
  EXPECT_EQ(values, std::vector<double>(100, 8.0));
}

TEST_F(CudaBody, HostPlacesAndHostFunctionsTouchHostMemory) {
  std::vector<double> values(10, 1.0);
  const auto data = ctx.logical_data(values);
  ctx.task(data.rw(), [this](ms::stream s, ms::view<double> v) { scale(s, v, 5.0); });
  ctx.task(ms::exec_place::host(), data.rw(), [](ms::view<double> v) { v[0] += 1.0; });
  ctx.host_launch(data.rw(), [](ms::view<double> v) { v[1] += 2.0; });
  ctx.parallel_for(ms::exec_place::host(), data.shape(), data.rw(),
                   [](std::size_t i, ms::view<double> v) { v[i] += 10.0; });
  ctx.finalize();
  EXPECT_EQ(values[0], 16.0);
  EXPECT_EQ(values[1], 17.0);
  EXPECT_EQ(values[9], 15.0);
}

TEST_F(CudaBody, HostCodeOnADeviceIsRefusedBeforeAnythingChanged) {
  std::vector<double> values(10, 1.0);
  const auto data = ctx.logical_data(values);
  const auto body = [](ms::view<double> v) { v[0] = 7.0; };
  EXPECT_ERROR(ms::errc::unsupported, needs_stream, ctx.task(data.rw(), body));
  EXPECT_ERROR(ms::errc::unsupported, "exec_place::host()",
               ctx.task(ms::exec_place::device(0), data.rw(), body));
  EXPECT_ERROR(ms::errc::unsupported, "task 'copy'",
               ctx.task({.symbol = "copy"}, data.rw(ms::data_place::host()), body));
  EXPECT_EQ(ctx.stats().tasks, 0U);
  ctx.finalize();
  EXPECT_EQ(values, std::vector<double>(10, 1.0));
}

TEST_F(CudaBody, BodyWithoutDataNeedsNoStream) {
  int calls = 0;
  ctx.task([&] { ++calls; });
  ctx.task(ctx.token().rw(), [&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST_F(CudaBody, LoopOnADeviceSaysWhatToUseInstead) {
  const auto data = ctx.logical_data<double>(10);
  const auto body = [](std::size_t i, ms::view<double> v) { v[i] = 0.0; };
  EXPECT_ERROR(ms::errc::unsupported, "give exec_place::host(), or launch a kernel in a task",
               ctx.parallel_for(data.shape(), data.write(), body));
  EXPECT_ERROR(ms::errc::unsupported, "parallel_for 'zero' cannot run on the devices of machine 'c",
               ctx.parallel_for({.symbol = "zero", .place = ms::exec_place::device(0)},
                                data.shape(), data.write(), body));
  EXPECT_EQ(ctx.stats().tasks, 0U);
}

TEST_F(CudaBody, ReductionOnADeviceIsRefusedAndOnTheHostRuns) {
  std::vector<double> values(100, 2.0);
  const auto data = ctx.logical_data(values);
  const auto sum = ctx.logical_data<double>();
  const auto body = [](std::size_t i, auto v, double& partial) { partial += v[i]; };
  const auto into = sum.reduce(ms::reducer::sum<double>{});
  EXPECT_ERROR(ms::errc::unsupported, "launch a kernel in a task",
               ctx.parallel_for(100, data.read(), into, body));
  ctx.task(data.rw(), [this](ms::stream s, ms::view<double> v) { scale(s, v, 0.5); });
  ctx.parallel_for(ms::exec_place::host(), 100, data.read(), into, body);
  EXPECT_EQ(ctx.wait(sum), 100.0);
  ctx.finalize();
}

TEST_F(CudaBody, HostCodeIsNotGivenTheMemoryOfADevice) {
  const auto data = ctx.logical_data<double>(10).set_symbol("x");
  const auto on_gpu = data.write(ms::data_place::device(0));
  const auto body = [](ms::view<double> v) { v[0] = 1.0; };
  const std::string text = " is host code and cannot touch data 'x' in the memory of device 0";
  EXPECT_ERROR(ms::errc::invalid_value, "task 'a'" + text,
               ctx.task({.symbol = "a", .place = ms::exec_place::host()}, on_gpu, body));
  EXPECT_ERROR(ms::errc::invalid_value, "host_launch" + text, ctx.host_launch(on_gpu, body));
  EXPECT_ERROR(ms::errc::invalid_value, "parallel_for" + text,
               ctx.parallel_for(ms::exec_place::host(), 10, on_gpu,
                                [](std::size_t i, ms::view<double> v) { v[i] = 1.0; }));
  EXPECT_EQ(ctx.stats().tasks, 0U);
}

TEST_F(CudaBody, FillAndWaitWorkWithoutABody) {
  const auto data = ctx.logical_data<float>(4, 5);
  ctx.fill(data, 1.5F);
  const auto values = ctx.wait(data);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0F), 30.0F);
}

TEST_F(CudaBody, ExceptionOfABodyPoisonsWhatItWasToWrite) {
  const auto data = ctx.logical_data<double>(10).set_symbol("x");
  ctx.task({.symbol = "broken"}, data.write(),
           [](ms::stream, ms::view<double>) { throw std::runtime_error("no kernel"); });
  EXPECT_ERROR(ms::errc::task_failed, "no kernel", ctx.wait(data));
  EXPECT_ERROR(ms::errc::poisoned, "'broken'", ctx.wait(data));
}

}  // namespace
