// SPDX-License-Identifier: Apache-2.0
/// What kernel tasks cost, exactly, on the machine that counts and runs nothing.
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <millstream/kernel.hpp>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/core/steady_cost.hpp"

namespace millstream::test {
namespace {

const device_kernel any_kernel(std::uint64_t{4096});

/// One kernel task with that many launches of three arguments each.
void launch(untyped_context& on, const std::vector<task_dep>& deps, int launches = 1) {
  untyped_task task(on);
  task.set_kind(task_kind::cuda_kernel);
  for (const task_dep& each : deps)
    task.add_dep(each);
  task.start();
  for (int i = 0; i < launches; ++i) {
    const double factor = i;
    const std::uint64_t count = 100;
    void* const pointer = deps.empty() || deps[0].data.is_token() ? nullptr : task.pointer(0);
    const std::array<kernel_argument, 3> arguments{
        kernel_argument{&pointer, sizeof pointer, alignof(void*)},
        kernel_argument{&factor, sizeof factor, alignof(double)},
        kernel_argument{&count, sizeof count, alignof(std::uint64_t)}};
    task.launch({&any_kernel, {.grid = 4, .block = 64}, arguments, nullptr});
  }
  task.end();
}

TEST(LaunchCounts, ChainIssuesOnlyItsLaunches) {
  untyped_context on = open("null", 1);
  const untyped_data x = on.make_data(800);
  launch(on, {x.write()});
  const std::vector<task_dep> deps{x.rw()};
  const cost one = steady_cost(on, 1000, [&] { launch(on, deps); });
  EXPECT_EQ(one.machine, (calls{{"launch", 1000}}));
  EXPECT_EQ(on.stats().records, 0U);
  EXPECT_EQ(on.stats().waits, 0U);
  EXPECT_EQ(on.stats().host_waits, 0U);
  EXPECT_EQ(one.heap, 0U);
}

TEST(LaunchCounts, EachLaunchOfATaskIsOneCall) {
  untyped_context on = open("null", 1);
  const std::vector<task_dep> deps{on.make_token().rw()};
  const cost one = steady_cost(on, 100, [&] { launch(on, deps, 2); });
  EXPECT_EQ(one.machine, (calls{{"launch", 200}}));
  EXPECT_EQ(one.heap, 0U);
}

TEST(LaunchCounts, TaskWithoutALaunchCallsNothing) {
  untyped_context on = open("null", 1);
  const std::vector<task_dep> deps{on.make_token().rw()};
  EXPECT_EQ(steady_cost(on, 100, [&] { launch(on, deps, 0); }).machine, calls{});
}

TEST(LaunchCounts, RecordedLaunchIsOneNodeAndNothingElse) {
  context_options options;
  options.on = machine({.name = "null", .devices = 1, .seed = {}});
  options.use_graph = true;
  untyped_context on(options);
  const untyped_data x = on.make_data(800);
  launch(on, {x.write()});
  for (int i = 0; i < 49; ++i)
    launch(on, {x.rw()}, i % 2 + 1);
  (void)on.fence();
  const recording_stats seen = on.stats().recording;
  EXPECT_EQ(seen.nodes, 1U + 24 * 3 + 1);
  EXPECT_EQ(seen.child_graphs, 0U);
  EXPECT_EQ(seen.stages, 1U);
  EXPECT_EQ(seen.instantiations, 1U);
  on.finalize();
}

TEST(LaunchCounts, RecordedLaunchesAllocateOneGraphAStageAndNothingElse) {
  context_options options;
  options.on = machine({.name = "null", .devices = 1, .seed = {}});
  options.use_graph = true;
  for (const int tasks : {50, 5'000}) {
    untyped_context on(options);
    const untyped_data x = on.make_data(800);
    launch(on, {x.write()});
    const std::vector<task_dep> deps{x.rw()};
    const auto record = [&] {
      for (int i = 0; i < tasks; ++i)
        launch(on, deps, 1);
    };
    // The first two stages differ in their first task.
    for (int stage = 0; stage < 3; ++stage) {
      record();
      (void)on.fence();
    }
    const call_meter meter(on.where());
    const std::uint64_t before = heap_allocations();
    record();
    const std::uint64_t taken = heap_allocations() - before;
    const auto count = static_cast<std::uint64_t>(tasks);
    EXPECT_EQ(meter.calls(),
              (calls{{"make_graph", 1}, {"graph_add", count}, {"kernel_node", count}}));
    if (!pools_are_off) {
      EXPECT_EQ(taken, 1U) << "for " << tasks << " tasks";
    }
    on.finalize();
  }
}

TEST(LaunchFailures, RefusedLaunchIsNamedAndPoisonsTheOutputs) {
  untyped_context on = open("null", 1);
  const untyped_data x = on.make_data(800, "x");
  std::string text;
  EXPECT_EQ(thrown([&] { launch(on, {x.read()}); }, &text), errc::not_written);
  launch(on, {x.write()});
  untyped_task task(on);
  task.set_kind(task_kind::cuda_kernel);
  task.set_symbol("k");
  task.add_dep(x.rw());
  EXPECT_EQ(thrown([&] { task.launch({&any_kernel, {}, {}, nullptr}); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "task 'k' is not started yet; call launch between"));
  task.start();
  const device_kernel none;
  EXPECT_EQ(thrown([&] { task.launch({&none, {}, {}, nullptr}); }, &text), errc::unsupported);
  EXPECT_EQ(thrown([&] { task.launch({&any_kernel, {.grid = {1, 0}}, {}, nullptr}); }, &text),
            errc::invalid_value);
  EXPECT_TRUE(contains(text, "grid (1, 0, 1); give positive"));
  task.end();
  EXPECT_EQ(thrown([&] { task.launch({&any_kernel, {}, {}, nullptr}); }, &text), errc::usage);
}

// The machine has no limits of its own; these are what all GPUs have in common.
TEST(LaunchFailures, TheHostMachineTakesWhatSomeGpuTakes) {
  untyped_context on = open("host", 1);
  const untyped_data x = on.make_data(8, "x");
  int calls = 0;
  const auto launch_with = [&](const launch_config& how, std::string* text = nullptr) {
    untyped_task task(on);
    task.set_kind(task_kind::cuda_kernel);
    task.set_symbol("k");
    task.add_dep(x.write());
    task.start();
    const errc why = thrown(
        [&] { task.launch({nullptr, how, {}, make_body([&](const body_call&) { ++calls; })}); },
        text);
    if (why == errc::ok) {
      task.end();
    } else {
      task.abandon();
    }
    return why;
  };
  EXPECT_EQ(launch_with({.grid = {2147483647, 65535, 65535}, .block = {1024, 1, 1}}), errc::ok);
  EXPECT_EQ(launch_with({.grid = 1, .block = {4, 4, 64}, .shared_bytes = 1U << 30U}), errc::ok);
  std::string text;
  EXPECT_EQ(launch_with({.grid = {1, 65536}}, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text,
                       "task 'k' launches a kernel with grid (1, 65536, 1), and device 'host:0' "
                       "takes at most 65535 in y"))
      << text;
  EXPECT_EQ(launch_with({.grid = 1, .block = {33, 32}}, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text, "with a block of 1056 threads, and")) << text;
  on.finalize();
  EXPECT_EQ(calls, 2);
}

TEST(LaunchFailures, AbandonedTaskLeavesTheDataAsTheyWere) {
  untyped_context on = open("null", 1);
  const untyped_data x = on.make_data(800, "x");
  untyped_task task(on);
  task.set_kind(task_kind::cuda_kernel);
  task.add_dep(x.write());
  task.start();
  EXPECT_TRUE(x.is_written());
  task.launch({&any_kernel, {}, {}, nullptr});
  const call_meter meter(on.where());
  task.abandon();
  EXPECT_EQ(meter.calls(), calls{});
  EXPECT_TRUE(task.is_ended());
  EXPECT_FALSE(x.is_written());
  EXPECT_EQ(thrown([&] { launch(on, {x.read()}); }), errc::not_written);
  launch(on, {x.write()});
  on.finalize();
}

TEST(LaunchFailures, DroppedOpenTaskFails) {
  untyped_context on = open("null", 1);
  const untyped_data x = on.make_data(800, "x");
  {
    untyped_task task(on);
    task.set_kind(task_kind::cuda_kernel);
    task.add_dep(x.write());
    task.start();
    task.launch({&any_kernel, {}, {}, nullptr});
  }
  EXPECT_EQ(thrown([&] { on.await_content(x); }), errc::poisoned);
  untyped_task next(on);
  next.set_kind(task_kind::cuda_kernel);
  next.add_dep(x.rw());
  next.start();
  EXPECT_TRUE(next.is_skipped());
  EXPECT_EQ(next.pointer(0), nullptr);
  next.launch({&any_kernel, {}, {}, nullptr});
  const call_meter meter(on.where());
  next.end();
  EXPECT_EQ(meter.calls(), calls{});
  EXPECT_EQ(on.stats().skipped, 1U);
  on.finalize();
}

}  // namespace
}  // namespace millstream::test
