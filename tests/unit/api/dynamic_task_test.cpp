// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <stdexcept>
#include <vector>

using DynamicTask = Api;

TEST_F(DynamicTask, DependenciesAreAddedOneByOne) {
  std::vector<std::vector<int>> inputs{{1}, {2}, {3}};
  int total = 0;
  const auto sum = ctx.logical_data(total);
  auto t = ctx.task({.symbol = "gather"});
  for (auto& input : inputs)
    t.add_deps(ctx.logical_data(input).read());
  t.add_deps(sum.rw());
  t.start();
  const auto s = t.get<ms::view<int, 0>>(3);
  for (std::size_t i = 0; i < 3; ++i)
    *s += t.get<ms::view<const int>>(i)[0];
  t.end();
  EXPECT_EQ(t.name(), "task 'gather'");
  ctx.finalize();
  EXPECT_EQ(total, 6);
}

TEST_F(DynamicTask, TokensCountAsDependenciesButHaveNoView) {
  int value = 1;
  const auto data = ctx.logical_data(value);
  const auto order = ctx.token();
  auto t = ctx.task();
  t.add_deps(order.rw(), data.rw());
  t.start();
  *t.get<ms::view<int, 0>>(1) = 2;
  EXPECT_ERROR(ms::errc::usage, "token", static_cast<void>(t.get<ms::view<int, 0>>(0)));
  t.end();
  ctx.finalize();
  EXPECT_EQ(value, 2);
}

TEST_F(DynamicTask, WaitsUntilItsDataAreReadyOnItsPlace) {
  std::vector<int> values{1, 2, 3};
  const auto data = ctx.logical_data(values);
  ctx.task(ms::exec_place::device(0), data.rw(), [](auto v) { v[2] = 30; });
  auto t = ctx.task(ms::exec_place::device(1));
  t.add_deps(data.read()).start();
  EXPECT_EQ(t.get<ms::view<const int>>(0)[2], 30);
  EXPECT_EQ(t.get_stream().device(), 1);
  t.end();
  ctx.finalize();
}

TEST_F(DynamicTask, ViewOfAnotherTypeIsRefusedWithTheRightOne) {
  std::vector<double> values(6);
  const auto data = ctx.logical_data(values.data(), 2, 3);
  auto t = ctx.task({.symbol = "t"});
  t.add_deps(data.read(), data.read());
  t.start();
  const auto index = [&t](auto view) { static_cast<void>(t.get<decltype(view)>(0)); };
  EXPECT_ERROR(ms::errc::invalid_type, "get<view<const double, 2>>(0)",
               index(ms::view<const float, 2>()));
  EXPECT_ERROR(ms::errc::invalid_type, "view<const double, 2>", index(ms::view<const double>()));
  EXPECT_ERROR(ms::errc::invalid_type, "as view<double, 2>", index(ms::view<double, 2>()));
  EXPECT_ERROR(ms::errc::out_of_range, "2", static_cast<void>(t.get<ms::view<const double, 2>>(2)));
  EXPECT_EQ((t.get<ms::view<const double, 2>>(0).extent(1)), 3U);
  t.end();
  ctx.finalize();
}

TEST_F(DynamicTask, ViewsAreOnlyThereWhileTheTaskIsOpen) {
  int value = 1;
  const auto data = ctx.logical_data(value);
  auto t = ctx.task();
  t.add_deps(data.rw());
  EXPECT_ERROR(ms::errc::usage, "", static_cast<void>(t.get<ms::view<int, 0>>(0)));
  t.start();
  EXPECT_TRUE(t.is_open());
  t.end();
  EXPECT_TRUE(t.is_ended());
  EXPECT_ERROR(ms::errc::usage, "", static_cast<void>(t.get<ms::view<int, 0>>(0)));
  EXPECT_ERROR(ms::errc::usage, "", t.add_deps(data.read()));
  ctx.finalize();
}

TEST_F(DynamicTask, LeavingByAnExceptionPoisonsTheOutputs) {
  int value = 1;
  int other = 0;
  const auto data = ctx.logical_data(value).set_symbol("half");
  const auto unrelated = ctx.logical_data(other);
  const auto throws = [&] {
    auto t = ctx.task();
    t.add_deps(data.rw());
    t.start();
    *t.get<ms::view<int, 0>>(0) = 99;
    throw std::runtime_error("half way");
  };
  EXPECT_THROW(throws(), std::runtime_error);
  ctx.task(data.read(), unrelated.rw(), [](auto, auto v) { *v = -1; });
  EXPECT_ERROR(ms::errc::poisoned, "half", static_cast<void>(ctx.wait(data)));
  ctx.task(data.write(), [](auto v) { *v = 3; });
  EXPECT_EQ(ctx.wait(data), 3);
  ctx.finalize();
}

TEST_F(DynamicTask, SecondConflictingTaskInOneThreadIsRefused) {
  int value = 1;
  const auto data = ctx.logical_data(value);
  auto first = ctx.task({.symbol = "first"});
  auto second = ctx.task({.symbol = "second"});
  first.add_deps(data.rw());
  second.add_deps(data.rw());
  first.start();
  EXPECT_ERROR(ms::errc::usage, "first", second.start());
  first.end();
  ctx.finalize();
}

TEST_F(DynamicTask, ViewsOfManyDependenciesMoveWithIt) {
  std::vector<std::vector<int>> inputs;
  for (int i = 0; i < 20; ++i)
    inputs.push_back(std::vector<int>(static_cast<std::size_t>(i) + 1, i));
  auto first = ctx.task();
  for (auto& input : inputs)
    first.add_deps(ctx.logical_data(input).read());
  auto second = std::move(first);
  auto t = ctx.task();
  t = std::move(second);
  t.start();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto view = t.get<ms::view<const int>>(i);
    EXPECT_EQ(view.size(), i + 1);
    EXPECT_EQ(view[i], static_cast<int>(i));
  }
  t.end();
}

TEST_F(DynamicTask, AnAccessThatIsKeptCanBeAddedAgain) {
  int value = 7;
  const auto data = ctx.logical_data(value);
  const auto access = data.read();
  for (int i = 0; i < 2; ++i) {
    auto t = ctx.task();
    t.add_deps(access).start();
    EXPECT_EQ(*(t.get<ms::view<const int, 0>>(0)), 7);
    t.end();
  }
}
