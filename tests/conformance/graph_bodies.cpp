// SPDX-License-Identifier: Apache-2.0
/// Graphs: what is issued to a queue while a body is recorded.
#include <algorithm>
#include <array>
#include <thread>

#include "tests/conformance/graph_promise.hpp"

namespace conformance {
namespace {

using graph_bodies = graph_promise<capability::capture_to_graph>;
using graph_body_values = graph_promise<capability::capture_to_graph, capability::values>;

std::vector<graph_node> sorted(const node_list& all) {
  std::vector<graph_node> made(all.begin(), all.end());
  std::sort(made.begin(), made.end());
  return made;
}

TEST_F(graph_bodies, OneThatIssuesNothingIsNoNode) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 200, queue);
  const graph_ptr graph = new_graph();
  node_list last;
  ok(graph->begin_body(queue, {}));
  ok(graph->end_body(queue, last));
  EXPECT_TRUE(last.empty());
  std::array after{fill_node(*graph, 0, block, 100, 1), fill_node(*graph, 0, block + 100, 100, 1)};
  ok(graph->begin_body(queue, after));
  ok(graph->end_body(queue, last));
  std::sort(after.begin(), after.end());
  EXPECT_EQ(sorted(last), (std::vector<graph_node>{after.begin(), after.end()}));
  EXPECT_EQ(graph->node_count(), 2U);
}

TEST_F(graph_bodies, AnOperationIsOneNode) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 200, queue);
  const graph_ptr graph = new_graph();
  const graph_node first = fill_node(*graph, 0, block, 100, 1);
  node_list last;
  ok(graph->begin_body(queue, span_of({first})));
  ok(queue.copy(copy_of(block + 100, 0, block, 0, 100)));
  ok(graph->end_body(queue, last));
  EXPECT_EQ(graph->node_count(), 2U);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_NE(last[0], first);
  EXPECT_NE(last[0], graph_node::none);
  static_cast<void>(fill_node(*graph, 0, block, 100, 2, {last[0]}));
  EXPECT_EQ(graph->node_count(), 3U);
}

TEST_F(graph_bodies, TheQueueKnowsThatItIsRecorded) {
  backend::queue& queue = queue_on(0);
  backend::queue& other = queue_on(0);
  const graph_ptr graph = new_graph();
  node_list last;
  ok(graph->begin_body(queue, {}));
  EXPECT_TRUE(value(queue.is_capturing()));
  EXPECT_FALSE(value(other.is_capturing()));
  ok(graph->end_body(queue, last));
  EXPECT_FALSE(value(queue.is_capturing()));
}

TEST_F(graph_bodies, SeveralAreOpenAtOnce) {
  backend::queue& one = queue_on(0);
  backend::queue& other = queue_on(0);
  std::byte* block = take(0, 300, one);
  finish(one);
  const graph_ptr graph = new_graph();
  const graph_node first = fill_node(*graph, 0, block, 100, 1);
  node_list of_one;
  node_list of_other;
  ok(graph->begin_body(one, span_of({first})));
  ok(graph->begin_body(other, span_of({first})));
  ok(one.copy(copy_of(block + 100, 0, block, 0, 100)));
  ok(other.copy(copy_of(block + 200, 0, block, 0, 100)));
  ok(graph->end_body(one, of_one));
  ok(other.fill(fill_of(0, block + 200, 100, 3)));
  ok(graph->end_body(other, of_other));
  EXPECT_EQ(graph->node_count(), 4U);
  ASSERT_EQ(of_one.size(), 1U);
  ASSERT_EQ(of_other.size(), 1U);
  EXPECT_NE(of_one[0], of_other[0]);
}

TEST_F(graph_bodies, AnotherThreadIsRefusedWhileOneIsOpen) {
  backend::queue& queue = queue_on(0);
  backend::queue& other = queue_on(0);
  const graph_ptr graph = new_graph();
  node_list last;
  const auto begin_elsewhere = [&] {
    errc code = errc::ok;
    std::thread([&] {
      code = graph->begin_body(other, {}).code();
      if (code == errc::ok) ok(graph->end_body(other, last));
    }).join();
    return code;
  };
  ok(graph->begin_body(queue, {}));
  EXPECT_EQ(begin_elsewhere(), errc::usage);
  ok(graph->end_body(queue, last));
  EXPECT_EQ(begin_elsewhere(), errc::ok);
}

