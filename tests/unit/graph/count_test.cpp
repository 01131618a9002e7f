// SPDX-License-Identifier: Apache-2.0
/// What recording costs, exactly, on the machine that counts and runs nothing.
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/machine.hpp"

#include "tests/unit/core/drawn.hpp"
#include "tests/unit/core/heap_meter.hpp"
#include "tests/unit/graph/engine.hpp"

namespace millstream::test {
namespace {

using calls = std::map<std::string, std::uint64_t>;

/// A chain of tasks on one datum, as one stage.
void record_chain(untyped_context& on, const std::vector<task_dep>& deps, int tasks) {
  for (int i = 0; i < tasks; ++i)
    run(on, {}, deps, nothing);
  static_cast<void>(on.fence());
}

TEST(RecordedCounts, ATaskIsOneNodeAndNoOtherCall) {
  untyped_context on = open_recorded("null", 1);
  const untyped_data x = on.make_data(64);
  run(on, {}, {x.write()}, nothing);
  static_cast<void>(on.fence());
  const std::vector<task_dep> deps{x.rw()};
  const call_meter meter(on.where());
  for (int i = 0; i < 1000; ++i)
    run(on, {}, deps, nothing);
  EXPECT_EQ(meter.calls(), (calls{{"make_graph", 1}, {"graph_add", 1000}, {"host_node", 1000}}));
  on.finish();
}

TEST(RecordedCounts, TheSameShapeAgainIsOneUpdateAndOneLaunch) {
  untyped_context on = open_recorded("null", 1);
  const untyped_data x = on.make_data(64);
  run(on, {}, {x.write()}, nothing);
  const std::vector<task_dep> deps{x.rw()};
  record_chain(on, deps, 49);
  record_chain(on, deps, 50);
  const recording_stats before = recorded(on);
  for (int stage = 0; stage < 10; ++stage)
    record_chain(on, deps, 50);
  const recording_stats after = recorded(on);
  EXPECT_EQ(after.instantiations - before.instantiations, 0U);
  EXPECT_EQ(after.updates - before.updates, 10U);
  EXPECT_EQ(after.hits - before.hits, 10U);
  EXPECT_EQ(after.refused_updates, 0U);
  EXPECT_EQ(after.stages - before.stages, 10U);
  EXPECT_EQ(after.nodes - before.nodes, 500U);
  EXPECT_EQ(after.child_graphs, 0U);
  on.finish();
}

TEST(RecordedCounts, ALongStageCostsPerTaskWhatAShortOneDoes) {
  for (const int tasks : {50, 50'000}) {
    untyped_context on = open_recorded("null", 1);
    const untyped_data x = on.make_data(64);
    run(on, {}, {x.write()}, nothing);
    const std::vector<task_dep> deps{x.rw()};
    record_chain(on, deps, tasks);
    record_chain(on, deps, tasks);
    record_chain(on, deps, tasks);
    const call_meter meter(on.where());
    const std::uint64_t heap = heap_allocations();
    for (int i = 0; i < tasks; ++i)
      run(on, {}, deps, nothing);
    const std::uint64_t taken = heap_allocations() - heap;
    const auto count = static_cast<std::uint64_t>(tasks);
    EXPECT_EQ(meter.calls().at("graph_add"), count);
    if (!pools_are_off) {
      EXPECT_EQ(taken, 1U) << "the graph itself; for " << tasks << " tasks";
    }
    on.finish();
  }
}

TEST(RecordedCounts, ManyReadersOfOneDatumAreLinear) {
  untyped_context on = open_recorded("null", 1);
  const untyped_data x = on.make_data(64);
  run(on, {}, {x.write()}, nothing);
  const std::vector<task_dep> reads{x.read()};
  for (int i = 0; i < 50'000; ++i)
    run(on, {}, reads, nothing);
  run(on, {}, {x.write()}, nothing);
  static_cast<void>(on.fence());
  EXPECT_EQ(recorded(on).nodes, 50'002U);
  on.finish();
}

/// A kernel task that launches nothing, so that it is order only.
void run_empty(untyped_context& on, const std::vector<task_dep>& deps) {
  untyped_task task(on);
  task.set_kind(task_kind::cuda_kernel);
  for (const task_dep& each : deps)
    task.add_dep(each);
  task.start();
  task.end();
}

// Each layer comes after all of the one before.
TEST(RecordedCounts, LayersOfEmptyTasksKeepEachPredecessorOnce) {
  constexpr std::size_t width = 8;
  untyped_context on = open_recorded("null", 1);
  std::vector<untyped_data> layer;
  for (std::size_t i = 0; i < width; ++i) {
    layer.push_back(on.make_token());
    run(on, {}, {layer.back().write()}, nothing);
  }
  for (int depth = 0; depth < 40; ++depth) {
    std::vector<task_dep> reads;
    for (const untyped_data& each : layer)
      reads.push_back(each.read());
    std::vector<untyped_data> next;
    for (std::size_t i = 0; i < width; ++i) {
      std::vector<task_dep> deps = reads;
      next.push_back(on.make_token());
      deps.push_back(next.back().write());
      run_empty(on, deps);
    }
    layer.swap(next);
  }
  std::vector<task_dep> last;
  for (const untyped_data& each : layer)
    last.push_back(each.read());
  run(on, {}, last, nothing);
  static_cast<void>(on.fence());
  EXPECT_EQ(recorded(on).nodes, width + 1);
  EXPECT_EQ(edges(on), width);
  on.finish();
}

// Sixteen edges more for each of the others would be fewer nodes by one.
TEST(RecordedCounts, AnEmptyTaskBetweenManyIsANodeOfItsOwn) {
  constexpr std::size_t width = 1000;
  untyped_context on = open_recorded("null", 1);
  const untyped_data join = on.make_token();
  const std::vector<task_dep> reads{join.read()};
  for (int layer = 0; layer < 3; ++layer) {
    for (std::size_t i = 0; i < width; ++i)
      run(on, {}, reads, nothing);
    run_empty(on, {join.rw()});
  }
  run(on, {}, reads, nothing);  // only one waits for the last
  static_cast<void>(on.fence());
  EXPECT_EQ(recorded(on).nodes, 3 * width + 2 + 1);
  // Of each of the two: to it, from it, and the first that comes after it.
  EXPECT_EQ(edges(on), 2 * (width + width + (width - 1)) + width);
  on.finish();
}

// Neither the ones nor the others have an order among themselves, so that no edge can be left out.
TEST(RecordedCounts, AJoinOfEmptyTasksIsAnEdgeForEachPair) {
  untyped_context on = open_recorded("null", 1);
  std::vector<task_dep> before;
  const untyped_data join = on.make_token();
  for (int i = 0; i < 5; ++i) {
    const untyped_data each = on.make_token();
    run(on, {}, {each.write()}, nothing);
    before.push_back(each.read());
  }
  before.push_back(join.write());
  run_empty(on, before);
  for (int i = 0; i < 7; ++i)
    run(on, {}, {join.read()}, nothing);
  static_cast<void>(on.fence());
  EXPECT_EQ(recorded(on).nodes, 12U);
  EXPECT_EQ(edges(on), 35U);
  on.finish();
}

TEST(RecordedCounts, AnEmptyStageIsNotLaunched) {
  untyped_context on = open_recorded("null", 1);
  static_cast<void>(on.fence());
  static_cast<void>(on.fence());
  on.finish();
  EXPECT_EQ(recorded(on).stages, 0U);
}

TEST(RecordedCounts, CopiesAndFillsAreNodes) {
  untyped_context on = open_recorded("null", 2);
  std::vector<double> buffer(8, 1.0);
  const untyped_data x = registered(on, buffer);
  const untyped_data y = on.make_data(64);
  const std::byte zero{0};
  on.fill(y.write(), {&zero, 1});
  run(on, exec_place::device(0), {x.read(), y.rw()}, nothing);
  run(on, exec_place::device(1), {x.read(), y.rw()}, nothing);
  const call_meter meter(on.where());
  static_cast<void>(on.fence());
  EXPECT_EQ(recorded(on).nodes, 1U + 2U + 2U + 1U);  // fill, tasks, x to both, y to device 1
  EXPECT_EQ(meter.calls().count("copy"), 0U);
  EXPECT_EQ(meter.calls().count("fill"), 0U);
  on.finish();
}

TEST(RecordedCounts, ContextsThatShareResourcesShareExecutables) {
  context_options options;
  options.on = machine({.name = "null", .devices = 1});
  options.use_graph = true;
  options.resources.emplace();
  for (int i = 0; i < 3; ++i) {
    untyped_context on(options);
    const untyped_data x = on.make_data(64);
    record_chain(on, {x.write()}, 10);
    on.finish();
    EXPECT_EQ(recorded(on).instantiations, i == 0 ? 1U : 0U);
    EXPECT_EQ(recorded(on).updates, i == 0 ? 0U : 1U);
  }
  EXPECT_EQ(options.resources->executables(), 1U);
}

TEST(RecordedCounts, AMissSaysWhy) {
  untyped_context on = open_recorded("null", 1);
  const untyped_data x = on.make_data(64);
  record_chain(on, {x.write()}, 10);
  record_chain(on, {x.write()}, 11);
  EXPECT_EQ(recorded(on).instantiations, 2U);
  EXPECT_EQ(recorded(on).last_miss, "no executable of this shape (11 nodes) was kept");
  EXPECT_EQ(recorded(on).misses.new_shape, 2U);
  on.finish();
}

std::vector<std::uint64_t> misses_of(const untyped_context& on) {
  const recording_misses now = recorded(on).misses;
  return {now.new_shape, now.evicted, now.too_large, now.policy, now.busy, now.refused, now.lost};
}

/// A context on the null machine whose executables are kept up to that many bytes.
context_options with_limit(std::size_t bytes) {
  context_options options;
  options.on = machine({.name = "null", .devices = 1});
  options.use_graph = true;
  options.resources.emplace(bytes);
  return options;
}

std::size_t bytes_of_chain(int tasks) {
  const context_options options = with_limit(std::size_t{1} << 30U);
  untyped_context on(options);
  const untyped_data x = on.make_data(64);
  record_chain(on, {x.write()}, tasks);
  on.finish();
  return options.resources->bytes();
}

TEST(RecordedCounts, MissesAreCountedByReason) {
  const context_options options = with_limit(bytes_of_chain(11));
  untyped_context on(options);
  const untyped_data x = on.make_data(64);
  record_chain(on, {x.write()}, 10);
  record_chain(on, {x.write()}, 10);
  EXPECT_EQ(misses_of(on), (std::vector<std::uint64_t>{1, 0, 0, 0, 0, 0, 0}));
  record_chain(on, {x.write()}, 11);  // takes the room of the one with 10
  record_chain(on, {x.write()}, 10);
  EXPECT_EQ(misses_of(on), (std::vector<std::uint64_t>{2, 1, 0, 0, 0, 0, 0}));
  record_chain(on, {x.write()}, 12);
  record_chain(on, {x.write()}, 12);
  EXPECT_EQ(misses_of(on), (std::vector<std::uint64_t>{3, 1, 1, 0, 0, 0, 0}));
  shared_resources shared = *options.resources;
  shared.set_policy([](const executable_info&) { return false; });
  record_chain(on, {x.write()}, 9);
  record_chain(on, {x.write()}, 9);
  EXPECT_EQ(misses_of(on), (std::vector<std::uint64_t>{4, 1, 1, 1, 0, 0, 0}));
  shared.set_policy([](const executable_info&) -> bool { throw error(errc::usage, "no opinion"); });
  record_chain(on, {x.write()}, 8);
  record_chain(on, {x.write()}, 8);
  EXPECT_EQ(misses_of(on), (std::vector<std::uint64_t>{5, 1, 1, 1, 0, 0, 1}));
  EXPECT_EQ(recorded(on).instantiations, 9U);
  on.finish();
}

// It is asked when the call has let go of the context, also if that throws.
TEST(RecordedCounts, ThePolicyMayUseTheContext) {
  context_options options = with_limit(std::size_t{1} << 30U);
  shared_resources shared = *options.resources;
  untyped_context on(std::move(options));
  const untyped_data x = on.make_data(64);
  std::vector<std::uint64_t> nodes;
  shared.set_policy([&](const executable_info& what) {
    nodes.push_back(what.nodes);
    if (what.nodes == 3) record_chain(on, {x.write()}, 2);
    return what.nodes != recorded(on).stages;
  });
  record_chain(on, {x.write()}, 3);
  EXPECT_EQ(nodes, (std::vector<std::uint64_t>{3, 2}));
  EXPECT_EQ(recorded(on).stages, 2U);
  EXPECT_EQ(shared.executables(), 1U);  // the one with 3 nodes
  const untyped_data never = on.make_data(64);
  run(on, {}, {x.write()}, nothing);
  std::byte there[64];
  EXPECT_THROW(on.read_back(never, there), error);
  EXPECT_EQ(nodes.size(), recorded(on).stages);
  static_cast<void>(on.fence());
  EXPECT_EQ(nodes, (std::vector<std::uint64_t>{3, 2, 1}));
  shared.set_policy({});
  on.finish();
}

TEST(RecordedCounts, AFailedLaunchLosesItsExecutable) {
  untyped_context on = open_recorded("null", 1);
  const untyped_data x = on.make_data(64);
  record_chain(on, {x.write()}, 10);
  backend::fault_plan plan;
  plan.kind = backend::call::graph_launch;
  plan.nth = 1;
  on.where().state()->driver().set_fault_plan(plan);
  record_chain(on, {x.write()}, 10);
  record_chain(on, {x.write()}, 10);
  EXPECT_EQ(misses_of(on), (std::vector<std::uint64_t>{1, 0, 0, 0, 0, 0, 1}));
  on.finish();
}

}  // namespace
}  // namespace millstream::test
