// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

using Context = Api;

static_assert(!std::is_copy_constructible_v<ms::context>);
static_assert(std::is_nothrow_move_constructible_v<ms::context>);
static_assert(std::is_convertible_v<ms::context&, ms::context_ref>);

TEST(ContextLife, DestructorWaitsForWorkInFlightAndWritesBack) {
  const gate hold;
  std::vector<int> values(100, 1);
  std::thread opener;
  {
    ms::context ctx(host_machine());
    const auto data = ctx.logical_data(values);
    ctx.task(ms::exec_place::device(1), data.rw(), [hold](auto v) {
      hold.wait();
      for (int& value : v)
        value = 2;
    });
    opener = std::thread([hold] { hold.open(); });
  }
  EXPECT_EQ(values, std::vector<int>(100, 2));
  opener.join();
}

TEST(ContextLife, DestructorWaitsAlsoWhileATaskIsOpen) {
  const gate hold;
  std::vector<int> values(100, 1);
  int open_value = 0;
  bool ran = false;
  std::thread opener;
  ms::dynamic_task open;
  testing::internal::CaptureStderr();
  {
    ms::context ctx(host_machine());
    open = ctx.task();
    open.add_deps(ctx.logical_data(open_value).rw());
    open.start();
    ctx.host_launch(ctx.logical_data(values).read(), [hold, &ran, &values](auto v) {
      hold.wait();
      ran = v.data() == values.data();
    });
    opener = std::thread([hold] { hold.open(); });
  }
  EXPECT_TRUE(ran);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("is open"), std::string::npos);
  opener.join();
}

TEST(ContextLife, AnEmptyFunctionPointerIsNoBody) {
  ms::context ctx(host_machine());
  EXPECT_THROW(ctx.task(static_cast<void (*)()>(nullptr)), ms::error);
  EXPECT_THROW(ctx.parallel_for(4, static_cast<void (*)(std::size_t)>(nullptr)), ms::error);
}

TEST(ContextLife, DestructorWaitsWhenAnExceptionLeavesTheBlock) {
  int value = 0;
  const auto leave = [&value] {
    ms::context ctx(host_machine());
    ctx.task(ctx.logical_data(value).rw(), [](auto v) { *v = 3; });
    throw std::runtime_error("leaving");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_EQ(value, 3);
}

TEST(ContextLife, DestructorReportsAFailureThatNobodyHasSeen) {
  testing::internal::CaptureStderr();
  {
    ms::context ctx(host_machine());
    ctx.task({.symbol = "lonely"}, [] { throw std::runtime_error("unseen"); });
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("lonely"), std::string::npos) << text;
}

TEST(ContextLife, FinalizedContextDestroysInSilence) {
  testing::internal::CaptureStderr();
  {
    ms::context ctx(host_machine());
    ctx.task([] {});
    ctx.finalize();
    ctx.finalize();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(ContextLife, MovingHandsTheDutyOver) {
  int value = 0;
  {
    ms::context outer(host_machine());
    {
      ms::context inner(host_machine());
      inner.task(inner.logical_data(value).rw(), [](auto v) { *v = 1; });
      outer = std::move(inner);
    }
    EXPECT_FALSE(outer.is_finished());
  }
  EXPECT_EQ(value, 1);
}

TEST(ContextLife, HandlesMayOutliveTheContext) {
  int value = 4;
  ms::logical_data<int, 0> data;
  {
    ms::context ctx(host_machine());
    data = ctx.logical_data(value);
  }
  EXPECT_EQ(data.shape(), ms::shape());
  ms::context next(host_machine());
  EXPECT_THROW(next.task(data.read(), [](auto) {}), ms::error);
}

TEST_F(Context, WaitGivesAValueForAScalarAndAnArrayOtherwise) {
  int scalar = 5;
  int matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
  const auto l_scalar = ctx.logical_data(scalar);
  const auto l_matrix = ctx.logical_data(matrix);
  ctx.task(ms::exec_place::device(1), l_scalar.rw(), l_matrix.rw(), [](auto s, auto m) {
    *s += 1;
    m(1, 2) = 60;
  });
  const int value = ctx.wait(l_scalar);
  const ms::array<int, 2> copy = ctx.wait(l_matrix);
  EXPECT_EQ(value, 6);
  EXPECT_EQ(copy(1, 2), 60);
  EXPECT_EQ(copy.shape(), ms::shape(2, 3));
  ctx.finalize();
}

TEST_F(Context, WaitDoesNotEndTheContext) {
  int value = 1;
  const auto data = ctx.logical_data(value);
  for (int i = 0; i < 3; ++i) {
    ctx.task(data.rw(), [](auto v) { *v *= 10; });
    EXPECT_EQ(ctx.wait(data), i == 0 ? 10 : i == 1 ? 100 : 1000);
  }
  ctx.finalize();
}

TEST_F(Context, FenceIsAStreamThatEndsWhenEverythingSubmittedHasEnded) {
  const gate hold;
  auto done = std::make_shared<std::vector<int>>();
  const auto order = ctx.token();
  ctx.task(order.rw(), [hold, done] {
    hold.wait();
    done->push_back(1);
  });
  const ms::stream end = ctx.fence();
  EXPECT_EQ(end.get(), nullptr);
  EXPECT_NE(end.number(), 0U);
  hold.open();
  end.synchronize();
  EXPECT_EQ(done->size(), 1U);
}

TEST_F(Context, StatsCountTasks) {
  const auto order = ctx.token();
  for (int i = 0; i < 5; ++i)
    ctx.task(order.rw(), [] {});
  ctx.finalize();
  EXPECT_EQ(ctx.stats().tasks, 5U);
  EXPECT_EQ(ctx.stats().failed, 0U);
}

TEST_F(Context, ListenerSeesNamesKindsAndLines) {
  ms::context_options options;
  options.on = host_machine();
  const auto recorder = ms::make_trace_recorder();
  options.listener = recorder;
  ms::context traced(std::move(options));
  const auto x = traced.logical_data<int>(3).set_symbol("x");
  traced.parallel_for({.symbol = "fill in"}, 3, x.write(), [](auto i, auto v) { v[i] = 1; });
  traced.host_launch({.symbol = "look"}, x.read(), [](auto) {});
  traced.task(x.read(), [](auto) {});
  traced.finalize();
  std::vector<ms::task_kind> kinds;
  for (const auto& node : recorder->snapshot().nodes) {
    if (node.is_copy) continue;
    kinds.push_back(node.kind);
    EXPECT_NE(std::string(node.site.file).find("context_test.cpp"), std::string::npos);
  }
  EXPECT_EQ(kinds, (std::vector<ms::task_kind>{ms::task_kind::parallel_for,
                                               ms::task_kind::host_launch, ms::task_kind::task}));
}

TEST(NullContext, RunsNothingAndCountsTasks) {
  ms::context ctx(ms::machine({.name = "null", .devices = 1, .seed = {}}));
  auto runs = std::make_shared<int>(0);
  const auto x = ctx.logical_data<double>(8);
  ctx.task(x.write(), [runs](auto) { ++*runs; });
  ctx.parallel_for(x.shape(), x.rw(), [runs](auto, auto) { ++*runs; });
  ctx.finalize();
  EXPECT_EQ(*runs, 0);
  EXPECT_EQ(runs.use_count(), 1);
  EXPECT_EQ(ctx.stats().tasks, 2U);
}
