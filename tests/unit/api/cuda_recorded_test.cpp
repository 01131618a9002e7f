// SPDX-License-Identifier: Apache-2.0
// Faults that users of recorded graphs met.
#include "cuda_recorded.hpp"

#include <atomic>
#include <functional>
#include <semaphore>
#include <thread>

namespace recorded_test {
namespace {

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

// The end of a capture takes the driver a time that grows with the graph.
TEST_F(CudaRecorded, AllBodiesOfAStageShareOneCapture) {
  if (!the_driver().is_fake) GTEST_SKIP() << "counts calls of the look-alike driver";
  const auto& control = the_driver().control;
  std::vector<double> x = all(1.0);
  auto ctx = open();
  const auto lx = ctx.logical_data(x);
  for (const int tasks : {1, 50}) {
    control.clear_counts();
    for (int i = 0; i < tasks; ++i)
      submit_scale(ctx, lx, 1.0);
    std::thread([&] { submit_scale(ctx, lx, 1.0); }).join();
    static_cast<void>(ctx.fence());
    EXPECT_EQ(control.count("cuStreamBeginCaptureToGraph"), 1U);
    EXPECT_EQ(control.count("cuStreamEndCapture"), 1U);
  }
  EXPECT_EQ(ctx.stats().recording.child_graphs, 0U);
  ctx.finalize();
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
  EXPECT_LE(in_use(), before);
  EXPECT_EQ(of_graphs(abi::graph_memory_attribute::used_now), 0U);
}

// As what libraries do whose call is refused.
TEST_F(CudaRecorded, ABodyThatSpoilsItsCaptureAndRaisesFailsOnce) {
  auto ctx = open();
  std::vector<double> x = all(1.0);
  std::vector<double> y = all(1.0);
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  ctx.task(lx.rw(), [&](ms::stream s, ms::view<double>) {
    api.cuStreamSynchronize(raw(s));
    throw std::runtime_error("boom");
  });
  const std::vector<ms::failure> failures = ctx.take_failures();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_THROW(std::rethrow_exception(failures[0].cause), std::runtime_error);
  submit_scale(ctx, ly, 2.0);
  EXPECT_EQ(ctx.wait(ly)(0), 2.0);
  ctx.finalize();
}

TEST_F(CudaRecorded, ABodyThatStaysOpenWhileItsStageIsLostEndsLater) {
  auto ctx = open();
  std::vector<double> x = all(1.0);
  std::vector<double> y = all(1.0);
  std::vector<double> z = all(1.0);
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  const auto lz = ctx.logical_data(z);
  ctx.task(lx.rw(), [&](ms::stream, ms::view<double>) {
    ctx.task(ly.rw(), [&](ms::stream s, ms::view<double>) { api.cuStreamSynchronize(raw(s)); });
  });
  EXPECT_FALSE(ctx.take_failures().empty());
  for (int stage = 0; stage < 2; ++stage) {
    submit_scale(ctx, lz, 2.0);
    static_cast<void>(ctx.fence());
  }
  std::thread([&] { submit_scale(ctx, lz, 2.0); }).join();
  EXPECT_EQ(ctx.wait(lz)(0), 8.0);
  EXPECT_TRUE(ctx.take_failures().empty());
  ctx.finalize();
}

TEST_F(CudaRecorded, ABodyBesideThatStaysOpenWhileTheStageIsLostEndsLater) {
  auto ctx = open();
  std::vector<double> x = all(1.0);
  std::vector<double> y = all(1.0);
  std::vector<double> z = all(1.0);
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  const auto lz = ctx.logical_data(z);
  // What has to be copied first would wait for the open body.
  for (const auto* each : {&lx, &ly, &lz})
    submit_scale(ctx, *each, 1.0);
  static_cast<void>(ctx.fence());
  std::binary_semaphore is_open(0);
  std::binary_semaphore may_end(0);
  std::thread other;
  ctx.task(lx.rw(), [&](ms::stream s, ms::view<double>) {
    other = std::thread([&] {
      ctx.task(ly.rw(), [&](ms::stream own, ms::view<double> v) {
        scale(own, v, 2.0);
        is_open.release();
        may_end.acquire();
      });
    });
    is_open.acquire();
    api.cuStreamSynchronize(raw(s));
  });
  may_end.release();
  other.join();
  EXPECT_FALSE(ctx.take_failures().empty());
  for (int stage = 0; stage < 2; ++stage) {
    submit_scale(ctx, lz, 2.0);
    EXPECT_EQ(ctx.wait(lz)(0), stage == 0 ? 2.0 : 4.0);
  }
  ctx.finalize();
}

TEST_F(CudaRecorded, APolicyThatThrowsLosesAnExecutableOnly) {
  ms::shared_resources shared;
  shared.set_policy([](const ms::executable_info&) -> bool { throw std::runtime_error("no"); });
  std::vector<double> x = all(1.0);
  auto ctx = open(shared);
  const auto lx = ctx.logical_data(x);
  for (int stage = 0; stage < 3; ++stage) {
    submit_scale(ctx, lx, 2.0);
    static_cast<void>(ctx.fence());
  }
  EXPECT_EQ(ctx.wait(lx)(0), 8.0);
  EXPECT_TRUE(ctx.take_failures().empty());
  EXPECT_EQ(ctx.stats().recording.instantiations, 3U);
  ctx.finalize();
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

TEST_F(CudaRecorded, AHostFunctionThatIsDeclaredDoesNotCloseTheStage) {
  std::vector<double> x = all(1.0);
  auto ctx = open();
  {
    const auto data = ctx.logical_data(x);
    ctx.host_launch({.symbol = "declared", .uses_device = false}, data.rw(),
                    [](ms::view<double, 1> values) { values(0) = 5.0; });
  }
  ctx.finalize();
  EXPECT_EQ(x[0], 5.0);
  EXPECT_EQ(ctx.stats().recording.stage_breaks, 0U);
  EXPECT_EQ(ctx.stats().recording.stages, 1U);
}

}  // namespace
}  // namespace recorded_test
