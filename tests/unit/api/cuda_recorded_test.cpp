// SPDX-License-Identifier: Apache-2.0
// Faults that users of recorded graphs met, on the driver that MILLSTREAM_CUDA_DRIVER names, the
// look-alike one or a real one.
#include "support.hpp"

#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/fake_cuda/driver.hpp"

namespace {

namespace abi = fake_cuda;
using fake_cuda_test::the_driver;
using data_of_doubles = ms::logical_data<double>;

constexpr std::size_t count = 300;

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
    std::size_t free = 0;
    std::size_t total = 0;
    api.cuMemGetInfo(&free, &total);
    return total - free;
  }
  static std::vector<double> all(double value) { return std::vector<double>(count, value); }

  ms::machine gpus{{.name = "cuda", .devices = 0, .seed = {}}};
  const fake_cuda_test::entry_points& api = the_driver().call;

  abi::context home_ = nullptr;

 private:
  abi::module kernels_ = nullptr;
};

TEST_F(CudaRecorded, EachLaunchKeepsItsArgumentsInEachReplayA03) {
  const ms::program code(gpus, image());
  const ms::kernel<void(double*, const double*, double, std::uint64_t)> axpy{
      code.kernel("test_axpy_f64")};
  const std::vector<double> x = all(1.0);
  std::vector<double> y = all(0.0);
  auto ctx = open();
  {
    const auto lx = ctx.logical_data(x);
    const auto ly = ctx.logical_data(y);
    for (int stage = 0; stage < 4; ++stage) {
      ctx.kernel_task(lx.read(), ly.rw(), [&](ms::kernel_launcher& k, auto a, auto b) {
        for (const double factor : {1.0, 10.0, 100.0})
          k.launch(axpy, 4, 64, b.data(), a.data(), factor, b.size());
      });
      static_cast<void>(ctx.fence());
    }
  }
  ctx.finalize();
  EXPECT_EQ(y, all(444.0));
}

TEST_F(CudaRecorded, AFailedInstantiationIsTheOnlyErrorA10) {
  if (!the_driver().is_fake) GTEST_SKIP() << "plans a failure of the look-alike driver";
  auto ctx = open();
  std::vector<double> x = all(1.0);
  std::vector<double> y = all(1.0);
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  submit_scale(ctx, lx, 2.0);
  the_driver().control.fail("cuGraphInstantiateWithParams", 1,
                            static_cast<int>(abi::result::not_supported), 0);
  static_cast<void>(ctx.fence());
  const std::vector<ms::failure> failures = ctx.take_failures();
  ASSERT_EQ(failures.size(), 1U);
  const ms::error told = error_of([&] { std::rethrow_exception(failures[0].cause); });
  EXPECT_NE(std::string(told.what()).find("task 1 "), std::string::npos) << told.what();
  EXPECT_NE(std::string(told.what()).find("CUDA_ERROR_NOT_SUPPORTED"), std::string::npos);
  submit_scale(ctx, ly, 3.0);
  ctx.finalize();
  EXPECT_EQ(y, all(3.0));
}

TEST_F(CudaRecorded, ABodyThatFailsLeavesNothingA11) {
  const auto round = [&](const std::function<void(const ms::stream&, ms::view<double>)>& spoil) {
    auto ctx = open();
    std::vector<double> x = all(1.0);
    std::vector<double> y = all(1.0);
    abi::stream used = nullptr;
    {
      const auto lx = ctx.logical_data(x);
      const auto ly = ctx.logical_data(y);
      submit_scale(ctx, ly, 2.0);
      static_cast<void>(ctx.fence());
      ctx.task({.symbol = "spoiler"}, lx.rw(), [&](ms::stream s, ms::view<double> v) {
        used = raw(s);
        spoil(s, v);
      });
      EXPECT_FALSE(is_captured(used));
      for (int i = 0; i < 3; ++i) {
        submit_scale(ctx, ly, 2.0);
        static_cast<void>(ctx.fence());
      }
    }
    EXPECT_EQ(ctx.take_failures().size(), 1U);
    ctx.finalize();
    EXPECT_EQ(y, all(16.0));
  };
  const auto raise = [&](const ms::stream& s, ms::view<double> v) {
    scale(s, v, 2.0);
    throw std::runtime_error("boom");
  };
  const auto spoil = [&](const ms::stream& s, ms::view<double> v) {
    add_five(s, v);
    api.cuStreamSynchronize(raw(s));  // not allowed here
  };
  round(raise);
  round(spoil);
  const std::size_t before = in_use();
  for (int i = 0; i < 25; ++i) {
    round(raise);
    round(spoil);
  }
  const std::size_t grown = in_use() - before;
  EXPECT_LE(grown, the_driver().is_fake ? 0U : std::size_t{1} << 20U);
  EXPECT_EQ(of_graphs(abi::graph_memory_attribute::used_now), 0U);
}

