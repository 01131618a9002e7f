// SPDX-License-Identifier: Apache-2.0
/// What the tests of recorded contexts on a GPU machine share: on the driver that
/// MILLSTREAM_CUDA_DRIVER names, the look-alike one or a real one.
#pragma once

#include "support.hpp"

#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/fake_cuda/driver.hpp"

namespace recorded_test {

namespace abi = fake_cuda;
using fake_cuda_test::the_driver;
using data_of_doubles = ms::logical_data<double>;

inline constexpr std::size_t count = 300;

/// Recorded contexts, and what the programs of users do in their tasks.
class CudaRecorded : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(api.cuDevicePrimaryCtxRetain(&home_, 0), abi::result::success);
    ASSERT_EQ(api.cuCtxSetCurrent(home_), abi::result::success);
    ASSERT_EQ(api.cuModuleLoadData(&kernels_, image().c_str()), abi::result::success);
    forget_highest();
  }
  void TearDown() override {
    api.cuModuleUnload(kernels_);
    api.cuCtxSetCurrent(nullptr);
    api.cuDevicePrimaryCtxRelease(0);
  }

  static std::string image() {
    std::ifstream file(std::string(MILLSTREAM_SOURCE_DIR) + "/tests/fakes/cuda_driver/kernels.ptx");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  ms::context open(std::optional<ms::shared_resources> resources = {}) {
    ms::context_options options;
    options.on = gpus;
    options.use_graph = true;
    options.resources = std::move(resources);
    return ms::context(std::move(options));
  }
  [[nodiscard]] static abi::stream raw(const ms::stream& of) {
    return static_cast<abi::stream>(of.get());
  }
  template <class... Arguments>
  void launch(const ms::stream& on, const char* name, Arguments... arguments) {
    abi::function kernel = nullptr;
    ASSERT_EQ(api.cuModuleGetFunction(&kernel, kernels_, name), abi::result::success);
    void* list[] = {&arguments...};
    ASSERT_EQ(api.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, raw(on), list, nullptr),
              abi::result::success);
  }
  void scale(const ms::stream& on, ms::view<double> v, double by) {
    launch(on, "test_scale_f64", v.data(), by, std::uint64_t{v.size()});
  }
  /// By way of stream-ordered memory of the body's own.
  void add_five(const ms::stream& on, ms::view<double> v, std::size_t bytes = count * 8) {
    abi::device_pointer five = 0;
    ASSERT_EQ(api.cuMemAllocAsync(&five, bytes, raw(on)), abi::result::success);
    auto* const values = reinterpret_cast<double*>(five);
    launch(on, "test_fill_f64", values, 5.0, std::uint64_t{bytes / 8});
    launch(on, "test_axpy_f64", v.data(), values, 1.0, std::uint64_t{v.size()});
    ASSERT_EQ(api.cuMemFreeAsync(five, raw(on)), abi::result::success);
  }
  void submit_five(ms::context& to, const data_of_doubles& data, const char* name = "five") {
    to.task({.symbol = name}, data.rw(),
            [this](ms::stream s, ms::view<double> v) { add_five(s, v); });
  }
  void submit_scale(ms::context& to, const data_of_doubles& data, double by) {
    to.task(data.rw(), [this, by](ms::stream s, ms::view<double> v) { scale(s, v, by); });
  }
  bool is_captured(abi::stream which) {
    auto now = abi::capture_status::none;
    EXPECT_EQ(api.cuStreamIsCapturing(which, &now), abi::result::success);
    return now != abi::capture_status::none;
  }
  std::uint64_t of_graphs(abi::graph_memory_attribute what) {
    std::uint64_t bytes = 0;
    EXPECT_EQ(api.cuDeviceGetGraphMemAttribute(0, what, &bytes), abi::result::success);
    return bytes;
  }
  void forget_highest() {
    std::uint64_t zero = 0;
    api.cuDeviceGraphMemTrim(0);
    api.cuDeviceSetGraphMemAttribute(0, abi::graph_memory_attribute::used_high, &zero);
    api.cuDeviceSetGraphMemAttribute(0, abi::graph_memory_attribute::reserved_high, &zero);
  }
  /// Bytes of device 0, without what pools keep where the driver tells.
  std::size_t in_use() {
    api.cuCtxSynchronize();
    if (the_driver().is_fake) return the_driver().control.used_bytes(0);
    // Not what the device has left: other processes use it, too.
    return of_graphs(abi::graph_memory_attribute::reserved_now);
  }
  static std::vector<double> all(double value) { return std::vector<double>(count, value); }

  ms::machine gpus{{.name = "cuda", .devices = 0, .seed = {}}};
  const fake_cuda_test::entry_points& api = the_driver().call;

  abi::context home_ = nullptr;

 private:
  abi::module kernels_ = nullptr;
};

}  // namespace recorded_test
