// SPDX-License-Identifier: Apache-2.0
#define MILLSTREAM_BOUNDS_CHECK 1
#include "support.hpp"

#include <array>
#include <numeric>
#include <type_traits>

namespace {

/// 0, 1, 2, ...
template <std::size_t Count>
std::array<int, Count> counted() {
  std::array<int, Count> values{};
  std::iota(values.begin(), values.end(), 0);
  return values;
}

}  // namespace

TEST(View, IsRowMajor) {
  auto values = counted<24>();
  const ms::view<int, 3> v(values.data(), {2, 3, 4});
  EXPECT_EQ(v(0, 0, 1), 1);
  EXPECT_EQ(v(0, 1, 0), 4);
  EXPECT_EQ(v(1, 2, 3), 23);
  EXPECT_EQ(v.stride(0), 12U);
  EXPECT_EQ(v.stride(2), 1U);
  EXPECT_EQ(v.size(), 24U);
}

TEST(View, RankZeroIsOneElement) {
  double value = 3.0;
  const ms::view<double, 0> v(&value, {});
  *v += 1.0;
  EXPECT_EQ(v(), 4.0);
  EXPECT_EQ(v.size(), 1U);
}

TEST(View, IsSmallAndTriviallyCopyable) {
  static_assert(std::is_trivially_copyable_v<ms::view<double, 4>>);
  static_assert(sizeof(ms::view<double, 0>) == sizeof(void*));
  static_assert(sizeof(ms::view<double, 1>) == 2 * sizeof(void*));
  static_assert(sizeof(ms::view<double, 2>) == 4 * sizeof(void*));
  static_assert(std::is_convertible_v<ms::view<double, 2>, ms::view<const double, 2>>);
  static_assert(!std::is_convertible_v<ms::view<const double, 2>, ms::view<double, 2>>);
}

TEST(View, RowDropsTheFirstDimension) {
  auto values = counted<24>();
  const ms::view<int, 3> v(values.data(), {2, 3, 4});
  const ms::view<int, 2> plane = v.row(1);
  EXPECT_EQ(plane(0, 0), 12);
  EXPECT_EQ(plane.row(2)[3], 23);
  EXPECT_EQ(plane.row(2).row(1)(), 21);
  EXPECT_ERROR(ms::errc::out_of_range, "index 2 is outside dimension 0 of extent 2",
               static_cast<void>(v.row(2)));
}

TEST(View, BlockIsAWindowWithGaps) {
  auto values = counted<20>();
  const ms::view<int, 2> whole(values.data(), {4, 5});
  const ms::view<int, 2> part = whole.block({1, 2}, {2, 3});
  EXPECT_EQ(part(0, 0), 7);
  EXPECT_EQ(part(1, 2), 14);
  EXPECT_FALSE(part.is_contiguous());
  EXPECT_TRUE(whole.block({1, 0}, {2, 5}).is_contiguous());
  EXPECT_ERROR(ms::errc::out_of_range, "dimension 1",
               static_cast<void>(whole.block({0, 3}, {1, 3})));
}

TEST(View, FlatNeedsContiguousElements) {
  auto values = counted<20>();
  const ms::view<int, 2> whole(values.data(), {4, 5});
  int sum = 0;
  for (const int value : whole.flat())
    sum += value;
  EXPECT_EQ(sum, 190);
  EXPECT_ERROR(ms::errc::usage, "row(i)", static_cast<void>(whole.block({0, 0}, {2, 2}).flat()));
}

TEST(View, IndexOutsideItsExtentIsCaught) {
  auto values = counted<6>();
  const ms::view<int, 2> v(values.data(), {2, 3});
  EXPECT_ERROR(ms::errc::out_of_range, "index 3 is outside dimension 1 of extent 3",
               static_cast<void>(v(0, 3)));
  EXPECT_ERROR(ms::errc::out_of_range, "dimension 0", static_cast<void>(v(-1, 0)));
}

TEST(View, OffsetsGoPastTwoToTheThirtyOne) {
  char* const base = nullptr;  // only addresses are compared, nothing is touched
  const ms::shape<2> plane(65536, 65536);
  const ms::view<char, 2> v(base, plane);
  EXPECT_EQ(v.size(), 4294967296U);
  EXPECT_EQ(v.stride(0), 65536U);
  EXPECT_EQ(plane.index({65535, 65535}), 4294967295U);
}

TEST(Array, OwnsItsElementsAndIsEmptyAfterAMove) {
  ms::array<int, 2> first(ms::shape(2, 2));
  first(1, 1) = 5;
  ms::array<int, 2> second = std::move(first);
  EXPECT_EQ(second(1, 1), 5);
  EXPECT_EQ(second.extent(0), 2U);
  EXPECT_EQ(first.size(), 0U);  // NOLINT(bugprone-use-after-move)
}