TEST_F(CudaRecorded, ADeadRecordingGoesDuringAnotherA14) {
  std::vector<double> x = all(1.0);
  auto ctx = open();
  {
    const auto lx = ctx.logical_data(x);
    for (int stage = 0; stage < 3; ++stage) {
      for (int i = 0; i < 3; ++i) {
        std::vector<double> theirs = all(1.0);
        std::optional<ms::context> dead(open());
        submit_scale(*dead, dead->logical_data(theirs), 2.0);
        dead->finalize();
        ctx.task(lx.rw(), [&](ms::stream s, ms::view<double> v) {
          scale(s, v, 2.0);
          dead.reset();
        });
      }
      static_cast<void>(ctx.fence());
    }
  }
  ctx.finalize();
  EXPECT_EQ(x, all(512.0));
}

TEST_F(CudaRecorded, AnotherThreadAllocatesAndLoadsMeanwhileA15) {
  std::atomic<bool> stop{false};
  std::atomic<int> turns{0};
  std::thread other([&] {
    abi::context here = nullptr;
    EXPECT_EQ(api.cuDevicePrimaryCtxRetain(&here, 0), abi::result::success);
    api.cuCtxSetCurrent(here);
    const std::string text = image();
    while (!stop) {
      abi::device_pointer block = 0;
      abi::module module = nullptr;
      abi::stream stream = nullptr;
      EXPECT_EQ(api.cuMemAlloc(&block, 4096), abi::result::success);
      EXPECT_EQ(api.cuModuleLoadData(&module, text.c_str()), abi::result::success);
      EXPECT_EQ(api.cuStreamCreate(&stream, abi::stream_flags::non_blocking), abi::result::success);
      EXPECT_EQ(api.cuMemFree(block), abi::result::success);
      EXPECT_EQ(api.cuModuleUnload(module), abi::result::success);
      EXPECT_EQ(api.cuStreamDestroy(stream), abi::result::success);
      ++turns;
    }
    api.cuCtxSetCurrent(nullptr);
    api.cuDevicePrimaryCtxRelease(0);
  });
  std::vector<double> x = all(0.0);
  auto ctx = open();
  {
    const auto lx = ctx.logical_data(x);
    for (int i = 0; i < 200; ++i) {
      submit_five(ctx, lx);
      static_cast<void>(ctx.fence());
    }
  }
  ctx.finalize();
  while (turns == 0)
    std::this_thread::yield();
  stop = true;
  other.join();
  EXPECT_EQ(x, all(1000.0));
}

