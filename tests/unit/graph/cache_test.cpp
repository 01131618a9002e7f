// SPDX-License-Identifier: Apache-2.0
#include "graph/executable_cache.hpp"

#include <memory>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace millstream::graph {
namespace {

class executable final : public backend::executable_graph {
 public:
  executable(std::size_t bytes, int& alive) : bytes_(bytes), alive_(alive) { ++alive_; }
  ~executable() override { --alive_; }
  backend::status launch(backend::queue& /*on*/) override { return {}; }
  [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }

 private:
  const std::size_t bytes_;
  int& alive_;
};

/// Launched, and kept from then on.
void keep(executable_cache& in, const shape& like, std::size_t bytes, int& alive) {
  in.give(in.add(like, std::make_unique<executable>(bytes, alive)));
}

/// Whether there is one of that shape, which nobody gives back then.
bool is_there(executable_cache& in, const shape& like) {
  return in.take(like).what != nullptr;
}

TEST(ExecutableCache, GivesBackWhatHasTheShape) {
  int alive = 0;
  executable_cache cache(1000);
  keep(cache, {1, 2, 0}, 10, alive);
  EXPECT_FALSE(cache.take({1, 3, 0}));
  EXPECT_FALSE(cache.take({1, 2, 1}));
  EXPECT_EQ(cache.bytes(), 10U);
  auto used = cache.take({1, 2, 0});
  EXPECT_TRUE(used);
  EXPECT_FALSE(cache.take({1, 2, 0}));
  EXPECT_EQ(cache.bytes(), 0U);
  EXPECT_EQ(cache.size(), 0U);
  cache.put_back(std::move(used));
  EXPECT_EQ(cache.bytes(), 10U);
  EXPECT_EQ(cache.size(), 1U);
}

TEST(ExecutableCache, DropsTheOneNotUsedForLongest) {
  int alive = 0;
  executable_cache cache(100);
  keep(cache, {1, 1, 0}, 40, alive);
  keep(cache, {2, 1, 0}, 40, alive);
  cache.give(cache.take({1, 1, 0}));
  keep(cache, {3, 1, 0}, 40, alive);
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(cache.bytes(), 80U);
  EXPECT_FALSE(is_there(cache, {2, 1, 0}));
  EXPECT_TRUE(is_there(cache, {1, 1, 0}));
}

// One that was tried only is as old as before, and one that is in use is passed over.
TEST(ExecutableCache, WhatWasPutBackIsNotNewer) {
  int alive = 0;
  executable_cache cache(100);
  keep(cache, {1, 1, 0}, 40, alive);
  keep(cache, {2, 1, 0}, 40, alive);
  cache.put_back(cache.take({1, 1, 0}));
  keep(cache, {3, 1, 0}, 40, alive);
  EXPECT_FALSE(cache.take({1, 1, 0}));
  auto used = cache.take({2, 1, 0});
  keep(cache, {4, 1, 0}, 40, alive);
  keep(cache, {5, 1, 0}, 40, alive);
  EXPECT_FALSE(cache.take({3, 1, 0}));
  EXPECT_EQ(cache.bytes(), 80U);
  EXPECT_EQ(alive, 3);
  cache.give(std::move(used));
  EXPECT_FALSE(cache.take({4, 1, 0}));
  EXPECT_EQ(cache.bytes(), 80U);
}

TEST(ExecutableCache, KeepsSeveralOfOneShapeTheLastOneFirst) {
  int alive = 0;
  executable_cache cache(1000);
  for (std::size_t bytes = 1; bytes <= 3; ++bytes)
    keep(cache, {1, 1, 0}, bytes, alive);
  auto third = cache.take({1, 1, 0});
  auto second = cache.take({1, 1, 0});
  auto first = cache.take({1, 1, 0});
  EXPECT_EQ(third.what->bytes(), 3U);
  EXPECT_EQ(second.what->bytes(), 2U);
  EXPECT_EQ(first.what->bytes(), 1U);
  cache.put_back(std::move(third));
  cache.put_back(std::move(second));
  cache.give(std::move(first));
  EXPECT_EQ(cache.take({1, 1, 0}).what->bytes(), 1U);
}

TEST(ExecutableCache, KeepsEightOfOneShape) {
  int alive = 0;
  executable_cache cache(1000);
  for (std::size_t bytes = 1; bytes <= 9; ++bytes)
    keep(cache, {1, 1, 0}, bytes, alive);
  EXPECT_EQ(alive, 8);
  EXPECT_EQ(cache.size(), 8U);
  EXPECT_EQ(cache.bytes(), 44U);  // 2 to 9
}

TEST(ExecutableCache, ATrailSaysWhichOfAShape) {
  int alive = 0;
  executable_cache cache(1000);
  for (std::size_t bytes = 1; bytes <= 2; ++bytes) {
    auto made = cache.add({1, 1, 0}, std::make_unique<executable>(bytes, alive));
    made.at->trails.add(bytes * 10);
    cache.give(std::move(made));
  }
  auto first = cache.take({1, 1, 0}, 10);
  EXPECT_EQ(first.what->bytes(), 1U);
  first.at->trails.remove(10);
  cache.put_back(std::move(first));
  EXPECT_EQ(cache.take({1, 1, 0}, 10).what->bytes(), 2U);
}

TEST(ExecutableCache, EightTrailsAreKnownTheOldestGoesFirst) {
  known_trails trails;
  EXPECT_FALSE(trails.has(0));
  for (std::uint64_t each = 0; each < 9; ++each)
    trails.add(each);
  EXPECT_FALSE(trails.has(0));
  trails.remove(4);
  trails.remove(4);
  trails.add(9);
  for (const std::uint64_t each : {1U, 2U, 3U, 5U, 6U, 7U, 8U, 9U})
    EXPECT_TRUE(trails.has(each)) << each;
  EXPECT_FALSE(trails.has(4));
}

TEST(ExecutableCache, ThePolicySaysWhatIsKept) {
  int alive = 0;
  executable_cache cache(1000);
  cache.set_policy([](const executable_info& what) { return what.nodes > 1 && what.bytes < 50; });
  keep(cache, {1, 1, 0}, 40, alive);
  keep(cache, {2, 2, 0}, 60, alive);
  keep(cache, {3, 2, 0}, 40, alive);
  EXPECT_EQ(alive, 3);
  cache.ask_policy();
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(is_there(cache, {3, 2, 0}));
}

TEST(ExecutableCache, ThePolicyIsAskedOnceForEachUseInTheThreadOfThat) {
  int alive = 0;
  int asked = 0;
  executable_cache cache(1000);
  cache.set_policy([&](const executable_info& /*what*/) { return ++asked > 0; });
  keep(cache, {1, 1, 0}, 40, alive);
  std::thread([&] { cache.ask_policy(); }).join();
  EXPECT_EQ(asked, 0);
  cache.ask_policy();
  cache.ask_policy();
  EXPECT_EQ(asked, 1);
  cache.give(cache.take({1, 1, 0}));
  cache.put_back(cache.take({1, 1, 0}));
  cache.ask_policy();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(cache.size(), 1U);
}

// What is in use when the answer comes is asked about again when that is over.
TEST(ExecutableCache, OneThatIsUsedAgainIsNotAskedAboutMeanwhile) {
  int alive = 0;
  int asked = 0;
  executable_cache cache(1000);
  cache.set_policy([&](const executable_info& /*what*/) { return ++asked == 0; });
  keep(cache, {1, 1, 0}, 40, alive);
  auto used = cache.take({1, 1, 0});
  cache.ask_policy();
  EXPECT_EQ(asked, 0);
  cache.give(std::move(used));
  cache.ask_policy();
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(alive, 0);
}

TEST(ExecutableCache, APolicyMayUseTheCache) {
  int alive = 0;
  std::size_t seen = 0;
  executable_cache cache(1000);
  cache.set_policy([&](const executable_info& what) {
    seen = cache.bytes();
    if (what.nodes == 1) keep(cache, {2, 2, 0}, 5, alive);
    if (what.nodes == 2) cache.set_policy({});
    return what.nodes != 2;
  });
  keep(cache, {1, 1, 0}, 40, alive);
  cache.ask_policy();
  EXPECT_EQ(seen, 45U);
  EXPECT_EQ(cache.bytes(), 40U);
}

// Until it has answered nothing goes for what it may decline.
TEST(ExecutableCache, WhatThePolicyDeclinesTakesNoRoomOfOthers) {
  int alive = 0;
  executable_cache cache(100);
  cache.set_policy([](const executable_info& what) { return what.nodes == 1; });
  keep(cache, {1, 1, 0}, 60, alive);
  keep(cache, {2, 2, 0}, 60, alive);
  EXPECT_EQ(cache.bytes(), 120U);
  cache.ask_policy();
  EXPECT_EQ(cache.bytes(), 60U);
  EXPECT_EQ(cache.why_missing({2, 2, 0}), &recording_misses::policy);
  keep(cache, {3, 1, 0}, 60, alive);
  cache.ask_policy();
  EXPECT_EQ(cache.bytes(), 60U);
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &recording_misses::evicted);
  EXPECT_TRUE(is_there(cache, {3, 1, 0}));
}

