// SPDX-License-Identifier: Apache-2.0
/// Ranges of addresses, and buffers that were let go.
#include "core/ranges.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"

#include "core/retired.hpp"

namespace millstream::core {
namespace {

struct known_range {
  std::size_t low;
  std::size_t bytes;
};

const void* at(std::size_t address) {
  return reinterpret_cast<const void*>(address);
}

std::vector<int> found_in(const range_map<int>& map, const known_range& what) {
  std::vector<int> found;
  map.for_each_overlap(at(what.low), what.bytes, [&](int each) { found.push_back(each); });
  std::sort(found.begin(), found.end());
  return found;
}

bool have_a_byte_in_common(const known_range& a, const known_range& b) {
  return a.bytes != 0 && b.bytes != 0 && a.low < b.low + b.bytes && b.low < a.low + a.bytes;
}

TEST(RangeMap, FindsWhatHasAByteInCommon) {
  base::random_source random(7);
  const auto draw = [&] {
    const std::size_t longest = std::size_t{1} << random.uniform(12);
    return known_range{1 + random.uniform(5000), random.uniform(longest + 1)};
  };
  range_map<int> map;
  std::vector<known_range> all;
  std::vector<bool> is_there;
  for (int i = 0; i < 600; ++i) {
    all.push_back(draw());
    is_there.push_back(all.back().bytes != 0);
    map.add(at(all.back().low), all.back().bytes, i);
    if (i % 3 == 2) {
      const auto gone = static_cast<int>(random.uniform(all.size()));
      const known_range& old = all[static_cast<std::size_t>(gone)];
      map.remove_if(at(old.low), old.bytes, [&](int each) { return each == gone; });
      is_there[static_cast<std::size_t>(gone)] = false;
    }
    const known_range asked = draw();
    std::vector<int> right;
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (is_there[k] && have_a_byte_in_common(all[k], asked)) right.push_back(static_cast<int>(k));
    }
    ASSERT_EQ(found_in(map, asked), right);
  }
}

TEST(RangeMap, TheHighestAddressesAreRangesLikeOthers) {
  const std::size_t top = ~std::size_t{0};
  range_map<int> map;
  map.add(at(top - 9), 10, 1);
  map.add(at(1), 4, 2);
  EXPECT_EQ(found_in(map, {top - 4, 5}), std::vector<int>{1});
  EXPECT_EQ(found_in(map, {4, 1}), std::vector<int>{2});
  EXPECT_EQ(found_in(map, {5, 10}), std::vector<int>{});
}

completion_set use(lane_index lane) {
  completion_set made;
  made.add({lane, 1});
  return made;
}

std::vector<lane_index> lanes_of(const completion_set& uses) {
  std::vector<lane_index> found;
  for (const completion& each : uses)
    found.push_back(each.lane);
  std::sort(found.begin(), found.end());
  return found;
}

TEST(RetiredBuffers, WhoCameAfterOneStandsForIt) {
  retired_buffers all;
  all.add(use(0), nullptr, at(100), 10, all.count());
  const std::uint64_t since = all.count();  // another one is registered there
  EXPECT_EQ(lanes_of(all.uses_of(at(105), 1)), std::vector<lane_index>{0});
  all.add(use(1), nullptr, at(100), 10, since);
  EXPECT_EQ(lanes_of(all.uses_of(at(105), 1)), std::vector<lane_index>{1});
  EXPECT_EQ(lanes_of(all.uses_of(at(110), 1)), std::vector<lane_index>{});
}

TEST(RetiredBuffers, ThoseThatWereThereAtATimeAllCount) {
  retired_buffers all;
  const std::uint64_t since = all.count();
  all.add(use(0), nullptr, at(100), 10, since);
  all.add(use(1), nullptr, at(100), 10, since);
  all.add(use(2), nullptr, at(100), 20, all.count());
  EXPECT_EQ(lanes_of(all.uses_of(at(109), 1)), (std::vector<lane_index>{0, 1, 2}));
}

TEST(RetiredBuffers, OwnersStayWhenOthersStandForThem) {
  retired_buffers all;
  const auto first = std::make_shared<int>(1);
  const auto second = std::make_shared<int>(2);
  all.add(use(0), first, at(100), 10, 0);
  all.add(use(1), second, at(100), 10, all.count());
  EXPECT_EQ(first.use_count(), 2);
  EXPECT_EQ(second.use_count(), 2);
  retired_buffers::owners dropped;
  all.take(dropped);
  EXPECT_TRUE(all.empty());
  EXPECT_EQ(lanes_of(all.uses_of(at(100), 10)), std::vector<lane_index>{});
  dropped.clear();
  EXPECT_EQ(first.use_count(), 1);
  EXPECT_EQ(second.use_count(), 1);
}

}  // namespace
}  // namespace millstream::core
