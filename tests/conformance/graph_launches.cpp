// SPDX-License-Identifier: Apache-2.0
/// Executable graphs: launches among other work, updates, and the end of everything they need.
#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/conformance/graph_promise.hpp"

namespace conformance {
namespace {

using graph_calls = graph_promise<>;
using graph_launches = graph_promise<capability::values>;
using graph_updates = graph_promise<capability::values>;
using graph_ends = graph_promise<capability::values>;

TEST_F(graph_launches, KeepTheirPlaceInTheQueue) {
  backend::queue& queue = queue_on(0);
  std::byte* from = take(0, 1000, queue);
  std::byte* to = take(0, 1000, queue);
  const graph_ptr graph = new_graph();
  static_cast<void>(copy_node(*graph, copy_of(to, 0, from, 0, 1000)));
  const executable_ptr whole = value(graph->instantiate());
  fill(queue, 0, from, 1000, 1);
  ok(whole->launch(queue));
  fill(queue, 0, from, 1000, 2);
  EXPECT_EQ(read(queue, 0, to, 1000), bytes(1000, std::byte{1}));
  EXPECT_EQ(read(queue, 0, from, 1000), bytes(1000, std::byte{2}));
}

TEST_F(graph_launches, MarksBehindThemWaitForThem) {
  backend::queue& queue = queue_on(0);
  backend::queue& other = queue_on(last_device());
  std::byte* block = take(0, 1000, queue);
  bytes got(1000);
  const graph_ptr graph = new_graph();
  const graph_node one = fill_node(*graph, 0, block, 1000, 1);
  static_cast<void>(fill_node(*graph, 0, block, 1000, 5, {one}));
  ok(value(graph->instantiate())->launch(queue));
  put_behind(queue, other);
  ok(other.copy(copy_of(got.data(), -1, block, 0, 1000)));
  finish(other);
  EXPECT_EQ(got, bytes(1000, std::byte{5}));
}

TEST_F(graph_launches, ReturnAtOnceAndWaitForTheirTurn) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  fill(queue, 0, block, 100, 1);
  finish(queue);
  const graph_ptr graph = new_graph();
  static_cast<void>(fill_node(*graph, 0, block, 100, 2));
  const executable_ptr whole = value(graph->instantiate());
  gate hold(*this, queue);
  ok(whole->launch(queue));
  backend::queue& other = queue_on(0);
  EXPECT_EQ(read(other, 0, block, 100), bytes(100, std::byte{1}));
  hold.open();
  EXPECT_EQ(read(queue, 0, block, 100), bytes(100, std::byte{2}));
}

TEST_F(graph_launches, OfOneExecutableNeverOverlap) {
  std::atomic<int> inside{0};
  std::atomic<int> overlaps{0};
  static_job enter([&] {
    if (inside.fetch_add(1) != 0) overlaps.fetch_add(1);
    std::this_thread::yield();
  });
  static_job leave([&] { inside.fetch_sub(1); });
  const graph_ptr graph = new_graph();
  const graph_node first = host_node(*graph, enter);
  static_cast<void>(host_node(*graph, leave, {first}));
  const executable_ptr whole = value(graph->instantiate());
  backend::queue& one = queue_on(0);
  backend::queue& other = queue_on(last_device());
  for (int i = 0; i < 20; ++i) {
    ok(whole->launch(one));
    ok(whole->launch(other));
  }
  finish(one);
  finish(other);
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(enter.log.runs, 40);
  EXPECT_EQ(leave.log.runs, 40);
}

TEST_F(graph_launches, TakeTheOrderOfTheCalls) {
  backend::queue& one = queue_on(0);
  backend::queue& other = queue_on(0);
  std::byte* block = take(0, 4, one);
  std::byte* got = take(-1, 4, one);  // no graph reads other memory of the host at its turn
  std::fill_n(got, 4, std::byte{});
  const graph_ptr graph = new_graph();
  static_cast<void>(copy_node(*graph, copy_of(block, 0, got, -1, 4)));
  const executable_ptr whole = value(graph->instantiate());
  gate hold(*this, one);
  static_job note([&] { std::fill_n(got, 4, std::byte{6}); });
  const graph_ptr first = new_graph();
  static_cast<void>(host_node(*first, note));
  const executable_ptr noted = value(first->instantiate());
  ok(noted->launch(one));
  ok(whole->launch(one));
  ok(whole->launch(other));  // behind the one that is held, though its own queue is free
  hold.open();
  finish(one);
  EXPECT_EQ(read(other, 0, block, 4), bytes(4, std::byte{6}));
}

TEST_F(graph_updates, GiveTheNextLaunchOtherParameters) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 1000, queue);
  std::byte* first = take(-1, 1000, queue);  // launches may wait for copies to other memory
  std::byte* second = take(-1, 500, queue);
  const auto record = [&](std::byte* into, std::size_t count, int with) {
    graph_ptr graph = new_graph();
    const graph_node filled = fill_node(*graph, 0, block, count, with);
    static_cast<void>(copy_node(*graph, copy_of(into, -1, block, 0, count), {filled}));
    return graph;
  };
  const executable_ptr whole = value(record(first, 1000, 1)->instantiate());
  gate hold(*this, queue);
  ok(whole->launch(queue));
  ok(record(second, 500, 2)->update(*whole));  // the launch on its way is not changed
  ok(whole->launch(queue));
  hold.open();
  finish(queue);
  EXPECT_EQ(bytes(first, first + 1000), bytes(1000, std::byte{1}));
  EXPECT_EQ(bytes(second, second + 500), bytes(500, std::byte{2}));
}

