// SPDX-License-Identifier: Apache-2.0
// Kernel tasks on a GPU machine: on the driver that MILLSTREAM_CUDA_DRIVER names, the look-alike
// one or a real one.
#include "support.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/fake_cuda/driver.hpp"

namespace {

namespace abi = fake_cuda;
using fake_cuda_test::the_driver;
using launcher = ms::kernel_launcher;

void scale_on_host(double* x, double by, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i)
    x[i] *= by;
}

/// The test kernels as a program of ours, and as one that somebody else loaded.
class CudaKernelTask : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&home_, 0), abi::result::success);
    ASSERT_EQ(api.cuCtxSetCurrent(home_), abi::result::success);
    ASSERT_EQ(api.cuModuleLoadData(&foreign_, image().c_str()), abi::result::success);
  }
  void TearDown() override {
    ctx.finalize();
    api.cuModuleUnload(foreign_);
    api.cuCtxSetCurrent(nullptr);
    api.cuDevicePrimaryCtxRelease(0);
  }

  static std::string image() {
    std::ifstream file(std::string(MILLSTREAM_SOURCE_DIR) + "/tests/fakes/cuda_driver/kernels.ptx");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  abi::function foreign(const char* name) {
    abi::function found = nullptr;
    EXPECT_EQ(api.cuModuleGetFunction(&found, foreign_, name), abi::result::success);
    return found;
  }

  ms::machine gpus{{.name = "cuda", .devices = 0, .seed = {}}};
  ms::context ctx{gpus};
  ms::program code{gpus, image()};
  // y, x, factor, count
  const ms::kernel<void(double*, const double*, double, std::uint64_t)> axpy{
      code.kernel("test_axpy_f64")};
  const ms::kernel<void(double*, double, std::uint64_t)> scale{code.kernel("test_scale_f64"),
                                                               &scale_on_host};
  const fake_cuda_test::entry_points& api = the_driver().call;

 private:
  abi::context home_ = nullptr;
  abi::module foreign_ = nullptr;
};

TEST_F(CudaKernelTask, LaunchesAKernelOfAProgram) {
  std::vector<double> values(1000);
  std::iota(values.begin(), values.end(), 0.0);
  const auto data = ctx.logical_data(values);
  ctx.kernel_task(data.rw(),
                  [&](launcher& k, auto v) { k.launch(scale, 4, 64, v.data(), 3, v.size()); });
  ctx.finalize();
  EXPECT_EQ(values[0], 0.0);
  EXPECT_EQ(values[999], 2997.0);
}

TEST_F(CudaKernelTask, LaunchesAFunctionOfSomebodyElse) {
  std::vector<double> values(100, 1.0);
  const auto data = ctx.logical_data(values);
  const ms::device_kernel native(foreign("test_scale_f64"));
  ctx.kernel_task(data.rw(), [&](launcher& k, auto v) {
    k.launch(native, {.grid = 2, .block = 32}, v.data(), 5.0, std::uint64_t{v.size()});
  });
  ctx.finalize();
  EXPECT_EQ(values, std::vector<double>(100, 5.0));
}

TEST_F(CudaKernelTask, LaunchesAKernelOfALibraryOfSomebodyElse) {
  abi::library library = nullptr;
  ASSERT_EQ(
      api.cuLibraryLoadData(&library, image().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0),
      abi::result::success);
  abi::kernel found = nullptr;
  ASSERT_EQ(api.cuLibraryGetKernel(&found, library, "test_scale_f64"), abi::result::success);
  std::vector<double> values(100, 1.0);
  const auto data = ctx.logical_data(values);
  const ms::device_kernel native(found);
  ctx.kernel_task(data.rw(), [&](launcher& k, auto v) {
    k.launch(native, 2, 32, v.data(), 5.0, std::uint64_t{v.size()});
  });
  ctx.finalize();
  EXPECT_EQ(values, std::vector<double>(100, 5.0));
}

