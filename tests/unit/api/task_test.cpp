// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <memory>
#include <string>
#include <vector>

using Task = Api;

TEST_F(Task, BodyGetsOneViewPerDependencyTokensLeftOut) {
  std::vector<int> x{1, 2};
  std::vector<int> y{10, 20};
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  const auto order = ctx.token();
  ctx.task(order.read(), lx.read(), order.rw(), ly.rw(),
           [](ms::view<const int> in, const ms::view<int>& out) {
             for (std::size_t i = 0; i < in.size(); ++i)
               out[i] += in[i];
           });
  ctx.finalize();
  EXPECT_EQ(y, (std::vector<int>{11, 22}));
}

TEST_F(Task, StreamIsAnOptionalFirstParameterAndNullOnHostDevices) {
  auto seen = std::make_shared<std::vector<ms::stream>>();
  const auto order = ctx.token();
  ctx.task(ms::exec_place::device(1), order.rw(), [seen](ms::stream s) { seen->push_back(s); });
  ctx.task(ms::exec_place::host(), order.rw(), [seen](const ms::stream& s) { seen->push_back(s); });
  ctx.finalize();
  ASSERT_EQ(seen->size(), 2U);
  EXPECT_EQ((*seen)[0].get(), nullptr);
  EXPECT_NE((*seen)[0].number(), 0U);
  EXPECT_EQ((*seen)[0].device(), 1);
  EXPECT_EQ((*seen)[1].device(), -1);
}

TEST_F(Task, TaskWithoutPlaceRunsOnDeviceZero) {
  int device = -5;
  const auto where = ctx.logical_data(device);
  ctx.task(where.write(), [](ms::stream s, auto v) { *v = s.device(); });
  ctx.finalize();
  EXPECT_EQ(device, 0);
}

TEST_F(Task, TaskNeedsNoDependencies) {
  auto runs = std::make_shared<int>(0);
  ctx.task([runs] { ++*runs; });
  ctx.finalize();
  EXPECT_EQ(*runs, 1);
}

TEST_F(Task, ResultOfABodyIsIgnored) {
  int value = 1;
  const auto data = ctx.logical_data(value);
  ctx.task(data.rw(), [](auto v) { return *v += 1; });
  ctx.finalize();
  EXPECT_EQ(value, 2);
}

TEST_F(Task, BodyMayOwnWhatCannotBeCopied) {
  int value = 0;
  const auto data = ctx.logical_data(value);
  auto body = [owned = std::make_unique<int>(42)](auto v) { *v = *owned; };
  ctx.task(data.write(), std::move(body));
  ctx.finalize();
  EXPECT_EQ(value, 42);
}

TEST_F(Task, BodyIsDestroyedOnceItHasRun) {
  auto owned = std::make_shared<int>(0);
  ctx.task([owned] {});
  ctx.finalize();
  EXPECT_EQ(owned.use_count(), 1);
}

TEST_F(Task, DependencyMayBeKeptAndUsedTwice) {
  int value = 0;
  const auto data = ctx.logical_data(value);
  const auto access = data.rw();
  for (int i = 0; i < 2; ++i)
    ctx.task(access, [](auto v) { ++*v; });
  ctx.finalize();
  EXPECT_EQ(value, 2);
}

TEST_F(Task, FreeFunctionMayBeABody) {
  int value = 0;
  const auto data = ctx.logical_data(value);
  void (*const body)(ms::view<int, 0>) = [](ms::view<int, 0> v) { *v = 9; };
  ctx.task(data.write(), body);
  ctx.finalize();
  EXPECT_EQ(value, 9);
}

TEST_F(Task, SameDataTwiceInOneTaskIsOneMergedAccess) {
  int value = 0;
  const auto data = ctx.logical_data(value);
  auto same = std::make_shared<int>(0);
  const auto body = [same](auto a, auto b) {
    *same += static_cast<const int*>(a.data()) == b.data();
  };
  const auto add = [](auto v) { ++*v; };
  ctx.task(data.read(), data.rw(), [body, add](auto a, auto b) { body(a, b), add(b); });
  ctx.task(data.rw(), data.read(), [body, add](auto a, auto b) { body(a, b), add(a); });
  ctx.task(data.write(), data.read(), [body, add](auto a, auto b) { body(a, b), add(a); });
  ctx.finalize();
  EXPECT_EQ(*same, 3);
  EXPECT_EQ(value, 3);
}