TEST_F(graph_updates, ReachTheNodesOfChildren) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  const auto record = [&](int with) {
    const graph_ptr child = new_graph();
    static_cast<void>(fill_node(*child, 0, block, 100, with));
    graph_ptr graph = new_graph();
    static_cast<void>(value(graph->add_child(*child, {})));
    return graph;
  };
  const executable_ptr whole = value(record(1)->instantiate());
  ok(record(2)->update(*whole));
  ok(whole->launch(queue));
  EXPECT_EQ(read(queue, 0, block, 100), bytes(100, std::byte{2}));
}

TEST_F(graph_updates, CallTheNewJobs) {
  static_job old;
  static_job fresh;
  const auto record = [&](backend::job& what) {
    graph_ptr graph = new_graph();
    static_cast<void>(host_node(*graph, what));
    return graph;
  };
  const executable_ptr whole = value(record(old)->instantiate());
  ok(record(fresh)->update(*whole));
  backend::queue& queue = queue_on(0);
  ok(whole->launch(queue));
  finish(queue);
  EXPECT_EQ(old.calls(), 0);
  EXPECT_EQ(fresh.log.runs, 1);
}

TEST_F(graph_calls, AnUpdateToAnotherShapeIsRefusedAndTheTargetStays) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 200, queue);
  static_job job;
  const auto start = [&](backend::graph& in) { return fill_node(in, 0, block, 100, 1); };
  const graph_ptr graph = new_graph();
  static_cast<void>(host_node(*graph, job, {start(*graph)}));
  const executable_ptr whole = value(graph->instantiate());
  int launches = 0;
  const auto expect_refused = [&](backend::graph& other) {
    const backend::status answer = other.update(*whole);
    EXPECT_EQ(answer.code(), errc::unsupported);
    EXPECT_FALSE(answer.text().empty());
    ok(whole->launch(queue));
    finish(queue);
    EXPECT_EQ(job.calls(), ++launches);
  };
  expect_refused(*new_graph());
  const graph_ptr unjoined = new_graph();
  static_cast<void>(start(*unjoined));
  static_cast<void>(host_node(*unjoined, job));
  expect_refused(*unjoined);
  const graph_ptr more = new_graph();
  const graph_node filled = start(*more);
  static_cast<void>(host_node(*more, job, {filled}));
  static_cast<void>(host_node(*more, job, {filled}));
  expect_refused(*more);
  const graph_ptr other_kind = new_graph();
  const graph_node from = start(*other_kind);
  static_cast<void>(copy_node(*other_kind, copy_of(block + 100, 0, block, 0, 100), {from}));
  expect_refused(*other_kind);
  ok(graph->update(*whole));
}

TEST_F(graph_calls, AGraphGrowsAfterItWasInstantiated) {
  static_job job;
  const graph_ptr graph = new_graph();
  const graph_node first = host_node(*graph, job);
  const executable_ptr small = value(graph->instantiate());
  static_cast<void>(host_node(*graph, job, {first}));
  const executable_ptr large = value(graph->instantiate());
  backend::queue& queue = queue_on(0);
  ok(small->launch(queue));
  finish(queue);
  EXPECT_EQ(job.calls(), 1);
  ok(large->launch(queue));
  finish(queue);
  EXPECT_EQ(job.calls(), 3);
  EXPECT_EQ(graph->update(*small).code(), errc::unsupported);
}

TEST_F(graph_calls, ALaunchThatFailsCallsNoJob) {
  static_job job;
  const graph_ptr graph = new_graph();
  static_cast<void>(host_node(*graph, job));
  const executable_ptr whole = value(graph->instantiate());
  backend::queue& queue = queue_on(0);
  backend::fault_plan plan;
  plan.kind = backend::call::graph_launch;
  plan.nth = 1;
  machine().set_fault_plan(plan);
  EXPECT_EQ(whole->launch(queue).code(), errc::device);
  finish(queue);
  EXPECT_EQ(job.calls(), 0);
  ok(whole->launch(queue));
  finish(queue);
  EXPECT_EQ(job.calls(), 1);
}