// A handle says nothing about its kernel once its owner has unloaded it. An object made anew, and
// one that is made for that, take the kernel that the handle names now, also one that takes the
// same arguments and more.
TEST_F(CudaKernelTask, HandleThatComesAgainNamesItsNewKernel) {
  if (!the_driver().is_fake) GTEST_SKIP() << "a driver may give every kernel a handle of its own";
  constexpr std::array names{"test_write_word", "test_fill_u32", "test_add_u32"};
  std::vector<std::uint32_t> values(100, 1);
  const auto data = ctx.logical_data(values);
  std::map<const void*, ms::device_kernel> kept;
  int came_again = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    abi::module loaded = nullptr;
    abi::function found = nullptr;
    ASSERT_EQ(api.cuModuleLoadData(&loaded, image().c_str()), abi::result::success);
    ASSERT_EQ(api.cuModuleGetFunction(&found, loaded, names[i % 3]), abi::result::success);
    ms::device_kernel& by_handle = kept[found];
    if (by_handle) ++came_again;
    if (!by_handle)
      by_handle = ms::device_kernel::by_handle(reinterpret_cast<std::uint64_t>(found));
    for (const ms::device_kernel& each : {by_handle, ms::device_kernel(found)}) {
      ctx.kernel_task(data.rw(), [&](launcher& k, auto v) {
        const std::uint64_t count = v.size();
        if (i % 3 == 0) k.launch(each, 4, 64, v.data(), 7U);
        if (i % 3 == 1) k.launch(each, 4, 64, v.data(), 2U, count);
        if (i % 3 == 2) k.launch(each, 4, 64, v.data(), v.data(), v.data(), count);
      });
    }
    ctx.fence().synchronize();
    ASSERT_EQ(api.cuModuleUnload(loaded), abi::result::success);
  }
  EXPECT_EQ(came_again, 11);
  ctx.finalize();
  EXPECT_EQ(values, std::vector<std::uint32_t>(100, 8));
}

TEST_F(CudaKernelTask, AccumulatesFiftyTimesWithItsOwnFactor) {
  const std::vector<double> x(100, 1.0);
  std::vector<double> y(100, 0.0);
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  for (int i = 0; i < 50; ++i) {
    ctx.kernel_task(lx.read(), ly.rw(), [&](launcher& k, auto a, auto b) {
      k.launch(axpy, 4, 64, b.data(), a.data(), i, b.size());
    });
  }
  ctx.finalize();
  EXPECT_EQ(y, std::vector<double>(100, 50.0 * 49.0 / 2.0));
}

// A03: each launch owns its arguments, also those that were temporaries.
TEST_F(CudaKernelTask, EachLaunchKeepsItsOwnArgumentsA03) {
  const std::vector<double> x(100, 1.0);
  std::vector<double> y(100, 0.0);
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  ctx.kernel_task(lx.read(), ly.rw(), [&](launcher& k, auto a, auto b) {
    for (const double factor : {1.0, 10.0, 100.0})
      k.launch(axpy, 4, 64, b.data(), a.data(), factor, b.size());
  });
  ctx.finalize();
  EXPECT_EQ(y, std::vector<double>(100, 111.0));
}

TEST_F(CudaKernelTask, MixesWithBodiesOfTheHost) {
  std::vector<double> values(100, 1.0);
  const auto data = ctx.logical_data(values);
  const auto triple = [&](launcher& k, auto v) { k.launch(scale, 2, 32, v.data(), 3.0, v.size()); };
  ctx.kernel_task(data.rw(), triple);
  ctx.host_launch(data.rw(), [](ms::view<double> v) { v[0] += 1.0; });
  ctx.kernel_task(data.rw(), triple);
  ctx.finalize();
  EXPECT_EQ(values[0], 12.0);
  EXPECT_EQ(values[99], 9.0);
}

TEST_F(CudaKernelTask, DependencyMayNameItsPlace) {
  std::vector<double> values(100, 1.0);
  const auto data = ctx.logical_data(values);
  const void* address = nullptr;
  ctx.kernel_task(data.rw(ms::data_place::host()), [&](launcher&, auto v) { address = v.data(); });
  EXPECT_EQ(address, values.data());
  ctx.finalize();
}