TEST_F(Task, SameDataAtTwoPlacesInOneTaskIsRefused) {
  int value = 0;
  const auto data = ctx.logical_data(value).set_symbol("torn");
  const auto body = [](auto, auto) {};
  EXPECT_ERROR(
      ms::errc::invalid_value, "torn",
      ctx.task(data.read(ms::data_place::device(0)), data.rw(ms::data_place::device(1)), body));
  ctx.finalize();
}

namespace {

/// Returns before the loop it submits has run, so that nothing of its frame is left then.
void submit_delayed(ms::context& ctx, const gate& hold, const ms::logical_data<double, 0>& sum,
                    const ms::logical_data<int, 0>& equal) {
  ctx.task(sum.rw(), equal.rw(), [hold](auto, auto) { hold.wait(); });
  const std::vector<double> weights(1000, 0.5);
  const std::string text(200, 'q');
  ctx.parallel_for(1000, sum.rw(), equal.rw(),
                   [weights, text](std::size_t i, auto total, auto same) {
                     *total += weights[i];
                     *same += text == std::string(200, 'q');
                   });
}

}  // namespace

TEST_F(Task, StateCapturedByValueOutlivesTheSubmittingFunction) {
  const gate hold;
  open_at_exit guard(hold);
  double total = 0;
  int same = 0;
  const auto sum = ctx.logical_data(total);
  const auto equal = ctx.logical_data(same);
  submit_delayed(ctx, hold, sum, equal);
  const std::vector<double> overwrites_the_old_heap(1000, -1.0);
  guard.open();
  ctx.finalize();
  EXPECT_EQ(total, 500.0);
  EXPECT_EQ(same, 1000);
}

TEST_F(Task, WorkOnDifferentDevicesSeesTheSameValues) {
  std::vector<int> values(100, 1);
  const auto data = ctx.logical_data(values);
  for (int device : {0, 1, 0, 1}) {
    ctx.task(ms::exec_place::device(device), data.rw(), [](auto v) {
      for (int& value : v)
        value *= 3;
    });
  }
  ctx.finalize();
  EXPECT_EQ(values, std::vector<int>(100, 81));
}

TEST_F(Task, BodyMaySubmitFurtherTasksThroughAContextRef) {
  int value = 0;
  const auto data = ctx.logical_data(value);
  ms::context_ref ref = ctx;
  ctx.task([ref, data]() mutable { ref.task(data.rw(), [](auto v) { *v = 5; }); });
  ctx.finalize();
  EXPECT_EQ(value, 5);
}

TEST_F(Task, HostLaunchRunsOnTheHostWithHostViews) {
  std::vector<int> values{1, 2, 3};
  int device = 7;
  const auto data = ctx.logical_data(values);
  const auto where = ctx.logical_data(device);
  ctx.task(ms::exec_place::device(1), data.rw(), [](auto v) { v[0] = 10; });
  ctx.host_launch({.symbol = "look"}, data.read(), where.write(),
                  [](ms::stream s, auto v, auto w) { *w = v[0] + s.device(); });
  ctx.finalize();
  EXPECT_EQ(device, 9);
}

TEST_F(Task, HostLaunchRefusesADevice) {
  EXPECT_ERROR(ms::errc::invalid_value, "leave the place out",
               ctx.host_launch({.place = ms::exec_place::device(1)}, [] {}));
}

TEST_F(Task, DeviceThatDoesNotExistIsRefused) {
  EXPECT_THROW(ctx.task(ms::exec_place::device(99), [] {}), ms::error);
  EXPECT_THROW(ctx.parallel_for(ms::exec_place::device(99), 3, [](auto) {}), ms::error);
}
