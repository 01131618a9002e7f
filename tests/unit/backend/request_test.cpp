// SPDX-License-Identifier: Apache-2.0
#include "backend/request.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "base/random.hpp"

namespace millstream::backend {
namespace {

copy_request block(void* to, const void* from, std::vector<std::size_t> extents,
                   std::vector<std::ptrdiff_t> strides) {
  copy_request made;
  made.to = to;
  made.from = from;
  made.rank = static_cast<std::uint32_t>(extents.size());
  std::copy(extents.begin(), extents.end(), made.extents.begin());
  std::copy(strides.begin(), strides.end(), made.to_strides.begin());
  std::copy(strides.begin(), strides.end(), made.from_strides.begin());
  return made;
}

/// Offsets of all bytes of a block, the plain way.
std::set<std::ptrdiff_t> offsets(const copy_request& request) {
  std::set<std::ptrdiff_t> all{0};
  for (std::uint32_t axis = 0; axis < request.rank; ++axis) {
    const std::ptrdiff_t step = axis + 1 == request.rank ? 1 : request.to_strides[axis];
    std::set<std::ptrdiff_t> next;
    for (const std::ptrdiff_t start : all) {
      for (std::size_t i = 0; i < request.extents[axis]; ++i) {
        next.insert(start + static_cast<std::ptrdiff_t>(i) * step);
      }
    }
    all = next;
  }
  return all;
}

class Request : public testing::Test {
 protected:
  std::byte to_[1000];
  std::byte from_[1000];
};

TEST_F(Request, SpansHoldEveryByte) {
  auto spans = check_copy(block(to_, from_, {3, 4, 5}, {100, 10}), "x");
  ASSERT_TRUE(spans.ok());
  const auto first = reinterpret_cast<std::uintptr_t>(to_);
  EXPECT_EQ(spans.value().to.first, first);
  EXPECT_EQ(spans.value().to.past, first + 2 * 100 + 3 * 10 + 5);
}

TEST_F(Request, NegativeStridesReachDown) {
  auto spans = check_copy(block(to_ + 500, from_ + 500, {3, 5}, {-100}), "x");
  ASSERT_TRUE(spans.ok());
  EXPECT_EQ(spans.value().to.first, reinterpret_cast<std::uintptr_t>(to_ + 300));
  EXPECT_EQ(spans.value().to.past, reinterpret_cast<std::uintptr_t>(to_ + 505));
}

TEST_F(Request, ZeroBytesHaveEmptySpans) {
  auto spans = check_copy(block(nullptr, nullptr, {3, 0, 5}, {1, 1}), "x");
  ASSERT_TRUE(spans.ok());
  EXPECT_TRUE(spans.value().to.empty());
}

TEST_F(Request, ATextSaysWhoAndWhatIsAllowed) {
  copy_request wrong = block(to_, from_, {5}, {});
  wrong.rank = 5;
  EXPECT_EQ(check_copy(wrong, "device 'x'").why().text(),
            "device 'x' cannot copy a block of rank 5; use 1 to 4");
}

TEST_F(Request, ExtentsThatLeaveTheAddressSpaceAreRefused) {
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();
  constexpr auto far = std::numeric_limits<std::ptrdiff_t>::max();
  for (const auto& [extents, strides] :
       std::vector<std::pair<std::vector<std::size_t>, std::vector<std::ptrdiff_t>>>{
           {{huge}, {}}, {{huge / 2}, {}}, {{3, 5}, {far}}, {{3, 5}, {-far}}, {{huge, 1}, {1}}}) {
    EXPECT_EQ(check_copy(block(to_, from_, extents, strides), "x").why().code(),
              errc::invalid_value);
  }
}

TEST_F(Request, OverlapIsExactForBlocksOfNestedStrides) {
  base::random_source random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto row = static_cast<std::ptrdiff_t>(1 + random.uniform(6));
    const std::ptrdiff_t line = row + static_cast<std::ptrdiff_t>(random.uniform(6));
    const std::size_t lines = 1 + random.uniform(4);
    const std::ptrdiff_t plane =
        line * static_cast<std::ptrdiff_t>(lines) + static_cast<std::ptrdiff_t>(random.uniform(9));
    const std::size_t shift = random.uniform(120);
    const copy_request copy =
        block(to_ + shift, to_, {1 + random.uniform(3), lines, static_cast<std::size_t>(row)},
              {plane, line});
    const std::set<std::ptrdiff_t> own = offsets(copy);
    bool shared = false;
    for (const std::ptrdiff_t offset : own) {
      shared = shared || own.contains(offset + static_cast<std::ptrdiff_t>(shift));
    }
    ASSERT_EQ(check_copy(copy, "x").ok(), !shared) << "round " << round;
  }
}

TEST_F(Request, InterleavedBlocksOfDifferentStridesCountAsOverlap) {
  copy_request copy = block(to_ + 1, to_, {10, 1}, {10});
  copy.to_strides[0] = 20;
  EXPECT_EQ(check_copy(copy, "x").why().code(), errc::invalid_value);
}

TEST_F(Request, AFillThatWrapsRoundIsRefused) {
  fill_request fill;
  fill.to = to_;
  fill.bytes = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(check_fill(fill, "x").why().code(), errc::invalid_value);
}

}  // namespace
}  // namespace millstream::backend
