// SPDX-License-Identifier: Apache-2.0
/// Recorded tasks that fail, and stages that cannot be launched.
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/graph/engine.hpp"

namespace millstream::test {
namespace {

TEST(RecordedFailure, ABodyThatThrowsPoisonsWhatItWasToWrite) {
  untyped_context on = open_recorded("host", 1);
  std::vector<std::int64_t> x{1};
  std::vector<std::int64_t> y{2};
  const untyped_data spoiled = registered(on, x, "spoiled");
  const untyped_data sound = registered(on, y, "sound");
  run(
      on, {}, {spoiled.rw()},
      [](const body_call& call) {
        first<std::int64_t>(call) = 9;
        throw std::runtime_error("broken on purpose");
      },
      "thrower");
  run(on, {}, {spoiled.rw()}, nothing, "skipped");
  run(on, {}, {sound.rw()}, [](const body_call& call) { first<std::int64_t>(call) = 3; });
  std::string text;
  EXPECT_EQ(thrown([&] { static_cast<void>(content<std::int64_t>(on, spoiled)); }, &text),
            errc::poisoned);
  EXPECT_TRUE(contains(text, "thrower")) << text;
  on.finish();
  const std::vector<failure> failures = on.take_failures();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].skipped, 1U);
  EXPECT_FALSE(failures[0].captured);  // it ran when its turn came
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(y[0], 3);
}

TEST(RecordedFailure, AnOpenTaskOfThisThreadKeepsTheStageFromBeingLaunched) {
  untyped_context on = open_recorded("null", 1);
  const untyped_data x = on.make_data(8);
  untyped_task task(on, {});
  task.add_dep(x.write());
  task.set_symbol("left open");
  task.start();
  std::string text;
  EXPECT_EQ(thrown([&] { static_cast<void>(on.fence()); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "left open")) << text;
  task.end();
  static_cast<void>(on.fence());
  on.finish();
}

TEST(RecordedFailure, ADroppedContextRunsNothing) {
  bool ran = false;
  {
    untyped_context on = open_recorded("host", 1);
    const untyped_data x = on.make_data(8);
    run(on, {}, {x.write()}, [&](const body_call&) { ran = true; });
  }
  EXPECT_FALSE(ran);
}

TEST(RecordedFailure, AWaitInABodyOfTheSameStageIsAnError) {
  untyped_context on = open_recorded("host", 1);
  const untyped_data x = on.make_data(8);
  errc seen = errc::ok;
  run(
      on, exec_place::host(), {x.write()},
      [&](const body_call&) { seen = thrown([&] { on.finish(); }); }, {}, task_kind::host_launch);
  on.finish();
  EXPECT_EQ(seen, errc::deadlock);
}

TEST(RecordedFailure, AnImmediateContextHasNoPicture) {
  untyped_context on = open("host", 1);
  EXPECT_EQ(thrown([&] { static_cast<void>(on.native_dot()); }), errc::usage);
  on.finish();
}

}  // namespace
}  // namespace millstream::test
