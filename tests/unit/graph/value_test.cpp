// SPDX-License-Identifier: Apache-2.0
/// Recorded contexts give the values of immediate ones: on the host machine, in orders chosen by
/// seed.
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/graph/engine.hpp"

namespace millstream::test {
namespace {

class RecordedValues : public testing::TestWithParam<std::uint64_t> {
 protected:
  [[nodiscard]] untyped_context open(int devices = 2) {
    return open_recorded("host", devices, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, RecordedValues, testing::Range<std::uint64_t>(0, 8));

void add(untyped_context& on, exec_place place, const untyped_data& to, std::int64_t value) {
  run(on, place, {to.rw()}, [value](const body_call& call) { first<std::int64_t>(call) += value; });
}

TEST_P(RecordedValues, AChainRunsInOrder) {
  untyped_context on = open();
  std::vector<std::int64_t> x{1};
  const untyped_data data = registered(on, x);
  for (std::int64_t i = 1; i <= 20; ++i) {
    run(on, exec_place::device(static_cast<int>(i % 2)), {data.rw()}, [i](const body_call& call) {
      first<std::int64_t>(call) = first<std::int64_t>(call) * 2 + i % 3;
    });
  }
  on.finish();
  std::int64_t expected = 1;
  for (std::int64_t i = 1; i <= 20; ++i)
    expected = expected * 2 + i % 3;
  EXPECT_EQ(x[0], expected);
  EXPECT_EQ(recorded(on).stages, 1U);
}

TEST_P(RecordedValues, NothingRunsBeforeTheStageIsLaunched) {
  untyped_context on = open();
  std::atomic<int> ran{0};
  const untyped_data x = on.make_data(8);
  run(on, {}, {x.write()}, [&](const body_call&) { ++ran; });
  EXPECT_EQ(ran.load(), 0);
  on.finish();
  EXPECT_EQ(ran.load(), 1);
}

TEST_P(RecordedValues, DiamondsAndStagesKeepTheirOrder) {
  untyped_context on = open(3);
  std::vector<std::int64_t> out{0};
  const untyped_data sum = registered(on, out);
  const untyped_data a = on.make_data(8);
  const untyped_data b = on.make_data(8);
  for (std::int64_t round = 0; round < 10; ++round) {
    run(on, exec_place::device(0), {a.write(), sum.read()}, [](const body_call& call) {
      first<std::int64_t>(call) = first<std::int64_t>(call, 1) + 1;
    });
    run(on, exec_place::device(1), {b.write(), sum.read()}, [](const body_call& call) {
      first<std::int64_t>(call) = first<std::int64_t>(call, 1) + 2;
    });
    run(on, exec_place::device(2), {sum.write(), a.read(), b.read()}, [](const body_call& call) {
      first<std::int64_t>(call) = first<std::int64_t>(call, 1) + first<std::int64_t>(call, 2);
    });
    static_cast<void>(on.fence());
  }
  std::int64_t expected = 0;
  for (int round = 0; round < 10; ++round)
    expected = 2 * expected + 3;
  EXPECT_EQ(content<std::int64_t>(on, sum), expected);
  on.finish();
  EXPECT_EQ(out[0], expected);
}

TEST_P(RecordedValues, AWaitLaunchesAndTheContextGoesOn) {
  untyped_context on = open();
  const untyped_data x = on.make_data(8);
  run(on, {}, {x.write()}, [](const body_call& call) { first<std::int64_t>(call) = 5; });
  EXPECT_EQ(content<std::int64_t>(on, x), 5);
  add(on, exec_place::device(1), x, 3);
  EXPECT_EQ(content<std::int64_t>(on, x), 8);
  EXPECT_EQ(recorded(on).stages, 2U);
  on.finish();
}

TEST_P(RecordedValues, HostFunctionsTakeTheirTurn) {
  untyped_context on = open();
  std::vector<std::int64_t> x{1};
  std::int64_t seen = 0;
  const untyped_data data = registered(on, x);
  add(on, exec_place::device(0), data, 1);
  run(
      on, exec_place::host(), {data.rw()},
      [&](const body_call& call) {
        seen = first<std::int64_t>(call);
        first<std::int64_t>(call) *= 10;
      },
      "host", task_kind::host_launch);
  add(on, exec_place::device(1), data, 2);
  on.finish();
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(x[0], 22);
}

TEST_P(RecordedValues, ABodyInTheCallersThreadBreaksTheStage) {
  untyped_context on = open();
  std::vector<std::int64_t> x{1};
  const untyped_data data = registered(on, x);
  add(on, exec_place::device(0), data, 1);
  untyped_task task(on, {});
  task.add_dep(data.rw());
  task.start();
  auto* const value = static_cast<std::int64_t*>(task.pointer(0));
  EXPECT_EQ(*value, 2);
  *value = 7;
  task.end();
  add(on, exec_place::device(1), data, 1);
  on.finish();
  EXPECT_EQ(x[0], 8);
  EXPECT_EQ(recorded(on).stages, 2U);
  EXPECT_EQ(recorded(on).stage_breaks, 1U);
}

TEST_P(RecordedValues, DataThatAreDroppedAreWrittenBackByTheStage) {
  untyped_context on = open();
  std::vector<std::int64_t> x{1};
  {
    const untyped_data data = registered(on, x);
    add(on, exec_place::device(1), data, 41);
  }
  EXPECT_EQ(x[0], 1);
  on.finish();
  EXPECT_EQ(x[0], 42);
}

TEST_P(RecordedValues, TemporariesOfAChainShareTheirMemory) {
  untyped_context on = open(1);
  std::vector<std::int64_t> x{0};
  const untyped_data sum = registered(on, x);
  for (int i = 0; i < 50; ++i) {
    const untyped_data temporary = on.make_data(4096);
    run(on, {}, {temporary.write(), sum.read()}, [](const body_call& call) {
      first<std::int64_t>(call) = first<std::int64_t>(call, 1) + 1;
    });
    run(on, {}, {sum.write(), temporary.read()},
        [](const body_call& call) { first<std::int64_t>(call) = first<std::int64_t>(call, 1); });
  }
  on.finish();
  EXPECT_EQ(x[0], 50);
  EXPECT_LE(on.stats().allocations, 3U);
}

TEST_P(RecordedValues, TwoThreadsRecordIntoOneContext) {
  untyped_context on = open();
  std::vector<std::int64_t> x{0};
  const untyped_data data = registered(on, x);
  const auto work = [&] {
    for (int i = 0; i < 200; ++i)
      add(on, exec_place::device(i % 2), data, 1);
  };
  std::thread other(work);
  work();
  other.join();
  on.finish();
  EXPECT_EQ(x[0], 400);
}

TEST_P(RecordedValues, HostFunctionsMaySubmit) {
  untyped_context on = open();
  std::vector<std::int64_t> x{1};
  const untyped_data data = registered(on, x);
  run(
      on, exec_place::host(), {data.rw()},
      [&on, data](const body_call&) { add(on, exec_place::device(1), data, 5); }, {},
      task_kind::host_launch);
  on.finish();
  EXPECT_EQ(x[0], 6);
}

}  // namespace
}  // namespace millstream::test
