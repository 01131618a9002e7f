// SPDX-License-Identifier: Apache-2.0
#include "graph/executable_cache.hpp"

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

TEST(ExecutableCache, GivesBackWhatHasTheShape) {
  int alive = 0;
  executable_cache cache(1000);
  cache.give({1, 2, 0}, std::make_unique<executable>(10, alive));
  EXPECT_EQ(cache.take({1, 3, 0}), nullptr);
  EXPECT_EQ(cache.take({1, 2, 1}), nullptr);
  EXPECT_NE(cache.take({1, 2, 0}), nullptr);
  EXPECT_EQ(cache.take({1, 2, 0}), nullptr);
  EXPECT_EQ(cache.bytes(), 0U);
}

TEST(ExecutableCache, DropsTheOneNotUsedForLongest) {
  int alive = 0;
  executable_cache cache(100);
  cache.give({1, 1, 0}, std::make_unique<executable>(40, alive));
  cache.give({2, 1, 0}, std::make_unique<executable>(40, alive));
  cache.give({1, 1, 0}, cache.take({1, 1, 0}));
  cache.give({3, 1, 0}, std::make_unique<executable>(40, alive));
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(cache.bytes(), 80U);
  EXPECT_EQ(cache.take({2, 1, 0}), nullptr);
  EXPECT_NE(cache.take({1, 1, 0}), nullptr);
}

TEST(ExecutableCache, ThePolicySaysWhatIsKept) {
  int alive = 0;
  executable_cache cache(1000);
  cache.set_policy([](const executable_info& what) { return what.nodes > 1 && what.bytes < 50; });
  cache.give({1, 1, 0}, std::make_unique<executable>(40, alive));
  cache.give({2, 2, 0}, std::make_unique<executable>(60, alive));
  cache.give({3, 2, 0}, std::make_unique<executable>(40, alive));
  EXPECT_EQ(alive, 1);
  EXPECT_NE(cache.take({3, 2, 0}), nullptr);
}

TEST(ExecutableCache, OneThatIsLargerThanTheLimitIsNotKeptAndDropsNone) {
  int alive = 0;
  executable_cache cache(100);
  cache.give({1, 1, 0}, std::make_unique<executable>(40, alive));
  cache.give({2, 1, 0}, std::make_unique<executable>(60, alive));
  cache.give({3, 1, 0}, std::make_unique<executable>(101, alive));
  EXPECT_EQ(alive, 2);
  EXPECT_EQ(cache.bytes(), 100U);
  EXPECT_EQ(cache.take({3, 1, 0}), nullptr);
  EXPECT_NE(cache.take({1, 1, 0}), nullptr);
  EXPECT_NE(cache.take({2, 1, 0}), nullptr);
}

TEST(ExecutableCache, AMissingShapeHasItsReason) {
  using misses = recording_misses;
  int alive = 0;
  executable_cache cache(100);
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &misses::new_shape);
  cache.give({1, 1, 0}, std::make_unique<executable>(60, alive));
  auto used = cache.take({1, 1, 0});
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &misses::busy);
  cache.give({1, 1, 0}, std::move(used));
  cache.give({2, 1, 0}, std::make_unique<executable>(60, alive));
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &misses::evicted);
  cache.give({3, 1, 0}, std::make_unique<executable>(101, alive));
  EXPECT_EQ(cache.why_missing({3, 1, 0}), &misses::too_large);
  cache.set_policy([](const executable_info&) { return false; });
  cache.give({4, 1, 0}, std::make_unique<executable>(10, alive));
  EXPECT_EQ(cache.why_missing({4, 1, 0}), &misses::policy);
  cache.give({1, 1, 0}, std::make_unique<executable>(10, alive));  // the last reason counts
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &misses::policy);
  EXPECT_EQ(cache.why_missing({1, 1, 1}), &misses::new_shape);
}

TEST(ExecutableCache, OnlyTheLastThousandReasonsAreRemembered) {
  int alive = 0;
  executable_cache cache(1);
  for (std::uint64_t i = 0; i <= 1024; ++i)
    cache.give({i, 1, 0}, std::make_unique<executable>(2, alive));
  EXPECT_EQ(cache.why_missing({0, 1, 0}), &recording_misses::new_shape);
  EXPECT_EQ(cache.why_missing({1, 1, 0}), &recording_misses::too_large);
  EXPECT_EQ(cache.why_missing({1024, 1, 0}), &recording_misses::too_large);
}

}  // namespace
}  // namespace millstream::graph