TEST_F(graph_calls, GraphsAndExecutablesAreCountedAsAlive) {
  const auto before = machine().live_objects();
  graph_ptr graph = new_graph();
  executable_ptr whole = value(graph->instantiate());
  EXPECT_EQ(machine().live_objects(), before + 2);
  graph.reset();
  EXPECT_EQ(machine().live_objects(), before + 1);
  whole.reset();
  EXPECT_EQ(machine().live_objects(), before);
}

TEST_F(graph_calls, AJobThatDisposesOfItselfIsLaunchedOnce) {
  job_log log;
  backend::queue& queue = queue_on(0);
  for (int i = 0; i < 3; ++i) {
    const graph_ptr graph = new_graph();
    static_cast<void>(host_node(*graph, new_job(log)));
    ok(value(graph->instantiate())->launch(queue));
  }
  finish(queue);
  EXPECT_EQ(log.runs + log.discards, 3);
}

TEST_F(graph_ends, ALaunchNeedsNeitherGraphNorExecutable) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 1000, queue);
  graph_ptr graph = new_graph();
  graph_node last = fill_node(*graph, 0, block, 1000, 1);
  for (int i = 2; i <= 9; ++i)
    last = fill_node(*graph, 0, block, 1000, i, {last});
  executable_ptr whole = value(graph->instantiate());
  graph.reset();
  gate hold(*this, queue);
  ok(whole->launch(queue));
  whole.reset();
  hold.open();
  EXPECT_EQ(read(queue, 0, block, 1000), bytes(1000, std::byte{9}));
}

TEST_F(graph_ends, AQueueThatIsClosedBeforeTheirTurnStillCallsEachJobOnce) {
  static_job job;
  const graph_ptr child = new_graph();
  const graph_node inner = host_node(*child, job);
  static_cast<void>(host_node(*child, job, {inner}));
  const graph_ptr graph = new_graph();
  const graph_node first = host_node(*graph, job);
  static_cast<void>(value(graph->add_child(*child, span_of({first}))));
  const executable_ptr whole = value(graph->instantiate());
  queue_ptr queue = value(device(0).make_queue());
  gate hold(*this, *queue);
  ok(whole->launch(*queue));
  ok(whole->launch(*queue));
  const event_ptr behind = mark(*queue);
  queue.reset();
  hold.open();
  EXPECT_TRUE(value(behind->wait_for(long_time)));
  EXPECT_EQ(job.calls(), 6);
}

TEST_F(graph_ends, LaunchesAfterOneThatWasDiscardedGoOn) {
  static_job job;
  const graph_ptr graph = new_graph();
  static_cast<void>(host_node(*graph, job));
  const executable_ptr whole = value(graph->instantiate());
  backend::queue& held = queue_on(0);
  backend::queue& free = queue_on(0);
  queue_ptr closed = value(device(0).make_queue());
  gate hold(*this, held);
  ok(whole->launch(held));
  ok(whole->launch(*closed));
  closed.reset();
  ok(whole->launch(free));
  hold.open();
  finish(held);
  finish(free);
  EXPECT_GE(job.log.runs, 2);
  const event_ptr behind = mark(free);
  EXPECT_TRUE(value(behind->wait_for(long_time)));
  EXPECT_EQ(job.calls(), 3);
}

TEST_F(graph_ends, AMachineClosesWithALaunchInFlight) {
  job_log log;
  auto other = open_machine();
  queue_ptr queue = value(other->at(0).make_queue());
  const auto disposed = std::make_shared<std::latch>(3);
  {
    const graph_ptr graph = value(other->at(0).make_graph());
    for (int i = 0; i < 3; ++i) {
      backend::job& made = new_job(log, [end = std::make_shared<end_watch>(disposed)] {});
      static_cast<void>(host_node(*graph, made));
    }
    ok(value(graph->instantiate())->launch(*queue));
  }
  queue.reset();
  other.reset();
  disposed->wait();
}

TEST_F(graph_ends, AForkedChildMayDropWhatItInherited) {
  backend::queue& queue = queue_on(0);
  static_job job;
  graph_ptr graph = new_graph();
  static_cast<void>(host_node(*graph, job));
  executable_ptr whole = value(graph->instantiate());
  gate hold(*this, queue);
  ok(whole->launch(queue));
  EXPECT_EQ(0, exit_of_child([&] {
              if (whole->launch(queue).code() != errc::unavailable) return 1;
              if (graph->instantiate().why().code() != errc::unavailable) return 2;
              graph.reset();
              whole.reset();
              return 0;
            }));
  hold.open();
  finish(queue);
  EXPECT_EQ(job.log.runs, 1);
}

}  // namespace
}  // namespace conformance