TEST(ExecutableCache, APolicyThatThrowsDeclines) {
  int alive = 0;
  executable_cache cache(100);
  cache.set_policy([](const executable_info&) -> bool { throw error(errc::usage, "no opinion"); });
  keep(cache, {1, 1, 0}, 60, alive);
  cache.ask_policy();
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &recording_misses::lost);
}

TEST(ExecutableCache, OneThatIsLargerThanTheLimitIsNotKeptAndDropsNone) {
  int alive = 0;
  executable_cache cache(100);
  keep(cache, {1, 1, 0}, 40, alive);
  keep(cache, {2, 1, 0}, 60, alive);
  keep(cache, {3, 1, 0}, 101, alive);
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(cache.bytes(), 100U);
  EXPECT_FALSE(is_there(cache, {3, 1, 0}));
  EXPECT_TRUE(is_there(cache, {1, 1, 0}));
  EXPECT_TRUE(is_there(cache, {2, 1, 0}));
}

TEST(ExecutableCache, AMissingShapeHasItsReason) {
  using misses = recording_misses;
  int alive = 0;
  executable_cache cache(100);
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &misses::new_shape);
  keep(cache, {1, 1, 0}, 60, alive);
  auto used = cache.take({1, 1, 0});
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &misses::busy);
  cache.give(std::move(used));
  keep(cache, {2, 1, 0}, 60, alive);
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &misses::evicted);
  keep(cache, {3, 1, 0}, 101, alive);
  EXPECT_EQ(cache.why_missing({3, 1, 0}), &misses::too_large);
  cache.set_policy([](const executable_info&) { return false; });
  keep(cache, {4, 1, 0}, 10, alive);
  cache.ask_policy();
  EXPECT_EQ(cache.why_missing({4, 1, 0}), &misses::policy);
  keep(cache, {1, 1, 0}, 10, alive);  // the last reason counts
  cache.ask_policy();
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &misses::policy);
  EXPECT_EQ(cache.why_missing({1, 1, 1}), &misses::new_shape);
}

TEST(ExecutableCache, OnlyTheLastThousandReasonsAreRemembered) {
  int alive = 0;
  executable_cache cache(1);
  for (std::uint64_t i = 0; i <= 1024; ++i)
    keep(cache, {i, 1, 0}, 2, alive);
  EXPECT_EQ(cache.why_missing({0, 1, 0}), &recording_misses::new_shape);
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &recording_misses::too_large);
  EXPECT_EQ(cache.why_missing({1024, 1, 0}), &recording_misses::too_large);
}

}  // namespace
}  // namespace millstream::graph
