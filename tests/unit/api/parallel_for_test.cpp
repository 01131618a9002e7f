// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <limits>
#include <numeric>
#include <string>
#include <vector>

using ParallelFor = Api;

TEST_F(ParallelFor, BodyGetsRowMajorCoordinatesAndThenViews) {
  int m[2][3] = {};
  const auto data = ctx.logical_data(m);
  ctx.parallel_for(data.shape(), data.write(), [](std::size_t i, std::size_t j, auto v) {
    v(i, j) = static_cast<int>(10 * i + j);
  });
  ctx.finalize();
  EXPECT_EQ(m[0][2], 2);
  EXPECT_EQ(m[1][0], 10);
}

TEST_F(ParallelFor, GoesOverABox) {
  std::vector<int> values(25, 0);
  const auto data = ctx.logical_data(values.data(), 5, 5);
  ctx.parallel_for(ms::box({1, 4}, {2, 5}), data.rw(), [](auto i, auto j, auto v) { v(i, j) = 1; });
  ctx.finalize();
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), 9);
  EXPECT_EQ(values[5 * 1 + 2], 1);
  EXPECT_EQ(values[5 * 3 + 4], 1);
}

TEST_F(ParallelFor, GoesOverANumberOfIterationsOnAnyPlace) {
  std::vector<int> values(4, 0);
  const auto data = ctx.logical_data(values);
  const auto add = [](std::size_t i, auto v) { v[i] += 1; };
  ctx.parallel_for(4, data.rw(), add);
  ctx.parallel_for(ms::exec_place::device(1), 3, data.rw(), add);
  ctx.parallel_for({.symbol = "loop", .place = ms::exec_place::host()}, 2U, data.rw(), add);
  ctx.finalize();
  EXPECT_EQ(values, (std::vector<int>{3, 3, 2, 1}));
}

TEST_F(ParallelFor, FourDimensionsAndNone) {
  int steps = 0;
  const auto count = ctx.logical_data(steps);
  ctx.parallel_for(ms::shape(2, 3, 4, 5), count.rw(),
                   [](auto, auto, auto, auto, auto n) { *n += 1; });
  ctx.parallel_for(ms::shape(), count.rw(), [](auto n) { *n += 1; });
  ctx.finalize();
  EXPECT_EQ(steps, 121);
}

TEST_F(ParallelFor, NegativeNumberOfIterationsIsRefused) {
  EXPECT_ERROR(ms::errc::invalid_value, "negative extent -1", ctx.parallel_for(-1, [](auto) {}));
}

TEST_F(ParallelFor, SumOverwritesItsTarget) {
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 1);
  long total = 77;
  const auto data = ctx.logical_data(values);
  const auto sum = ctx.logical_data(total);
  ctx.parallel_for(data.shape(), data.read(), sum.reduce(ms::reducer::sum<long>{}),
                   [](auto i, auto v, long& partial) { partial += v[i]; });
  ctx.finalize();
  EXPECT_EQ(total, 500500);
}

TEST_F(ParallelFor, AccumulateCombinesWithTheValueThatIsThere) {
  std::vector<int> values(10, 2);
  long total = 77;
  const auto data = ctx.logical_data(values);
  const auto sum = ctx.logical_data(total);
  ctx.parallel_for(data.shape(), data.read(), sum.reduce(ms::reducer::sum<long>{}, ms::accumulate),
                   [](auto i, auto v, long& partial) { partial += v[i]; });
  ctx.finalize();
  EXPECT_EQ(total, 97);
}

TEST_F(ParallelFor, SeveralReductionsInOneLoop) {
  std::vector<double> values{3, -7, 5, 2};
  const auto data = ctx.logical_data(values);
  const auto least = ctx.logical_data<double>();
  const auto greatest = ctx.logical_data<double>(1);
  const auto product = ctx.logical_data<double>();
  ctx.parallel_for(data.shape(), least.reduce(ms::reducer::min<double>{}), data.read(),
                   greatest.reduce(ms::reducer::max<double>{}),
                   product.reduce(ms::reducer::product<double>{}),
                   [](auto i, double& low, auto v, double& high, double& all) {
                     low = v[i] < low ? v[i] : low;
                     high = v[i] > high ? v[i] : high;
                     all *= v[i];
                   });
  EXPECT_EQ(ctx.wait(least), -7.0);
  EXPECT_EQ(ctx.wait(greatest)[0], 5.0);
  EXPECT_EQ(ctx.wait(product), -210.0);
  ctx.finalize();
}

TEST_F(ParallelFor, EmptyLoopStoresTheIdentity) {
  const auto sum = ctx.logical_data<double>();
  const auto product = ctx.logical_data<double>();
  const auto least = ctx.logical_data<double>();
  const auto greatest = ctx.logical_data<int>();
  ctx.parallel_for(
      ms::shape(0, 4), sum.reduce(ms::reducer::sum<double>{}),
      product.reduce(ms::reducer::product<double>{}), least.reduce(ms::reducer::min<double>{}),
      greatest.reduce(ms::reducer::max<int>{}), [](auto, auto, double&, double&, double&, int&) {});
  EXPECT_EQ(ctx.wait(sum), 0.0);
  EXPECT_EQ(ctx.wait(product), 1.0);
  EXPECT_EQ(ctx.wait(least), std::numeric_limits<double>::infinity());
  EXPECT_EQ(ctx.wait(greatest), std::numeric_limits<int>::lowest());
}

