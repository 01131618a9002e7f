// SPDX-License-Identifier: Apache-2.0
/// What tasks cost, exactly, on the machine that counts and runs nothing.
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/core/steady_cost.hpp"

namespace millstream::test {
namespace {

TEST(NullCounts, ChainIssuesOnlyItsJobsAndAllocatesNothing) {
  untyped_context on = open("null", 1);
  const untyped_data x = on.make_data(64);
  run(on, {}, {x.write()}, nothing);
  const std::vector<task_dep> deps{x.rw()};
  const cost one = steady_cost(on, 1000, [&] { run(on, {}, deps, nothing); });
  EXPECT_EQ(one.machine, (calls{{"run", 1000}}));
  EXPECT_EQ(one.heap, 0U);
  EXPECT_EQ(on.stats().records, 0U);
  EXPECT_EQ(on.stats().waits, 0U);
  EXPECT_EQ(on.stats().host_waits, 0U);
}

TEST(NullCounts, TaskWithReadAndRwAllocatesNothing) {
  untyped_context on = open("null", 1);
  std::vector<double> a(8);
  std::vector<double> b(8);
  const std::vector<task_dep> deps{registered(on, a).read(), registered(on, b).rw()};
  const cost one = steady_cost(on, 1000, [&] { run(on, {}, deps, nothing); });
  EXPECT_EQ(one.machine, (calls{{"run", 1000}}));
  EXPECT_EQ(one.heap, 0U);
}

TEST(NullCounts, ChainOfTokensAllocatesNothing) {
  untyped_context on = open("null", 1);
  const std::vector<task_dep> deps{on.make_token().rw()};
  const cost one = steady_cost(on, 1000, [&] { run(on, {}, deps, nothing); });
  EXPECT_EQ(one.machine, (calls{{"run", 1000}}));
  EXPECT_EQ(one.heap, 0U);
}

TEST(NullCounts, ChainOfHostFunctionsNeedsNoSynchronisation) {
  untyped_context on = open("null", 1);
  const std::vector<task_dep> deps{on.make_token().rw()};
  const cost one = steady_cost(
      on, 1000, [&] { run(on, exec_place::host(), deps, nothing, {}, task_kind::host_launch); });
  EXPECT_EQ(one.machine, (calls{{"run", 1000}}));
  EXPECT_EQ(one.heap, 0U);
}

TEST(NullCounts, CapturesUpToAFewWordsAllocateNothing) {
  untyped_context on = open("null", 1);
  const std::vector<task_dep> deps{on.make_token().rw()};
  std::array<std::uint64_t, 6> captured{};
  const cost one = steady_cost(
      on, 1000, [&] { run(on, {}, deps, [captured](const body_call&) { (void)captured; }); });
  EXPECT_EQ(one.heap, 0U);
}

TEST(NullCounts, NamesAllocateNothing) {
  untyped_context on = open("null", 1);
  const std::vector<task_dep> deps{on.make_token("a rather long name of a token").rw()};
  const cost one =
      steady_cost(on, 1000, [&] { run(on, {}, deps, nothing, "a name that is not short at all"); });
  EXPECT_EQ(one.heap, 0U);
}

class ForkJoin : public testing::TestWithParam<int> {};

TEST_P(ForkJoin, OneRecordPerTailAndOneWaitPerForeignQueue) {
  const int width = GetParam();
  untyped_context on = open("null", width);
  const untyped_data start = on.make_token();
  std::vector<task_dep> ends;
  run(on, exec_place::device(0), {start.write()}, nothing);
  for (int i = 0; i < width; ++i) {
    const untyped_data end = on.make_token();
    run(on, exec_place::device(i), {start.read(), end.write()}, nothing);
    ends.push_back(end.read());
  }
  run(on, exec_place::device(0), ends, nothing);
  const auto others = static_cast<std::uint64_t>(width - 1);
  EXPECT_LE(on.stats().records, 2 + others);  // tails: the first task and each branch
  EXPECT_EQ(on.stats().waits, 2 * others);
  EXPECT_EQ(on.stats().queues, static_cast<std::uint64_t>(width));
}
INSTANTIATE_TEST_SUITE_P(Widths, ForkJoin, testing::Values(1, 2, 3, 4, 8));

TEST(NullCounts, ReadFanInCostsNothing) {
  untyped_context on = open("null", 1);
  std::vector<int> buffer(16);
  const untyped_data x = registered(on, buffer);
  const std::vector<task_dep> deps{x.read(data_place::host())};
  for (int i = 0; i < 100; ++i)
    run(on, exec_place::device(0), deps, nothing);
  EXPECT_EQ(on.stats().records, 0U);
  EXPECT_EQ(on.stats().waits, 0U);
}

TEST(NullCounts, ReadersOfOneWriterWaitOncePerQueueAndShareItsMark) {
  untyped_context on = open("null", 1);
  const untyped_data x = on.make_token();
  run(on, {}, {x.write()}, nothing);
  for (int i = 0; i < 100; ++i)
    run(on, {}, {x.read()}, nothing);
  EXPECT_LE(on.stats().records, 1U);
  EXPECT_EQ(on.stats().waits, on.stats().queues - 1);
}

TEST(NullCounts, WaitThatIsImpliedIsNotMade) {
  untyped_context on = open("null", 3);
  const untyped_data t = on.make_token();
  const untyped_data u = on.make_token();
  run(on, exec_place::device(0), {t.write(), u.write()}, nothing);
  run(on, exec_place::device(1), {t.rw()}, nothing);
  run(on, exec_place::device(2), {t.read(), u.read()}, nothing);
  EXPECT_EQ(on.stats().records, 2U);
  EXPECT_EQ(on.stats().waits, 2U);
}

TEST(NullCounts, MarkOfALaterTailServesForAnEarlierPosition) {
  untyped_context on = open("null", 3);
  const untyped_data t = on.make_token();
  const untyped_data u = on.make_token();
  run(on, exec_place::device(0), {t.write()}, nothing);
  run(on, exec_place::device(0), {t.read(), u.write()}, nothing);
  run(on, exec_place::device(1), {u.read()}, nothing);
  const context_stats before = on.stats();
  run(on, exec_place::device(2), {t.read()}, nothing);
  EXPECT_EQ(on.stats().records, before.records);
  EXPECT_EQ(on.stats().waits, before.waits + 1);
}

TEST(NullCounts, TemporaryFromAWarmPoolMakesNoCallAndNoAllocation) {
  untyped_context on = open("null", 1);
  const untyped_data order = on.make_token();
  const cost one = steady_cost(on, 1000, [&] {
    const untyped_data fresh = on.make_data(4096);
    run(on, {}, {fresh.write(), order.rw()}, nothing);
  });
  EXPECT_EQ(one.machine, (calls{{"run", 1000}}));
  EXPECT_EQ(one.heap, 0U);
  EXPECT_EQ(on.stats().allocations, 1U);
}

TEST(NullCounts, ThousandsOfTemporariesNeedFewBlocks) {
  untyped_context on = open("null", 2);
  const untyped_data sum = on.make_data(4U << 20U);
  run(on, {}, {sum.write()}, nothing);
  for (int i = 0; i < 5000; ++i) {
    const untyped_data fresh = on.make_data(4U << 20U);
    run(on, {}, {fresh.write()}, nothing);
    run(on, {}, {fresh.read(), sum.rw()}, nothing);
  }
  EXPECT_LE(on.stats().allocations, 16U);
  EXPECT_EQ(on.stats().allocations + on.stats().reused_blocks, 5001U);
}

TEST(NullCounts, FillAndHostPlaceNeedNoBlockOfTheMachine) {
  untyped_context on = open("null", 1);
  std::vector<int> buffer(16);
  const untyped_data x = registered(on, buffer);
  const call_meter meter(on.where());
  const int seven = 7;
  on.fill(x.write(data_place::host()), std::as_bytes(std::span(&seven, 1)), exec_place::host());
  run(on, exec_place::host(), {x.rw()}, nothing);
  EXPECT_EQ(meter.calls().count("allocate"), 0U);
  EXPECT_EQ(meter.calls().count("copy"), 0U);
}

TEST(NullCounts, DroppedBufferIsWrittenBackByOneCopy) {
  untyped_context on = open("null", 1);
  std::vector<int> buffer(16);
  {
    const untyped_data x = registered(on, buffer);
    run(on, exec_place::device(0), {x.write()}, nothing);
    EXPECT_EQ(on.stats().copies, 0U);
  }
  EXPECT_EQ(on.stats().copies, 1U);
  on.finalize();
  EXPECT_EQ(on.stats().copies, 1U);
}

}  // namespace
}  // namespace millstream::test
