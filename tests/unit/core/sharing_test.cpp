// SPDX-License-Identifier: Apache-2.0
/// Data that have bytes in common: one order, also when handles are dropped and tasks are open.
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

class Sharing : public ::testing::TestWithParam<int> {
 protected:
  [[nodiscard]] untyped_data part(std::size_t from, std::size_t to, std::string_view name) {
    registration what;
    what.block = buffer_.data() + from;
    what.bytes = (to - from) * sizeof(int);
    what.symbol = name;
    what.allow_overlap = true;
    return on_.register_data(what);
  }
  void add(const untyped_data& to, int value, int device) {
    const std::size_t count = to.bytes() / sizeof(int);
    run(on_, exec_place::device(device), {to.rw()}, [count, value](const body_call& call) {
      for (std::size_t i = 0; i < count; ++i)
        (&first<int>(call))[i] += value;
    });
  }

  std::vector<int> buffer_ = std::vector<int>(6);
  untyped_context on_ = open("host", 2, static_cast<std::uint64_t>(GetParam()));
};

TEST_P(Sharing, WhatOneWritesIsSeenInTheOther) {
  const untyped_data low = part(0, 4, "low");
  const untyped_data high = part(2, 6, "high");
  for (int i = 0; i < 3; ++i) {
    add(low, 1, i % 2);
    add(high, 10, 1 - i % 2);
  }
  EXPECT_EQ(content<int>(on_, high), 33);
  EXPECT_EQ(content<int>(on_, low), 3);
  on_.finalize();
  EXPECT_EQ(buffer_, (std::vector<int>{3, 3, 33, 33, 30, 30}));
}

TEST_P(Sharing, HandlesMayBeDroppedInBetween) {
  const untyped_data low = part(0, 4, "low");
  for (int i = 0; i < 3; ++i) {
    const untyped_data high = part(2, 6, "high");
    add(high, 10, i % 2);
    add(low, 1, 1);
  }
  on_.finalize();
  EXPECT_EQ(buffer_, (std::vector<int>{3, 3, 33, 33, 30, 30}));
}

TEST_P(Sharing, OneTaskCannotWriteOneAndUseTheOther) {
  const untyped_data low = part(0, 4, "low");
  const untyped_data high = part(2, 6, "high");
  std::string text;
  EXPECT_EQ(thrown([&] { run(on_, {}, {low.rw(), high.read()}, nothing); }, &text),
            errc::invalid_value);
  EXPECT_TRUE(contains(text, "'low'") && contains(text, "'high'")) << text;
  run(on_, {}, {low.read(), high.read()}, nothing);
  on_.finalize();
}

TEST_P(Sharing, DroppedContextLeavesNothingBehind) {
  untyped_data low = part(0, 4, "low");
  const untyped_data high = part(2, 6, "high");
  add(low, 1, 0);
  on_.abandon();
  low = untyped_data();
  on_.drain();
}

INSTANTIATE_TEST_SUITE_P(Orders, Sharing, ::testing::Range(0, 12));

}  // namespace
}  // namespace millstream::test
