// SPDX-License-Identifier: Apache-2.0
// Bodies of recorded tasks that allocate, as libraries do.
#include "cuda_recorded.hpp"

#include <map>
#include <thread>

namespace recorded_test {
namespace {

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

TEST_F(CudaRecorded, BodiesOfTwoThreadsHaveMemoryA17) {
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
    // The one that was captured beside the other becomes a part of the stage; an older driver would
    // have to copy it.
    int version = 0;
    api.cuDriverGetVersion(&version);
    if (version < 12090) {
      ASSERT_EQ(failures.size(), 1U);
      const ms::error told = error_of([&] { std::rethrow_exception(failures[0].cause); });
      EXPECT_NE(std::string(told.what()).find("allocate before the recording"), std::string::npos)
          << told.what();
      return;
    }
    EXPECT_EQ(failures.size(), 0U);
    for (const auto& each : data)
      submit_five(ctx, each);
    ctx.finalize();
    EXPECT_EQ(values[0], all(10.0));
    EXPECT_EQ(values[1], all(10.0));
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

}  // namespace
}  // namespace recorded_test