TEST_F(graph_bodies, OneThatFailsLeavesTheQueueAndBreaksTheGraph) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  {
    const graph_ptr graph = new_graph();
    node_list last;
    ok(graph->begin_body(queue, {}));
    ok(queue.fill(fill_of(0, block, 100, 1)));
    backend::fault_plan plan;
    plan.kind = backend::call::graph_body;
    plan.nth = 1;
    machine().set_fault_plan(plan);
    EXPECT_FALSE(graph->end_body(queue, last).ok());
    machine().set_fault_plan({});
    EXPECT_TRUE(last.empty());
    EXPECT_FALSE(value(queue.is_capturing()));
    EXPECT_FALSE(graph->add_fill(fill_of(0, block, 100, 1), {}).ok());
    EXPECT_FALSE(graph->instantiate().ok());
  }
  fill(queue, 0, block, 100, 2);
  finish(queue);
}

TEST_F(graph_bodies, AGraphIsRecordedAsOneNode) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 300, queue);
  const graph_ptr part = new_graph();
  for (int i = 0; i < 3; ++i)
    static_cast<void>(fill_node(*part, 0, block, 100, i));
  const graph_ptr graph = new_graph();
  const graph_node first = fill_node(*graph, 0, block, 100, 1);
  node_list last;
  ok(graph->begin_body(queue, span_of({first})));
  ok(part->record_into(queue));
  ok(part->record_into(queue));
  ok(queue.fill(fill_of(0, block, 100, 2)));
  ok(graph->end_body(queue, last));
  EXPECT_EQ(graph->node_count(), 4U);
  EXPECT_EQ(part->node_count(), 3U);
  ASSERT_EQ(last.size(), 1U);
}

TEST_F(graph_bodies, AGraphIsNotRecordedWhereNobodyRecords) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  const graph_ptr part = new_graph();
  static_cast<void>(fill_node(*part, 0, block, 100, 1));
  EXPECT_EQ(part->record_into(queue).code(), errc::usage);
  EXPECT_EQ(queue.keep(std::make_shared<int>(1)).code(), errc::usage);
  ok(value(part->instantiate())->launch(queue));
  finish(queue);
}

TEST_F(graph_bodies, WhatAQueueKeepsIsTheGraphs) {
  backend::queue& queue = queue_on(0);
  const auto gone = std::make_shared<std::latch>(1);
  const graph_ptr graph = new_graph();
  node_list last;
  ok(graph->begin_body(queue, {}));
  ok(queue.keep(std::make_shared<end_watch>(gone)));
  ok(graph->end_body(queue, last));
  executable_ptr whole = value(graph->instantiate());
  EXPECT_FALSE(gone->try_wait());
  ok(whole->launch(queue));
  finish(queue);
  EXPECT_FALSE(gone->try_wait());
}

TEST_F(graph_body_values, ARecordedGraphIsCarriedOutInItsTurn) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 200, queue);
  fill(queue, 0, block, 200, 9);
  finish(queue);
  const graph_ptr graph = new_graph();
  {
    const graph_ptr part = new_graph();
    const graph_node one = fill_node(*part, 0, block, 100, 3);
    static_cast<void>(copy_node(*part, copy_of(block + 100, 0, block, 0, 100), {one}));
    node_list last;
    ok(graph->begin_body(queue, {}));
    ok(queue.fill(fill_of(0, block, 200, 1)));
    ok(part->record_into(queue));
    ok(queue.fill(fill_of(0, block, 50, 2)));
    ok(graph->end_body(queue, last));
  }
  const executable_ptr whole = value(graph->instantiate());
  bytes right(200, std::byte{3});
  std::fill_n(right.begin(), 50, std::byte{2});
  for (int turn = 0; turn < 3; ++turn) {
    fill(queue, 0, block, 200, 8);
    ok(whole->launch(queue));
    EXPECT_EQ(read(queue, 0, block, 200), right);
  }
}

// Nobody says of such launches that they will call what the nodes call.
TEST_F(graph_body_values, ARecordedGraphFillsHostMemoryAtEachLaunch) {
  backend::queue& queue = queue_on(0);
  bytes there(100);
  const graph_ptr graph = new_graph();
  {
    const graph_ptr part = new_graph();
    static_cast<void>(fill_node(*part, -1, there.data(), 100, 3));
    node_list last;
    ok(graph->begin_body(queue, {}));
    ok(part->record_into(queue));
    ok(graph->end_body(queue, last));
  }
  const executable_ptr whole = value(graph->instantiate());
  for (int turn = 0; turn < 3; ++turn) {
    there.assign(100, std::byte{0});
    ok(whole->launch(queue));
    finish(queue);
    EXPECT_EQ(there, bytes(100, std::byte{3}));
  }
}