// What libraries do at their first call: memory, a module, and then they wait or not.
TEST_F(CudaRecorded, ALibrarysFirstCallIsRecordedOrToldA16) {
  for (const bool waits : {false, true}) {
    std::vector<double> x = all(1.0);
    std::vector<double> y = all(1.0);
    auto ctx = open();
    {
      const auto lx = ctx.logical_data(x);
      const auto ly = ctx.logical_data(y);
      abi::device_pointer workspace = 0;
      const auto call_library = [&](const ms::stream& s, ms::view<double> v) {
        if (workspace == 0) {
          EXPECT_EQ(api.cuMemAlloc(&workspace, count * 8), abi::result::success);
          if (waits) api.cuStreamSynchronize(raw(s));
        }
        auto* const part = reinterpret_cast<double*>(workspace);
        launch(s, "test_fill_f64", part, 2.0, std::uint64_t{count});
        launch(s, "test_axpy_f64", v.data(), part, 1.0, std::uint64_t{count});
      };
      ctx.task({.symbol = "product"}, lx.rw(), [&](ms::stream s, ms::view<double> v) {
        if (waits) {
          api.cuMemAlloc(&workspace, count * 8);
          api.cuStreamSynchronize(raw(s));
        } else {
          call_library(s, v);
        }
      });
      if (waits) {
        const std::vector<ms::failure> failures = ctx.take_failures();
        ASSERT_EQ(failures.size(), 1U);
        const ms::error told = error_of([&] { std::rethrow_exception(failures[0].cause); });
        for (const char* word : {"'product'", "make such calls before the task"})
          EXPECT_NE(std::string(told.what()).find(word), std::string::npos) << told.what();
      }
      ctx.task(ly.rw(), [&](ms::stream s, ms::view<double> v) { call_library(s, v); });
      static_cast<void>(ctx.fence());
      api.cuCtxSynchronize();
      api.cuMemFree(workspace);
    }
    ctx.finalize();
    EXPECT_EQ(x, all(waits ? 1.0 : 3.0));
    EXPECT_EQ(y, all(3.0));
  }
}

TEST_F(CudaRecorded, ABodyHasMemoryOfItsOwnA17) {
  std::vector<double> x = all(0.0);
  auto ctx = open();
  {
    const auto lx = ctx.logical_data(x);
    submit_five(ctx, lx);
    EXPECT_EQ(ctx.wait(lx)(0), 5.0);
    submit_five(ctx, lx);
    EXPECT_EQ(ctx.wait(lx)(count - 1), 10.0);
    submit_five(ctx, lx);
    submit_five(ctx, lx);
  }
  ctx.finalize();
  EXPECT_EQ(x, all(20.0));
  EXPECT_EQ(ctx.stats().recording.updates, 0U);
}

TEST_F(CudaRecorded, BodiesOfTwoThreadsHaveMemoryOrAreToldA17) {
  std::vector<double> values[2] = {all(0.0), all(0.0)};
  auto ctx = open();
  {
    const data_of_doubles data[2] = {ctx.logical_data(values[0]), ctx.logical_data(values[1])};
    for (const auto& each : data)  // a task that needs a copy waits for bodies of others
      submit_scale(ctx, each, 1.0);
    static_cast<void>(ctx.fence());
    std::latch open_tasks(2);
    const auto work = [&](std::size_t which) {
      api.cuCtxSetCurrent(home_);
      auto task = ctx.task();
      task.add_deps(data[which].rw());
      task.set_symbol(which == 0 ? "first" : "second");
      task.start();
      open_tasks.arrive_and_wait();
      add_five(task.get_stream(), task.get<ms::view<double>>(0));
      task.end();
      api.cuCtxSetCurrent(nullptr);
    };
    std::thread second([&] { work(1); });
    std::thread first([&] { work(0); });
    first.join();
    second.join();
    const std::vector<ms::failure> failures = ctx.take_failures();
    ASSERT_EQ(failures.size(), 1U);  // the one that was captured beside the other
    const ms::error told = error_of([&] { std::rethrow_exception(failures[0].cause); });
    EXPECT_NE(std::string(told.what()).find("allocate before the recording"), std::string::npos)
        << told.what();
    const bool first_failed = std::string(told.what()).find("'first'") != std::string::npos;
    submit_five(ctx, data[first_failed ? 1 : 0]);
    ctx.finalize();
    EXPECT_EQ(values[first_failed ? 1 : 0], all(10.0));
  }
}

