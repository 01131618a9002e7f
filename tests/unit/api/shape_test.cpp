// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <array>
#include <vector>

TEST(Shape, SizeIsTheProductOfTheExtents) {
  EXPECT_EQ(ms::shape().size(), 1U);
  EXPECT_EQ(ms::shape(7).size(), 7U);
  EXPECT_EQ(ms::shape(2, 3, 4, 5).size(), 120U);
  EXPECT_EQ(ms::shape(3, 0).size(), 0U);
}

TEST(Shape, IterationIsRowMajor) {
  std::vector<std::array<std::size_t, 2>> seen;
  for (const auto& at : ms::shape(2, 3))
    seen.push_back(at);
  const std::vector<std::array<std::size_t, 2>> expected{{0, 0}, {0, 1}, {0, 2},
                                                         {1, 0}, {1, 1}, {1, 2}};
  EXPECT_EQ(seen, expected);
}

TEST(Shape, EmptyShapeIteratesOverNothing) {
  std::size_t trips = 0;
  for ([[maybe_unused]] const auto& at : ms::shape(3, 0, 2))
    ++trips;
  EXPECT_EQ(trips, 0U);
}

TEST(Shape, RankZeroIteratesOverOneElement) {
  std::size_t trips = 0;
  for ([[maybe_unused]] const auto& at : ms::shape())
    ++trips;
  EXPECT_EQ(trips, 1U);
}

TEST(Shape, CountsAndPositionsGoPastTwoToTheThirtyOne) {
  constexpr std::size_t large = (std::size_t{1} << 31) + 16;
  const ms::shape<1> line(large);
  EXPECT_EQ(line.size(), 2147483664U);
  EXPECT_EQ(line.index({large - 1}), 2147483663U);
  const ms::shape<3> cube(65536, 65536, 3);
  EXPECT_EQ(cube.size(), 12884901888U);
  EXPECT_EQ(cube.index({65535, 65535, 2}), 12884901887U);
  EXPECT_EQ(cube.coordinates(12884901887U), (std::array<std::size_t, 3>{65535, 65535, 2}));
}

TEST(Shape, ByteCountsGoPastTwoToTheThirtyTwo) {
  const ms::shape<2> plane(65536, 65537);
  EXPECT_EQ(ms::detail::checked_bytes(plane, sizeof(float)), 17180131328U);
}

TEST(Shape, NegativeExtentIsRefused) {
  const int n = 3;
  EXPECT_ERROR(ms::errc::invalid_value, "negative extent -2",
               static_cast<void>(ms::shape(n - 5, 4)));
}

TEST(Shape, BlockLargerThanMemoryCanBeIsRefused) {
  const ms::shape<2> plane(std::size_t{1} << 33, std::size_t{1} << 33);
  EXPECT_ERROR(ms::errc::invalid_value, "(8589934592, 8589934592) of elements of 8 bytes",
               static_cast<void>(ms::detail::checked_bytes(plane, 8)));
  const ms::shape<2> empty(std::size_t{1} << 63, 0);
  EXPECT_EQ(ms::detail::checked_bytes(empty, 8), 0U);
}

TEST(Shape, TextIsThatOfATuple) {
  EXPECT_EQ(ms::to_string(ms::shape()), "()");
  EXPECT_EQ(ms::to_string(ms::shape(4)), "(4,)");
  EXPECT_EQ(ms::to_string(ms::shape(4, 5)), "(4, 5)");
}

TEST(Box, HasBeginAndEndPerDimension) {
  const ms::box part({2, 5}, {5, 8});
  EXPECT_EQ(part.begin(0), 2U);
  EXPECT_EQ(part.end(0), 5U);
  EXPECT_EQ(part.extent(1), 3U);
  EXPECT_EQ(part.size(), 9U);
  EXPECT_EQ(ms::box(ms::shape(3, 4)).size(), 12U);
}

TEST(Box, RangeThatEndsBeforeItBeginsIsEmpty) {
  const ms::box part({5, 2}, {0, 4});
  EXPECT_EQ(part.extent(0), 0U);
  EXPECT_EQ(part.size(), 0U);
}