TEST_F(ParallelFor, EmptyLoopThatAccumulatesKeepsTheValue) {
  double value = 12.5;
  const auto data = ctx.logical_data(value);
  ctx.parallel_for(0, data.reduce(ms::reducer::product<double>{}, ms::accumulate),
                   [](auto, double& partial) { partial = 0; });
  EXPECT_EQ(ctx.wait(data), 12.5);
  ctx.finalize();
}

TEST_F(ParallelFor, EmptyLoopStillOrders) {
  const gate hold;
  open_at_exit guard(hold);
  int value = 0;
  const auto data = ctx.logical_data(value);
  const auto result = ctx.logical_data<int>();
  ctx.task(data.rw(), [hold](auto v) { hold.wait(), *v = 1; });
  ctx.parallel_for(0, data.rw(), [](auto, auto) {});
  ctx.task(ms::exec_place::device(1), data.read(), result.write(),
           [](auto from, auto to) { *to = *from; });
  guard.open();
  EXPECT_EQ(ctx.wait(result), 1);
  ctx.finalize();
}

namespace {

/// Keeps the greatest value and where it is.
struct place_of_greatest {
  struct entry {
    double value;
    std::size_t at;
  };
  [[nodiscard]] entry identity() const { return {-1e300, 0}; }
  [[nodiscard]] entry operator()(const entry& a, const entry& b) const {
    return b.value > a.value ? b : a;
  }
};

}  // namespace

TEST_F(ParallelFor, OperatorOfTheUser) {
  std::vector<double> values{3, 9, 5};
  const auto data = ctx.logical_data(values);
  const auto best = ctx.logical_data<place_of_greatest::entry>();
  const place_of_greatest op;
  ctx.parallel_for(data.shape(), data.read(), best.reduce(op),
                   [op](std::size_t i, auto v, place_of_greatest::entry& partial) {
                     partial = op(partial, {v[i], i});
                   });
  const auto result = ctx.wait(best);
  EXPECT_EQ(result.value, 9.0);
  EXPECT_EQ(result.at, 1U);
  ctx.finalize();
}

TEST_F(ParallelFor, ReductionIsOrderedAsAWrite) {
  std::vector<int> values(8, 1);
  int total = 0;
  const auto data = ctx.logical_data(values);
  const auto sum = ctx.logical_data(total);
  for (int round = 0; round < 3; ++round) {
    ctx.parallel_for(ms::exec_place::device(round % 2), data.shape(), data.read(),
                     sum.reduce(ms::reducer::sum<int>{}, ms::accumulate),
                     [](auto i, auto v, int& partial) { partial += v[i]; });
    ctx.task(sum.read(), data.rw(), [](auto s, auto v) { v[0] += *s; });
  }
  // 8, then 8 + (8 + 8) = 24, then 24 + (8 + 8 + 24) = 64
  EXPECT_EQ(ctx.wait(sum), 64);
  ctx.finalize();
}

TEST_F(ParallelFor, TargetOfAReductionHasOneElement) {
  const auto data = ctx.logical_data<double>(10).set_symbol("many");
  EXPECT_ERROR(ms::errc::invalid_value, "'many' has 10 elements",
               static_cast<void>(data.reduce(ms::reducer::sum<double>{})));
}

TEST_F(ParallelFor, TwoReductionsIntoOneDatumAreRefused) {
  const auto data = ctx.logical_data<double>().set_symbol("sum");
  const auto op = ms::reducer::sum<double>{};
  EXPECT_ERROR(ms::errc::usage, "reduces twice into data 'sum'",
               ctx.parallel_for(3, data.reduce(op), data.reduce(op), [](auto, auto&, auto&) {}));
}

TEST_F(ParallelFor, AccumulateNeedsAValue) {
  const auto data = ctx.logical_data<double>().set_symbol("fresh");
  const auto op = ms::reducer::sum<double>{};
  EXPECT_ERROR(ms::errc::not_written, "fresh",
               ctx.parallel_for(3, data.reduce(op, ms::accumulate), [](auto, auto&) {}));
}

TEST_F(ParallelFor, BodyThatThrowsFailsTheWholeLoop) {
  const auto data = ctx.logical_data<int>(4).set_symbol("x");
  ctx.parallel_for({.symbol = "faulty"}, 4, data.write(), [](auto i, auto v) {
    if (i == 2) throw std::runtime_error("boom at 2");
    v[i] = 1;
  });
  EXPECT_ERROR(ms::errc::task_failed, "boom at 2", static_cast<void>(ctx.wait(data)));
}
