// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <complex>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

using Data = Api;

namespace {

struct point {
  float x = 0;
  float y = 0;
};

/// Adds one to every element and returns what the buffer then holds.
template <class Handle>
void add_one(ms::context& ctx, const Handle& data) {
  ctx.task(data.rw(), [](auto v) {
    for (auto& value : v.flat())
      value += 1;
  });
}

}  // namespace

TEST_F(Data, VectorSpanAndArraysAreWrittenBack) {
  std::vector<double> vector{1, 2, 3};
  std::vector<int> seen_as_span{4, 5};
  std::array<float, 2> array{6, 7};
  long c_array[2][2] = {{1, 2}, {3, 4}};
  add_one(ctx, ctx.logical_data(vector));
  add_one(ctx, ctx.logical_data(std::span(seen_as_span)));
  add_one(ctx, ctx.logical_data(array));
  const auto matrix = ctx.logical_data(c_array);
  static_assert(decltype(matrix)::rank == 2);
  add_one(ctx, matrix);
  ctx.finalize();
  EXPECT_EQ(vector, (std::vector<double>{2, 3, 4}));
  EXPECT_EQ(seen_as_span, (std::vector<int>{5, 6}));
  EXPECT_EQ(array, (std::array<float, 2>{7, 8}));
  EXPECT_EQ(c_array[1][0], 4);
}

TEST_F(Data, PointerTakesUpToFourExtents) {
  std::vector<int> values(24);
  int* const p = values.data();
  EXPECT_EQ(ctx.logical_data(p, 24).shape(), ms::shape(24));
  EXPECT_EQ(ctx.logical_data(p, 4, 6).shape(), ms::shape(4, 6));
  EXPECT_EQ(ctx.logical_data(p, 2, 3, 4).shape(), ms::shape(2, 3, 4));
  EXPECT_EQ(ctx.logical_data(p, 1, 2, 3, 4).shape(), ms::shape(1, 2, 3, 4));
  EXPECT_EQ(ctx.logical_data(p, ms::shape(6, 4), ms::data_place::host()).shape().extents(),
            (std::array<std::size_t, 2>{6, 4}));
  EXPECT_EQ(ctx.logical_data(p, std::array<std::size_t, 2>{3, 8}).size(), 24U);
  ctx.finalize();
}

TEST_F(Data, ScalarsAndStructsHaveRankZero) {
  double number = 3.0;
  point where;
  std::complex<double> z{1.0, 2.0};
  const auto l_number = ctx.logical_data(number);
  const auto l_where = ctx.logical_data(where);
  const auto l_z = ctx.logical_data(z);
  static_assert(decltype(l_number)::rank == 0);
  ctx.task(l_number.rw(), l_where.rw(), l_z.rw(), [](auto n, auto w, auto c) {
    *n += 1.0;
    (*w).x = 5.0F;
    *c *= 2.0;
  });
  ctx.finalize();
  EXPECT_EQ(number, 4.0);
  EXPECT_EQ(where.x, 5.0F);
  EXPECT_EQ(z, std::complex<double>(2.0, 4.0));
}

