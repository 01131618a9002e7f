// SPDX-License-Identifier: Apache-2.0
#include "base/small_vector.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace millstream::base {
namespace {

using numbers = small_vector<int, 4>;

numbers counted(int count) {
  numbers made;
  for (int i = 0; i < count; ++i)
    made.push_back(i);
  return made;
}

template <class Vector>
std::vector<typename Vector::value_type> values(const Vector& from) {
  return {from.begin(), from.end()};
}

bool lies_inside(const numbers& vector) {
  const auto* first = reinterpret_cast<const std::byte*>(&vector);
  const auto* data = reinterpret_cast<const std::byte*>(vector.data());
  return data >= first && data < first + sizeof vector;
}

TEST(SmallVector, KeepsTheFirstElementsInside) {
  EXPECT_TRUE(lies_inside(counted(4)));
  EXPECT_FALSE(lies_inside(counted(5)));
}

TEST(SmallVector, GrowthKeepsTheElements) {
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(values(counted(1000)), expected);
}

TEST(SmallVector, ClearKeepsTheRoom) {
  numbers vector = counted(100);
  const std::size_t room = vector.capacity();
  vector.clear();
  EXPECT_TRUE(vector.empty());
  EXPECT_EQ(vector.capacity(), room);
}

TEST(SmallVector, EraseSwapPutsTheLastInTheGap) {
  numbers vector = counted(4);
  vector.erase_swap(1);
  EXPECT_EQ(values(vector), (std::vector{0, 3, 2}));
  vector.erase_swap(2);
  EXPECT_EQ(values(vector), (std::vector{0, 3}));
}

TEST(SmallVector, AnElementOfItselfMayBeAddedAtTheMomentOfGrowth) {
  small_vector<std::string, 2> vector;
  vector.push_back("a long text that does not fit into the string itself");
  vector.push_back("b");
  vector.push_back(vector[0]);
  EXPECT_EQ(vector[2], vector[0]);
}

TEST(SmallVector, MovesFromInsideAndFromTheHeap) {
  for (const int count : {3, 30}) {
    small_vector<std::unique_ptr<int>, 4> from;
    for (int i = 0; i < count; ++i)
      from.push_back(std::make_unique<int>(i));
    small_vector<std::unique_ptr<int>, 4> to = std::move(from);
    ASSERT_EQ(to.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(*to.back(), count - 1);
    EXPECT_TRUE(from.empty());  // NOLINT(bugprone-use-after-move): it promises to be empty
    from.push_back(nullptr);
    to = std::move(from);
    EXPECT_EQ(to.size(), 1U);
  }
}

TEST(SmallVector, CopiesAreIndependent) {
  for (const int count : {3, 30}) {
    const numbers from = counted(count);
    numbers to = counted(7);
    to = from;
    to[0] = 99;
    EXPECT_EQ(from[0], 0);
    EXPECT_EQ(to.size(), from.size());
    EXPECT_EQ(values(numbers(from)), values(from));
  }
}

TEST(SmallVector, DestroysEachElementOnce) {
  const auto watched = std::make_shared<int>(1);
  {
    small_vector<std::shared_ptr<int>, 2> vector;
    for (int i = 0; i < 10; ++i)
      vector.push_back(watched);
    EXPECT_EQ(watched.use_count(), 11);
    vector.pop_back();
    vector.resize(3);
    EXPECT_EQ(watched.use_count(), 4);
    vector.resize(5);
    EXPECT_EQ(vector[4], nullptr);
  }
  EXPECT_EQ(watched.use_count(), 1);
}

TEST(SmallVector, ServesAsASpan) {
  numbers vector = counted(6);
  std::span<int> all = vector;
  all[5] = 50;
  std::span<const int> read = static_cast<const numbers&>(vector);
  EXPECT_EQ(read.size(), 6U);
  EXPECT_EQ(read[5], 50);
}

TEST(SmallVector, AppendingOftenGrowsSeldom) {
  small_vector<int, 2> all;
  std::size_t growths = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::size_t before = all.capacity();
    all.append({{i}});
    if (all.capacity() != before) ++growths;
  }
  EXPECT_EQ(all.size(), 1000U);
  EXPECT_EQ(all.back(), 999);
  EXPECT_EQ(growths, 9U);  // 2, 4, ... 1024
}

}  // namespace
}  // namespace millstream::base
