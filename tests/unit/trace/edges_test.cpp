// SPDX-License-Identifier: Apache-2.0
#include "trace/edges.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace ms = millstream;

namespace {

using triple = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // from, to, data

constexpr std::uint64_t x = 1;
constexpr std::uint64_t y = 2;

ms::dep_info read(std::uint64_t data) {
  return {data, ms::access_mode::read, "", 8};
}
ms::dep_info write(std::uint64_t data) {
  return {data, ms::access_mode::write, "", 8};
}
ms::dep_info rw(std::uint64_t data) {
  return {data, ms::access_mode::rw, "", 8};
}

class Edges : public testing::Test {
 protected:
  std::uint64_t add(std::initializer_list<ms::dep_info> deps) {
    const std::vector<ms::dep_info> list(deps);
    finder_.add(++last_, list);
    return last_;
  }
  std::vector<triple> found() const {
    std::vector<triple> all;
    for (const ms::trace_edge& edge : finder_.edges()) {
      all.emplace_back(edge.from, edge.to, edge.data);
    }
    return all;
  }

  millstream::trace::edge_finder finder_;
  std::uint64_t last_ = 0;
};

}  // namespace

TEST_F(Edges, FirstAccessWaitsForNothing) {
  add({read(x)});
  add({write(y)});
  EXPECT_TRUE(found().empty());
}

TEST_F(Edges, ReadersWaitForTheLastWriterOnly) {
  add({write(x)});
  const auto writer = add({rw(x)});
  const auto left = add({read(x)});
  const auto right = add({read(x)});
  EXPECT_EQ(found(), (std::vector<triple>{{1, writer, x}, {writer, left, x}, {writer, right, x}}));
}

TEST_F(Edges, WriterWaitsForEveryReaderAndNotForTheWriterBehindThem) {
  add({write(x)});
  add({read(x)});
  add({read(x)});
  add({write(x)});
  EXPECT_EQ(found(), (std::vector<triple>{{1, 2, x}, {1, 3, x}, {2, 4, x}, {3, 4, x}}));
}

TEST_F(Edges, WriterAfterWriterWaitsForIt) {
  add({write(x)});
  add({write(x)});
  EXPECT_EQ(found(), (std::vector<triple>{{1, 2, x}}));
}

TEST_F(Edges, ReadAndWriteIsOrderedAsAWrite) {
  add({rw(x)});
  add({rw(x)});
  add({read(x)});
  add({rw(x)});
  EXPECT_EQ(found(), (std::vector<triple>{{1, 2, x}, {2, 3, x}, {3, 4, x}}));
}

TEST_F(Edges, TwoDataBetweenTheSameTasksAreOneEdgeNamedAfterTheFirst) {
  add({write(x), write(y)});
  add({read(y), read(x)});
  EXPECT_EQ(found(), (std::vector<triple>{{1, 2, y}}));
}

TEST_F(Edges, PredecessorsOfOneTaskComeInTheOrderOfTheirIds) {
  add({write(x)});
  add({write(y)});
  add({read(y), read(x)});
  EXPECT_EQ(found(), (std::vector<triple>{{1, 3, x}, {2, 3, y}}));
}

TEST_F(Edges, NoAccessMakesNoEdge) {
  add({write(x)});
  add({{x, ms::access_mode::none, "", 8}});
  EXPECT_TRUE(found().empty());
}

TEST_F(Edges, ReadersBeforeTheFirstWriterHoldItBack) {
  add({read(x)});
  add({read(x)});
  add({write(x)});
  EXPECT_EQ(found(), (std::vector<triple>{{1, 3, x}, {2, 3, x}}));
}

// The transitive closure of the edges must be the order of conflicting accesses, pair by pair.
TEST(EdgesModel, ClosureIsExactlyTheConflictOrderOfRandomPrograms) {
  for (std::uint32_t seed = 1; seed <= 32; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    constexpr std::size_t count = 40;
    millstream::trace::edge_finder finder;
    std::vector<std::vector<ms::dep_info>> program(count + 1);
    std::vector<std::set<std::uint64_t>> before(count + 1);
    std::vector<std::set<std::uint64_t>> expected(count + 1);
    for (std::uint64_t task = 1; task <= count; ++task) {
      for (std::uint64_t data = 1; data <= 4; ++data) {
        const auto mode = static_cast<ms::access_mode>(random() % 4);
        if (mode != ms::access_mode::none) program[task].push_back({data, mode, "", 8});
      }
      finder.add(task, program[task]);
      for (std::uint64_t earlier = 1; earlier < task; ++earlier) {
        for (const ms::dep_info& a : program[earlier]) {
          for (const ms::dep_info& b : program[task]) {
            if (a.data != b.data || (!ms::writes(a.mode) && !ms::writes(b.mode))) continue;
            expected[task].insert(earlier);
            expected[task].insert(expected[earlier].begin(), expected[earlier].end());
          }
        }
      }
    }
    for (const ms::trace_edge& edge : finder.edges()) {
      before[edge.to].insert(edge.from);
      before[edge.to].insert(before[edge.from].begin(), before[edge.from].end());
    }
    EXPECT_EQ(before, expected);
  }
}