TEST_F(CudaKernelTask, WrongArgumentsAreRefusedBeforeAnythingIsLaunched) {
  std::vector<double> values(10, 2.0);
  const auto data = ctx.logical_data(values);
  const ms::device_kernel raw = code.kernel("test_scale_f64");
  EXPECT_ERROR(ms::errc::invalid_value, "kernel 'test_scale_f64' with 2 arguments; it takes 3",
               ctx.kernel_task({.symbol = "few"}, data.rw(),
                               [&](launcher& k, auto v) { k.launch(raw, 1, 32, v.data(), 2.0); }));
  EXPECT_ERROR(ms::errc::invalid_value, "argument 1 of 4 bytes, which has 8 bytes there",
               ctx.kernel_task(data.rw(), [&](launcher& k, auto v) {
                 k.launch(scale, 1, 32, v.data(), 2.0, v.size());
                 k.launch(raw, 1, 32, v.data(), 2.0F, std::uint64_t{v.size()});
               }));
  ctx.finalize();
  EXPECT_EQ(values, std::vector<double>(10, 2.0));
}

// The arguments of the others are their own.
TEST_F(CudaKernelTask, LaunchesAroundARefusedOneAreMade) {
  std::vector<double> values(100, 1.0);
  const auto data = ctx.logical_data(values);
  ctx.kernel_task(data.rw(), [&](launcher& k, auto v) {
    const auto misses = [&] {
      EXPECT_THROW(k.launch(code.kernel("test_scale_f64"), 2, 32, v.data(), 100.0), ms::error);
    };
    misses();
    for (const double factor : {2.0, 3.0, 5.0}) {
      k.launch(scale, 2, 32, v.data(), factor, v.size());
      misses();
    }
  });
  ctx.finalize();
  EXPECT_EQ(values, std::vector<double>(100, 30.0));
}

TEST_F(CudaKernelTask, UnknownKernelIsNamed) {
  const auto data = ctx.logical_data<double>(10);
  const ms::device_kernel none = code.kernel("no_such_kernel");
  EXPECT_ERROR(
      ms::errc::invalid_value, "'no_such_kernel'",
      ctx.kernel_task(data.write(), [&](launcher& k, auto v) { k.launch(none, 1, 1, v.data()); }));
  EXPECT_ERROR(ms::errc::unsupported, "which the devices of machine 'cuda' cannot run",
               ctx.kernel_task(data.write(), [&](launcher& k, auto v) {
                 k.launch(&scale_on_host, 1, 1, v.data(), 1.0, v.size());
               }));
  EXPECT_ERROR(ms::errc::invalid_value, "leave the host place out",
               ctx.kernel_task(ms::exec_place::host(), data.write(), [](launcher&, auto) {}));
}

TEST_F(CudaKernelTask, ProgramEndsBeforeItsLaunches) {
  std::vector<double> values(1000, 1.0);
  const auto data = ctx.logical_data(values);
  for (int i = 0; i < 3; ++i) {
    const ms::program own(gpus, image());
    const ms::device_kernel twice = own.kernel("test_scale_f64");
    ctx.kernel_task(data.rw(), [&](launcher& k, auto v) {
      k.launch(twice, 4, 64, v.data(), 2.0, std::uint64_t{v.size()});
    });
  }
  ctx.finalize();
  EXPECT_EQ(values, std::vector<double>(1000, 8.0));
}

TEST_F(CudaKernelTask, ProgramOfAnotherMachineIsRefused) {
  const ms::context other(host_machine());
  const auto data = ctx.logical_data<double>(10);
  const ms::program elsewhere(host_machine(), "");
  EXPECT_ERROR(ms::errc::invalid_value, "of a program for machine 'host'",
               ctx.kernel_task(data.write(), [&](launcher& k, auto v) {
                 k.launch(elsewhere.kernel("x"), 1, 1, v.data());
               }));
}

}  // namespace