TEST_F(Data, ConstElementsAreRegisteredReadOnly) {
  const std::vector<int> input{1, 2, 3};
  std::vector<int> output(3);
  const auto l_input = ctx.logical_data(input);
  static_assert(
      std::is_same_v<std::remove_const_t<decltype(l_input)>, ms::logical_data<const int, 1>>);
  EXPECT_TRUE(l_input.is_readonly());
  ctx.task(l_input.read(), ctx.logical_data(output).write(),
           [](ms::view<const int> in, ms::view<int> out) {
             for (std::size_t i = 0; i < in.size(); ++i)
               out[i] = 2 * in[i];
           });
  ctx.finalize();
  EXPECT_EQ(input, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(output, (std::vector<int>{2, 4, 6}));
}

TEST_F(Data, ReadOnlyDataRefusesToBeWrittenThroughAnUntypedHandle) {
  const std::vector<int> input{1};
  const ms::untyped_data raw = ctx.logical_data(input);
  EXPECT_ERROR(ms::errc::invalid_value, "read-only", static_cast<void>(raw.write()));
  EXPECT_ERROR(ms::errc::invalid_value, "read-only", static_cast<void>(raw.rw()));
  ctx.finalize();
}

TEST_F(Data, ShapeOnlyDataComesFromExtentsOrFromAShape) {
  const auto a = ctx.logical_data<double>(0, 4);
  const auto b = ctx.logical_data(ms::shape_of<float>(2, 3, 4));
  const auto c = ctx.logical_data<int>();
  const auto d = ctx.logical_data<double>(5);
  static_assert(std::is_same_v<std::remove_const_t<decltype(a)>, ms::logical_data<double, 2>>);
  static_assert(std::is_same_v<std::remove_const_t<decltype(b)>, ms::logical_data<float, 3>>);
  static_assert(std::is_same_v<std::remove_const_t<decltype(c)>, ms::logical_data<int, 0>>);
  EXPECT_EQ(a.bytes(), 0U);
  EXPECT_EQ(b.bytes(), 96U);
  EXPECT_EQ(c.bytes(), 4U);
  EXPECT_EQ(d.bytes(), 40U);
  EXPECT_FALSE(b.is_written());
}

TEST_F(Data, ValuesAndMovedVectorsAreOwnedByTheContext) {
  auto scalar = ctx.logical_data(2.5);
  auto moved = ctx.logical_data(std::vector<int>{1, 2, 3});
  add_one(ctx, scalar);
  add_one(ctx, moved);
  EXPECT_EQ(ctx.wait(scalar), 3.5);
  EXPECT_EQ(ctx.wait(moved)[2], 4);
}

TEST_F(Data, SharedOwnerIsKeptWhileWorkMayTouchTheBuffer) {
  const gate hold;
  open_at_exit guard(hold);
  auto values = std::make_shared<std::vector<int>>(std::vector<int>{1, 2});
  const std::weak_ptr<std::vector<int>> watch = values;
  {
    const auto data = ctx.logical_data(std::move(values));
    ctx.task(data.rw(), [hold](auto v) {
      hold.wait();
      v[0] = 7;
    });
  }
  EXPECT_FALSE(watch.expired());
  guard.open();
  ctx.finalize();
  EXPECT_TRUE(watch.expired());
}

TEST(SharedArrays, ConstOnesAreReadOnly) {
  ms::context ctx(host_machine());
  const std::shared_ptr<const int[]> values(new int[2]{3, 4});
  const ms::logical_data<const int> data = ctx.logical_data(values, ms::shape<1>(2));
  EXPECT_EQ(ctx.wait(data)[1], 4);
}

TEST_F(Data, SharedArrayTakesAShape) {
  std::shared_ptr<int[]> values(new int[6]{1, 2, 3, 4, 5, 6});
  const auto data = ctx.logical_data(values, ms::shape(2, 3));
  add_one(ctx, data);
  ctx.finalize();
  EXPECT_EQ(values[5], 7);
}

TEST_F(Data, NullSharedVectorIsRefused) {
  EXPECT_ERROR(ms::errc::invalid_value, "null",
               static_cast<void>(ctx.logical_data(std::shared_ptr<std::vector<int>>())));
}

TEST_F(Data, ViewWithGapsIsRefusedWithAdvice) {
  std::vector<int> values(20);
  const ms::view<int, 2> whole(values.data(), {4, 5});
  EXPECT_EQ(ctx.logical_data(whole).shape(), ms::shape(4, 5));
  EXPECT_ERROR(ms::errc::invalid_value, "copy it into contiguous memory first",
               static_cast<void>(ctx.logical_data(whole.block({0, 0}, {2, 2}))));
  ctx.finalize();
}

TEST_F(Data, ZeroSizedShapesKeepTheirShapeAndAreNoOps) {
  std::vector<int> none;
  auto seen = std::make_shared<std::vector<std::size_t>>();
  const auto line = ctx.logical_data(none);
  const auto wide = ctx.logical_data<double>(0, 4);
  const auto tall = ctx.logical_data(static_cast<float*>(nullptr), 3, 0);
  ctx.task(line.rw(), wide.write(), tall.read(), [seen](auto a, auto b, auto c) {
    *seen = {a.size(), b.extent(0), b.extent(1), c.extent(0), c.extent(1)};
  });
  EXPECT_EQ(ctx.wait(line).size(), 0U);
  EXPECT_EQ(ctx.wait(wide).extent(1), 4U);
  ctx.finalize();
  EXPECT_EQ(*seen, (std::vector<std::size_t>{0, 0, 4, 3, 0}));
}

TEST_F(Data, RankZeroValueGoesThroughATaskAsRankZero) {
  double value = 3.0;
  const auto data = ctx.logical_data(value);
  ctx.task(data.rw(), [](ms::view<double, 0> v) { *v += 1.0; });
  const double result = ctx.wait(data);
  EXPECT_EQ(result, 4.0);
  ctx.finalize();
}

TEST_F(Data, ReadBeforeAnythingIsWrittenNamesTheData) {
  const auto data = ctx.logical_data<double>(4).set_symbol("fresh");
  EXPECT_ERROR(ms::errc::not_written, "fresh", ctx.task(data.read(), [](auto) {}));
  EXPECT_ERROR(ms::errc::not_written, "fresh", ctx.task(data.rw(), [](auto) {}));
  EXPECT_ERROR(ms::errc::not_written, "fresh", static_cast<void>(ctx.wait(data)));
  ctx.fill(data, 1.0);
  EXPECT_EQ(ctx.wait(data)[3], 1.0);
}

TEST_F(Data, TokenMayBeReadAtOnce) {
  const auto order = ctx.token().set_symbol("order");
  int runs = 0;
  const auto count = ctx.logical_data(runs);
  ctx.task(order.read(), count.rw(), [](auto n) { ++*n; });
  ctx.wait(order);
  ctx.finalize();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(order.symbol(), "order");
}

TEST_F(Data, SymbolIsKeptByTheHandleItIsGivenTo) {
  std::vector<int> values(2);
  const auto data = ctx.logical_data(values).set_symbol("v");
  EXPECT_EQ(data.symbol(), "v");
  ctx.finalize();
}

TEST_F(Data, ShapeLargerThanMemoryCanBeIsRefused) {
  const auto huge = std::numeric_limits<std::size_t>::max() / 2;
  EXPECT_ERROR(ms::errc::invalid_value, "larger than memory",
               static_cast<void>(ctx.logical_data<double>(huge, 4)));
}

TEST_F(Data, TypeForAnUntypedHandleMustFitItsSize) {
  std::vector<float> values(6);
  const ms::untyped_data raw = ctx.logical_data(values).set_symbol("raw");
  const ms::logical_data<float, 2> typed(raw, ms::shape(2, 3));
  EXPECT_EQ(typed.size(), 6U);
  EXPECT_ERROR(ms::errc::invalid_value, "'raw' has 24 bytes",
               static_cast<void>(ms::logical_data<double, 2>(raw, ms::shape(2, 3))));
  ctx.finalize();
}

TEST_F(Data, FillSetsEveryElement) {
  const auto line = ctx.logical_data<std::uint8_t>(5);
  const auto plane = ctx.logical_data<std::complex<double>>(2, 3);
  ctx.fill(line, 7);
  ctx.fill(plane, {1.5, -2.0}, {.symbol = "clear", .place = ms::exec_place::device(1)});
  const auto bytes = ctx.wait(line);
  const auto numbers = ctx.wait(plane);
  for (const std::uint8_t value : bytes)
    EXPECT_EQ(value, 7);
  for (const auto& value : numbers)
    EXPECT_EQ(value, std::complex<double>(1.5, -2.0));
}
