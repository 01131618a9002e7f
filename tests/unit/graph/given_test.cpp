// SPDX-License-Identifier: Apache-2.0
/// Graphs that recorded contexts give out, and graphs that contexts take in: on the host machine,
/// in orders chosen by seed, and on the null machine.
#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/graph/engine.hpp"

namespace millstream::test {
namespace {

using numbers = std::vector<std::int64_t>;

void add(untyped_context& on, exec_place place, const untyped_data& to, std::int64_t value) {
  run(on, place, {to.rw()}, [value](const body_call& call) { first<std::int64_t>(call) += value; });
}

task_spec spec_of(std::span<const task_dep> deps, std::string_view name = {}) {
  task_spec what;
  what.symbol = name;
  what.deps = deps;
  return what;
}

void add_graph(untyped_context& on, const recorded_graph& graph,
               std::initializer_list<task_dep> deps, std::string_view name = {}) {
  on.add_graph(spec_of({deps.begin(), deps.size()}, name), graph);
}

class GivenGraph : public testing::TestWithParam<std::uint64_t> {
 protected:
  [[nodiscard]] untyped_context open() { return open_recorded("host", 2, GetParam()); }
  [[nodiscard]] untyped_context open_immediate() { return test::open("host", 2, GetParam()); }
  void launch(recorded_graph& graph) { synchronize(graph.launch()); }
  /// Adds 1 to the buffer on one device, doubles it on another, and counts its launches.
  [[nodiscard]] recorded_graph twice_plus_one(numbers& buffer, std::atomic<int>* ran = nullptr) {
    untyped_context on = open();
    const untyped_data x = registered(on, buffer, "x");
    const untyped_data scratch = on.make_data(8, "scratch");
    run(on, exec_place::device(0), {x.rw()}, [ran](const body_call& call) {
      first<std::int64_t>(call) += 1;
      if (ran != nullptr) ++*ran;
    });
    run(on, exec_place::device(1), {x.read(), scratch.write()}, [](const body_call& call) {
      first<std::int64_t>(call, 1) = first<std::int64_t>(call) * 2;
    });
    run(on, exec_place::device(0), {x.write(), scratch.read()},
        [](const body_call& call) { first<std::int64_t>(call) = first<std::int64_t>(call, 1); });
    return on.to_graph();
  }
};
INSTANTIATE_TEST_SUITE_P(Seeds, GivenGraph, testing::Range<std::uint64_t>(0, 8));

TEST_P(GivenGraph, EachLaunchDoesAllOfIt) {
  numbers x{1};
  std::atomic<int> ran{0};
  recorded_graph graph = twice_plus_one(x, &ran);
  EXPECT_EQ(ran, 0);
  EXPECT_EQ(x[0], 1);
  for (const std::int64_t wanted : {4, 10, 22}) {
    launch(graph);
    EXPECT_EQ(x[0], wanted);
  }
  EXPECT_EQ(ran, 3);
}

TEST_P(GivenGraph, LaunchesReadTheBuffersAsTheyAreThen) {
  numbers x{1};
  recorded_graph graph = twice_plus_one(x);
  for (const std::int64_t value : {7, -3, 0}) {
    x[0] = value;
    launch(graph);
    EXPECT_EQ(x[0], 2 * (value + 1));
  }
}

TEST_P(GivenGraph, LaunchesWithoutWaitingDoNotOverlap) {
  numbers x{0};
  untyped_context on = open();
  const untyped_data data = registered(on, x);
  for (int i = 0; i < 5; ++i)
    add(on, exec_place::device(i % 2), data, 1);
  recorded_graph graph = on.to_graph();
  std::uint64_t last = 0;
  for (int i = 0; i < 20; ++i)
    last = graph.launch();
  synchronize(last);
  EXPECT_EQ(x[0], 100);
}

TEST_P(GivenGraph, TheContextIsOver) {
  numbers x{1};
  untyped_context on = open();
  const untyped_data data = registered(on, x);
  add(on, {}, data, 1);
  recorded_graph graph = on.to_graph();
  EXPECT_TRUE(on.is_finished());
  EXPECT_EQ(thrown([&] { add(on, {}, data, 1); }), errc::usage);
  EXPECT_EQ(thrown([&] { static_cast<void>(on.to_graph()); }), errc::usage);
  on.finish();
  EXPECT_EQ(x[0], 1);
  launch(graph);
  EXPECT_EQ(x[0], 2);
}

TEST_P(GivenGraph, WithoutTasksItIsLaunchedToo) {
  untyped_context on = open();
  recorded_graph graph = on.to_graph();
  EXPECT_EQ(graph.node_count(), 0U);
  EXPECT_EQ(graph.handle(), 0U);
  launch(graph);
  launch(graph);
}

TEST_P(GivenGraph, KeepsWhatItUsesUntilItIsGone) {
  auto buffer = std::make_shared<numbers>(numbers{1});
  auto in_body = std::make_shared<std::int64_t>(5);
  const std::weak_ptr<numbers> buffer_there = buffer;
  const std::weak_ptr<std::int64_t> body_there = in_body;
  std::int64_t* const seen = buffer->data();
  recorded_graph graph;
  {
    untyped_context on = open();
    registration what;
    what.block = buffer->data();
    what.bytes = 8;
    what.owner = std::exchange(buffer, nullptr);
    const untyped_data data = on.register_data(what);
    run(on, {}, {data.rw()}, [kept = std::exchange(in_body, nullptr)](const body_call& call) {
      first<std::int64_t>(call) += *kept;
    });
    graph = on.to_graph();
  }
  launch(graph);
  launch(graph);
  EXPECT_EQ(*seen, 11);
  EXPECT_FALSE(buffer_there.expired());
  EXPECT_FALSE(body_there.expired());
  graph = {};
  while (!buffer_there.expired() || !body_there.expired())  // on a thread of the library's, soon
    std::this_thread::yield();
}

TEST_P(GivenGraph, MayGoWhileALaunchIsOnItsWay) {
  std::latch hold(1);
  std::latch gone(1);
  numbers x{0};
  std::uint64_t stream = 0;
  {
    untyped_context on = open();
    const untyped_data data = registered(on, x);
    run(on, exec_place::device(1), {data.rw()},
        [&hold, end = std::shared_ptr<void>(nullptr, [&](void*) { gone.count_down(); })](
            const body_call& call) {
          if (GetParam() == 0) hold.wait();
          first<std::int64_t>(call) += 3;
        });
    recorded_graph graph = on.to_graph();
    stream = graph.launch();
  }
  hold.count_down();
  synchronize(stream);
  EXPECT_EQ(x[0], 3);
  gone.wait();
}

TEST_P(GivenGraph, AFailureSpoilsItsLaunchOnly) {
  numbers x{0};
  numbers y{0};
  std::atomic<bool> fails{false};
  untyped_context on = open();
  const untyped_data a = registered(on, x, "a");
  const untyped_data b = registered(on, y, "b");
  run(
      on, {}, {a.rw()},
      [&](const body_call& call) {
        if (fails) throw std::runtime_error("boom");
        first<std::int64_t>(call) += 1;
      },
      "first");
  run(on, exec_place::device(1), {a.read(), b.write()},
      [](const body_call& call) { first<std::int64_t>(call, 1) = first<std::int64_t>(call) * 10; });
  recorded_graph graph = on.to_graph();
  launch(graph);
  EXPECT_EQ(x[0], 1);
  EXPECT_EQ(y[0], 10);
  graph.check_errors();
  fails = true;
  x[0] = 40;
  launch(graph);
  EXPECT_EQ(x[0], 40);
  EXPECT_EQ(y[0], 10);
  std::string text;
  EXPECT_EQ(thrown([&] { graph.check_errors(); }, &text), errc::task_failed);
  EXPECT_TRUE(contains(text, "'first'")) << text;
  fails = false;
  launch(graph);
  EXPECT_EQ(x[0], 41);
  EXPECT_EQ(y[0], 410);
  graph.check_errors();
}

TEST_P(GivenGraph, IsOneTaskOfAnotherRecording) {
  numbers x{1};
  recorded_graph graph = twice_plus_one(x);
  numbers log;
  {
    untyped_context outer = open();
    const untyped_data order = outer.make_token("order");
    for (int i = 0; i < 3; ++i) {
      add_graph(outer, graph, {order.rw()}, "part");
      run(outer, exec_place::device(1), {order.rw()},
          [&](const body_call&) { log.push_back(x[0]); });
    }
    graph = {};
    outer.finish();
    EXPECT_EQ(recorded(outer).stages, 1U);
    EXPECT_EQ(recorded(outer).nodes, 9U);  // each graph, a look at how it went, and what follows
  }
  EXPECT_EQ(log, (numbers{4, 10, 22}));
}

TEST_P(GivenGraph, IsOneTaskOfAnImmediateContext) {
  numbers x{1};
  recorded_graph graph = twice_plus_one(x);
  numbers log;
  untyped_context outer = open_immediate();
  const untyped_data order = outer.make_token("order");
  for (int i = 0; i < 3; ++i) {
    add_graph(outer, graph, {order.rw()});
    run(outer, exec_place::device(1), {order.rw()}, [&](const body_call&) { log.push_back(x[0]); });
  }
  graph = {};
  outer.finish();
  EXPECT_EQ(log, (numbers{4, 10, 22}));
}

TEST_P(GivenGraph, GraphsOfGraphsAreLaunchedOften) {
  numbers x{1};
  recorded_graph graph = twice_plus_one(x);
  for (int depth = 0; depth < 3; ++depth) {
    untyped_context outer = open();
    const untyped_data order = outer.make_token();
    add_graph(outer, graph, {order.rw()});
    add_graph(outer, graph, {order.rw()});
    graph = outer.to_graph();
  }
  launch(graph);
  std::int64_t wanted = 1;
  for (int i = 0; i < 8; ++i)
    wanted = 2 * (wanted + 1);
  EXPECT_EQ(x[0], wanted);
}

TEST_P(GivenGraph, IsSkippedBehindAFailure) {
  numbers x{1};
  std::atomic<int> ran{0};
  const recorded_graph graph = twice_plus_one(x, &ran);
  for (const bool use_graph : {false, true}) {
    untyped_context outer = use_graph ? open() : open_immediate();
    const untyped_data data = outer.make_data(8, "data");
    const untyped_data after = outer.make_data(8, "after");
    untyped_task bad(outer);
    bad.add_dep(data.write());
    bad.set_kind(task_kind::cuda_kernel);
    bad.start();
    bad.fail(std::make_exception_ptr(std::runtime_error("boom")));
    add_graph(outer, graph, {data.read(), after.write()});
    EXPECT_EQ(outer.stats().skipped, 1U);
    outer.finish();
  }
  EXPECT_EQ(ran, 0);
}

TEST_P(GivenGraph, AFailureInsideIsThatOfTheTaskThatTookIt) {
  numbers x{1};
  std::atomic<bool> fails{true};
  untyped_context inner = open();
  const untyped_data a = registered(inner, x, "a");
  run(inner, {}, {a.read()}, [&](const body_call&) {
    if (fails) throw std::out_of_range("boom");
  });
  const recorded_graph graph = inner.to_graph();
  for (const bool use_graph : {false, true}) {
    numbers y{5};
    untyped_context outer = use_graph ? open() : open_immediate();
    const untyped_data order = outer.make_token("order");
    const untyped_data b = registered(outer, y, "b");
    std::atomic<int> ran{0};
    for (const bool now_fails : {true, false}) {
      fails = now_fails;
      add_graph(outer, graph, {order.write(), b.rw(data_place::host())}, "part");
      run(outer, exec_place::device(1), {order.read(), b.rw()}, [&](const body_call&) { ++ran; });
      std::string text;
      const errc answer = thrown([&] { (void)content<std::int64_t>(outer, b); }, &text);
      EXPECT_EQ(answer, errc::poisoned);  // for good: nobody has written it anew
      EXPECT_TRUE(contains(text, "'part'")) << text;
      EXPECT_EQ(ran, 0);
    }
    const std::vector<failure> failed = outer.take_failures();
    ASSERT_EQ(failed.size(), 1U);
    EXPECT_EQ(failed[0].task, "task 'part'");
    EXPECT_EQ(failed[0].data, "'order', 'b'");
    EXPECT_THROW(std::rethrow_exception(failed[0].cause), std::out_of_range);
    // A launch without a failure heals what it writes.
    add_graph(outer, graph, {order.write(), b.write(data_place::host())});
    run(outer, exec_place::device(1), {order.read(), b.read()}, [&](const body_call&) { ++ran; });
    outer.finish();
    EXPECT_EQ(ran, 1);
    EXPECT_TRUE(outer.take_failures().empty());
    EXPECT_EQ(y[0], 5);
  }
}

TEST_P(GivenGraph, WhatCannotBeGivenOutLeavesTheContextAsItWas) {
  std::string text;
  untyped_context immediate = open_immediate();
  EXPECT_EQ(thrown([&] { static_cast<void>(immediate.to_graph()); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "use_graph")) << text;
  immediate.finish();

  numbers x{1};
  untyped_context on = open();
  const untyped_data data = registered(on, x);
  untyped_task held(on);
  held.add_dep(data.rw());
  held.set_symbol("held");
  held.set_kind(task_kind::cuda_kernel);
  held.start();
  EXPECT_EQ(thrown([&] { static_cast<void>(on.to_graph()); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "to_graph was called while task 'held'")) << text;
  held.end();
  static_cast<void>(on.fence());
  EXPECT_EQ(thrown([&] { static_cast<void>(on.to_graph()); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "launched")) << text;
  add(on, {}, data, 4);
  on.finish();
  EXPECT_EQ(x[0], 5);
}

TEST_P(GivenGraph, WhatRanByItselfWouldBeMissing) {
  numbers x{1};
  untyped_context on = open();
  const untyped_data data = registered(on, x);
  untyped_task by_caller(on);
  by_caller.add_dep(data.rw());
  by_caller.set_symbol("by caller");
  by_caller.start();
  *static_cast<std::int64_t*>(by_caller.pointer(0)) = 8;
  by_caller.end();
  std::string text;
  EXPECT_EQ(thrown([&] { static_cast<void>(on.to_graph()); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "task 'by caller'")) << text;
  on.finish();
  EXPECT_EQ(x[0], 8);
}

TEST_P(GivenGraph, FailuresNobodySawAreThrownFirst) {
  numbers x{1};
  untyped_context on = open();
  const untyped_data data = registered(on, x);
  untyped_task bad(on);
  bad.add_dep(data.rw());
  bad.set_kind(task_kind::cuda_kernel);
  bad.start();
  bad.fail(std::make_exception_ptr(std::runtime_error("boom")));  // the caller has seen it
  recorded_graph graph = on.to_graph();
  launch(graph);
  EXPECT_EQ(x[0], 1);
}

TEST_P(GivenGraph, ATaskThatTakesAGraphIsCheckedBeforeAnythingChanges) {
  numbers x{1};
  const recorded_graph graph = twice_plus_one(x);
  untyped_context on = open_immediate();
  const untyped_data order = on.make_token("order");
  const std::vector<task_dep> deps{order.rw()};
  std::string text;
  task_spec what = spec_of(deps, "part");
  EXPECT_EQ(thrown([&] { on.add_graph(what, std::uint64_t{4096}); }, &text), errc::unsupported);
  EXPECT_TRUE(contains(text, "task 'part'") && contains(text, "to_graph")) << text;
  EXPECT_EQ(thrown([&] { on.add_graph(what, recorded_graph()); }), errc::invalid_value);
  what.place = exec_place::host();
  EXPECT_EQ(thrown([&] { on.add_graph(what, graph); }, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text, "host place")) << text;
  untyped_context elsewhere = test::open("host", 3, GetParam());
  const untyped_data other = elsewhere.make_token();
  EXPECT_EQ(thrown([&] { add_graph(elsewhere, graph, {other.rw()}); }, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text, "machine")) << text;
  elsewhere.finish();
  on.finish();
  EXPECT_EQ(on.stats().tasks, 0U);
}

TEST(GivenGraphCounts, ANodeEachAndOneInstantiation) {
  untyped_context on = open_recorded("null", 2);
  const machine where = on.where();
  numbers x{1};
  const untyped_data data = registered(on, x);
  for (int i = 0; i < 10; ++i)
    add(on, exec_place::device(i % 2), data, 1);
  recorded_graph graph = on.to_graph();
  EXPECT_EQ(graph.node_count(), recorded(on).nodes);
  const call_meter meter(where);
  for (int i = 0; i < 5; ++i)
    static_cast<void>(graph.launch());
  const auto calls = meter.calls();
  EXPECT_EQ(calls.at("graph_instantiate"), 1U);
  EXPECT_EQ(calls.at("graph_launch"), 5U);
  EXPECT_EQ(calls.count("graph_add"), 0U);
}

TEST(GivenGraphCounts, AnAddedGraphIsOneNodeAndUpdatedWithItsStage) {
  recorded_graph graph;
  {
    untyped_context on = open_recorded("null", 1);
    const untyped_data data = on.make_data(8);
    run(on, {}, {data.write()}, nothing);
    graph = on.to_graph();
  }
  shared_resources shared;
  for (int turn = 0; turn < 4; ++turn) {
    context_options options;
    options.on = machine({.name = "null", .devices = 1, .seed = {}});
    options.use_graph = true;
    options.resources = shared;
    untyped_context outer(std::move(options));
    const untyped_data order = outer.make_token();
    for (int i = 0; i < 3; ++i)
      add_graph(outer, graph, {order.rw()});
    outer.finish();
    EXPECT_EQ(recorded(outer).nodes, 3U);
    EXPECT_EQ(recorded(outer).instantiations, turn == 0 ? 1U : 0U);
    EXPECT_EQ(recorded(outer).updates, turn == 0 ? 0U : 1U);
  }
}

}  // namespace
}  // namespace millstream::test