TEST_F(CudaRecorded, TemporariesOfAChainShareTheirMemoryA20) {
  const std::size_t temporary = std::size_t{the_driver().is_fake ? 1U : 128U} << 20U;
  for (const bool in_stream_order : {false, true}) {
    std::vector<double> x = all(0.0);
    auto ctx = open();
    {
      const auto lx = ctx.logical_data(x);
      submit_scale(ctx, lx, 1.0);
      static_cast<void>(ctx.wait(lx));
      forget_highest();
      const std::size_t before = in_use();
      for (int i = 0; i < 8; ++i) {
        if (in_stream_order) {
          ctx.task(lx.rw(), [&](ms::stream s, ms::view<double> v) { add_five(s, v, temporary); });
          continue;
        }
        ctx.task(ctx.logical_data<double>(temporary / 8).write(), lx.rw(),
                 [&](ms::stream s, ms::view<double> scratch, ms::view<double> v) {
                   launch(s, "test_fill_f64", scratch.data(), 5.0, std::uint64_t{scratch.size()});
                   launch(s, "test_axpy_f64", v.data(), scratch.data(), 1.0, std::uint64_t{count});
                 });
      }
      EXPECT_EQ(ctx.wait(lx)(0), 40.0);
      const std::size_t taken = in_use() - before;
      if (the_driver().is_fake) {
        EXPECT_EQ(taken, temporary);
        EXPECT_EQ(of_graphs(abi::graph_memory_attribute::used_high),
                  in_stream_order ? temporary : 0U);
      }
      EXPECT_LT(taken, 2 * temporary);
      EXPECT_LT(of_graphs(abi::graph_memory_attribute::used_high), 2 * temporary);
    }
    ctx.finalize();
  }
}

// As linear algebra does: what is issued to one stream runs one after the other.
TEST_F(CudaRecorded, IndependentBodiesShareWhatALibraryKeepsForEachStream) {
  std::map<abi::stream, abi::device_pointer> kept;
  constexpr std::size_t many = 24;
  std::vector<std::vector<double>> values(many, all(0.0));
  auto ctx = open();
  {
    for (std::size_t i = 0; i < many; ++i) {
      ctx.task(ctx.logical_data(values[i]).rw(), [&, i](ms::stream s, ms::view<double> v) {
        abi::device_pointer& workspace = kept[raw(s)];
        if (workspace == 0) {
          EXPECT_EQ(api.cuMemAlloc(&workspace, count * 8), abi::result::success);
        }
        auto* const part = reinterpret_cast<double*>(workspace);
        launch(s, "test_fill_f64", part, static_cast<double>(i), std::uint64_t{count});
        launch(s, "test_axpy_f64", v.data(), part, 1.0, std::uint64_t{count});
      });
    }
  }
  ctx.finalize();
  for (const auto& each : kept)
    EXPECT_EQ(api.cuMemFree(each.second), abi::result::success);
  for (std::size_t i = 0; i < many; ++i)
    EXPECT_EQ(values[i], all(static_cast<double>(i)));
  EXPECT_EQ(kept.size(), 8U);
}

TEST_F(CudaRecorded, SixRunsThroughOneCacheA28) {
  const ms::program code(gpus, image());
  const ms::kernel<void(double*, const double*, double, std::uint64_t)> axpy{
      code.kernel("test_axpy_f64")};
  const ms::shared_resources shared;
  std::vector<std::uint64_t> made;
  std::uint64_t refused = 0;
  const auto run = [&](int tasks, unsigned grid) {
    const std::vector<double> x = all(1.0);
    std::vector<double> y = all(0.0);
    auto ctx = open(shared);
    {
      const auto lx = ctx.logical_data(x);
      const auto ly = ctx.logical_data(y);
      for (int i = 1; i <= tasks; ++i) {
        ctx.kernel_task(lx.read(), ly.rw(), [&](ms::kernel_launcher& k, auto a, auto b) {
          k.launch(axpy, grid, 64, b.data(), a.data(), double(i), b.size());
        });
      }
    }
    ctx.finalize();
    EXPECT_EQ(y, all(tasks * (tasks + 1) / 2.0));
    made.push_back(ctx.stats().recording.instantiations);
    refused += ctx.stats().recording.refused_updates;
  };
  for (int i = 0; i < 3; ++i)
    run(3, 4);
  run(4, 4);
  run(3, 8);
  run(3, 4);
  EXPECT_EQ(made, (std::vector<std::uint64_t>{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(refused, 0U);
  EXPECT_EQ(api.cuCtxSynchronize(), abi::result::success);
}

}  // namespace