TEST_F(graph_bodies, KeepTheirQueuesUntilTheyAreReleased) {
  backend::queue& queue = queue_on(0);
  backend::queue& other = queue_on(0);
  std::byte* block = take(0, 300, queue);
  const graph_ptr graph = new_graph();
  graph->keep_queues();
  node_list first;
  node_list second;
  node_list third;
  ok(graph->begin_body(queue, {}));
  ok(queue.fill(fill_of(0, block, 100, 1)));
  ok(graph->end_body(queue, first));
  std::thread([&] {
    ok(graph->begin_body(other, {first.begin(), first.size()}));
    ok(other.copy(copy_of(block + 100, 0, block, 0, 100)));
    ok(graph->end_body(other, second));
  }).join();
  ASSERT_EQ(second.size(), 1U);
  const graph_node beside = fill_node(*graph, 0, block, 100, 2, {second[0]});
  ok(graph->begin_body(queue, span_of({beside})));
  EXPECT_EQ(graph->release_queues().code(), errc::usage);
  ok(queue.copy(copy_of(block + 200, 0, block, 0, 100)));
  ok(graph->end_body(queue, third));
  ok(graph->release_queues());
  EXPECT_EQ(graph->node_count(), 4U);
  EXPECT_FALSE(value(queue.is_capturing()));
  EXPECT_FALSE(value(other.is_capturing()));
  ok(value(graph->instantiate())->launch(queue));
  ok(graph->release_queues());
}

TEST_F(graph_bodies, AGraphThatGoesReleasesTheQueuesThatItKept) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  {
    const graph_ptr graph = new_graph();
    graph->keep_queues();
    node_list last;
    ok(graph->begin_body(queue, {}));
    ok(queue.fill(fill_of(0, block, 100, 1)));
    ok(graph->end_body(queue, last));
  }
  fill(queue, 0, block, 100, 2);
  finish(queue);
}

TEST_F(graph_body_values, AreCarriedOutWhenTheGraphIsLaunched) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 300, queue);
  fill(queue, 0, block, 300, 9);
  finish(queue);
  const graph_ptr graph = new_graph();
  const graph_node first = fill_node(*graph, 0, block, 100, 1);
  node_list last;
  ok(graph->begin_body(queue, span_of({first})));
  ok(queue.copy(copy_of(block + 100, 0, block, 0, 100)));
  ok(queue.copy(copy_of(block + 200, 0, block + 100, 0, 100)));
  ok(graph->end_body(queue, last));
  ASSERT_EQ(last.size(), 1U);
  static_cast<void>(fill_node(*graph, 0, block, 100, 2, {last[0]}));
  EXPECT_EQ(read(queue, 0, block, 300), bytes(300, std::byte{9}));
  ok(value(graph->instantiate())->launch(queue));
  bytes right(300, std::byte{1});
  std::fill_n(right.begin(), 100, std::byte{2});
  EXPECT_EQ(read(queue, 0, block, 300), right);
}

TEST_F(graph_body_values, QueuesThatWaitForItAreRecordedToo) {
  backend::queue& queue = queue_on(0);
  backend::queue& other = queue_on(0);
  std::byte* block = take(0, 200, queue);
  finish(queue);
  const event_ptr fork = new_event();
  const event_ptr join = new_event();
  const graph_ptr graph = new_graph();
  node_list last;
  ok(graph->begin_body(queue, {}));
  ok(queue.fill(fill_of(0, block, 100, 4)));
  ok(queue.record(*fork));
  ok(other.wait(*fork));
  ok(other.copy(copy_of(block + 100, 0, block, 0, 100)));
  ok(other.record(*join));
  ok(queue.wait(*join));
  ok(graph->end_body(queue, last));
  EXPECT_EQ(graph->node_count(), 2U);
  EXPECT_FALSE(value(other.is_capturing()));
  ok(value(graph->instantiate())->launch(queue));
  EXPECT_EQ(read(queue, 0, block, 200), bytes(200, std::byte{4}));
}

}  // namespace
}  // namespace conformance
