// SPDX-License-Identifier: Apache-2.0
/// Graphs: what is added, and what runs after what.
#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>
#include <thread>

#include "tests/conformance/graph_promise.hpp"

namespace conformance {
namespace {

using graphs = graph_promise<>;
using graph_values = graph_promise<capability::values>;
using graph_jobs = graph_promise<capability::values, capability::runs_jobs>;

/// A graph that fills a block and copies it to `got` unless the word says no.
template <class Promise>
class graph_skips_of : public Promise {
 protected:
  void TearDown() override {
    graph.reset();
    Promise::TearDown();
  }
  void build() {
    queue = &this->queue_on(0);
    std::byte* block = this->take(0, 100, *queue);
    graph = this->new_graph();
    filled = this->fill_node(*graph, 0, block, 100, 4);
    request = this->copy_of(got.data(), -1, block, 0, 100);
    request.skip_when = &word;
  }
  [[nodiscard]] graph_node add() { return this->copy_node(*graph, request, {filled}); }
  void launch(backend::executable_graph& whole) {
    ok(whole.launch(*queue));
    this->finish(*queue);
  }
  std::atomic<void*> word{&word};
  bytes got = bytes(100);
  backend::queue* queue = nullptr;
  graph_ptr graph;
  graph_node filled{};
  backend::copy_request request;
};
using graph_skips = graph_skips_of<graph_values>;
using graph_job_skips = graph_skips_of<graph_jobs>;

TEST_F(graphs, NodesDifferAndAreCounted) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  const graph_ptr graph = new_graph();
  EXPECT_EQ(graph->node_count(), 0U);
  std::set<graph_node> names{graph_node::none};
  for (int i = 0; i < 10; ++i)
    names.insert(fill_node(*graph, 0, block, 100, i));
  EXPECT_EQ(names.size(), 11U);
  EXPECT_EQ(graph->node_count(), 10U);
}

TEST_F(graphs, EveryCallAddsOneNode) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 200, queue);
  static_job job;
  const graph_ptr child = new_graph();
  for (int i = 0; i < 3; ++i)
    static_cast<void>(fill_node(*child, 0, block, 100, i));
  const graph_ptr graph = new_graph();
  const graph_node filled = fill_node(*graph, 0, block, 100, 1);
  const graph_node copied = copy_node(*graph, copy_of(block + 100, 0, block, 0, 100), {filled});
  EXPECT_EQ(graph->node_count(), 2U);
  static_cast<void>(host_node(*graph, job, {copied}));
  EXPECT_EQ(graph->node_count(), 3U);
  static_cast<void>(value(graph->add_child(*child, span_of({filled, copied}))));
  EXPECT_EQ(graph->node_count(), 4U);
  EXPECT_EQ(child->node_count(), 3U);
  EXPECT_EQ(job.calls(), 0);
}

TEST_F(graphs, EveryDeviceMakesThem) {
  for (int i = 0; i < machine().device_count(); ++i) {
    const graph_ptr graph = new_graph(i);
    const executable_ptr whole = value(graph->instantiate());
    backend::queue& queue = queue_on(i);
    ok(whole->launch(queue));
    finish(queue);
  }
}

TEST_F(graphs, AGraphWithoutNodesIsLaunched) {
  const executable_ptr whole = value(new_graph()->instantiate());
  backend::queue& queue = queue_on(0);
  for (int i = 0; i < 3; ++i)
    ok(whole->launch(queue));
  finish(queue);
}

TEST_F(graphs, AreDrawnInTheDotLanguage) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 200, queue);
  const graph_ptr graph = new_graph();
  const graph_node filled = fill_node(*graph, 0, block, 100, 1);
  static_cast<void>(copy_node(*graph, copy_of(block + 100, 0, block, 0, 100), {filled}));
  const std::string text = value(graph->dot());
  EXPECT_TRUE(text.starts_with("digraph")) << text;
  EXPECT_NE(text.find("->"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '{'), std::count(text.begin(), text.end(), '}'));
}

TEST_F(graphs, ExecutablesTellWhatTheyKeep) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  const graph_ptr graph = new_graph();
  for (int i = 0; i < 100; ++i)
    static_cast<void>(fill_node(*graph, 0, block, 100, i));
  const executable_ptr small = value(new_graph()->instantiate());
  const executable_ptr large = value(graph->instantiate());
  EXPECT_GT(small->bytes(), 0U);
  EXPECT_GT(large->bytes(), small->bytes());
}

TEST_F(graphs, AJobIsCalledOncePerLaunch) {
  static_job job;
  const graph_ptr graph = new_graph();
  static_cast<void>(host_node(*graph, job));
  const executable_ptr whole = value(graph->instantiate());
  backend::queue& queue = queue_on(0);
  for (int i = 1; i <= 3; ++i) {
    ok(whole->launch(queue));
    finish(queue);
    EXPECT_EQ(job.calls(), i);
  }
}

TEST_F(graphs, WhatIsKeptGoesWithTheLastThatMayRun) {
  backend::queue& queue = queue_on(0);
  const auto gone = std::make_shared<std::latch>(1);
  graph_ptr graph = new_graph();
  ok(graph->keep(std::make_shared<end_watch>(gone)));
  graph_ptr outer = new_graph();
  static_cast<void>(value(outer->add_child(*graph, {})));
  executable_ptr inner_whole = value(graph->instantiate());
  graph.reset();
  executable_ptr whole = value(outer->instantiate());
  ok(inner_whole->launch(queue));
  finish(queue);
  inner_whole.reset();
  outer.reset();
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_FALSE(gone->try_wait());
    ok(whole->launch(queue));
    finish(queue);
  }
  whole.reset();
  gone->wait();  // on a thread of the library's, soon
}

TEST_F(graphs, WhatIsKeptGoesWithTheExecutableThatIsUpdated) {
  backend::queue& queue = queue_on(0);
  const auto first_gone = std::make_shared<std::latch>(1);
  const auto second_gone = std::make_shared<std::latch>(1);
  executable_ptr whole;
  {
    const graph_ptr graph = new_graph();
    ok(graph->keep(std::make_shared<end_watch>(first_gone)));
    whole = value(graph->instantiate());
  }
  {
    const graph_ptr graph = new_graph();
    ok(graph->keep(std::make_shared<end_watch>(second_gone)));
    ok(graph->update(*whole));
  }
  first_gone->wait();
  EXPECT_FALSE(second_gone->try_wait());
  ok(whole->launch(queue));
  finish(queue);
  whole.reset();
  second_gone->wait();
}

TEST_F(graph_values, WhatIsKeptOutlastsALaunchOnItsWay) {
  backend::queue& queue = queue_on(0);
  const auto gone = std::make_shared<std::latch>(1);
  std::byte* block = take(0, 100, queue);
  bytes got(100);
  {
    gate hold(*this, queue);
    {
      const graph_ptr graph = new_graph();
      ok(graph->keep(std::make_shared<end_watch>(gone)));
      static_cast<void>(fill_node(*graph, 0, block, 100, 6));
      ok(value(graph->instantiate())->launch(queue));
    }
    EXPECT_FALSE(gone->try_wait());
    hold.open();
  }
  EXPECT_EQ(read(queue, 0, block, 100), bytes(100, std::byte{6}));
  gone->wait();
}

// Where graphs have handles, others use them by these.
TEST_F(graph_values, AHandleIsTheGraph) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  bytes there(10);
  const graph_ptr graph = new_graph();
  static_cast<void>(fill_node(*graph, 0, block, 100, 5));
  static_cast<void>(fill_node(*graph, -1, there.data(), 10, 6));
  ok(graph->may_be_part());
  const std::uint64_t handle = value(graph->hand_out());
  if (handle == 0) {
    EXPECT_EQ(device(0).adopt_graph(4096).why().code(), errc::unsupported);
    return;
  }
  EXPECT_EQ(device(0).adopt_graph(0).why().code(), errc::invalid_value);
  const graph_ptr adopted = value(device(0).adopt_graph(handle));
  EXPECT_EQ(adopted->node_count(), 2U);
  ok(adopted->may_be_part());
  const graph_ptr outer = new_graph();
  static_cast<void>(value(outer->add_child(*adopted, {})));
  for (backend::graph* const each : {adopted.get(), outer.get()}) {
    const executable_ptr whole = value(each->instantiate());
    fill(queue, 0, block, 100, 0);
    there.assign(10, std::byte{0});
    ok(whole->launch(queue));
    EXPECT_EQ(read(queue, 0, block, 100), bytes(100, std::byte{5}));
    EXPECT_EQ(there, bytes(10, std::byte{6}));
  }
}

TEST_F(graphs, ANodeThatFailsToBeAddedIsNotThere) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  static_job job;
  const graph_ptr graph = new_graph();
  for (const bool fill : {true, false}) {
    backend::fault_plan plan;
    plan.kind = backend::call::graph_add;
    plan.nth = 1;
    machine().set_fault_plan(plan);
    const auto answer =
        fill ? graph->add_fill(fill_of(0, block, 100, 1), {}) : graph->add_host(job, -1, {});
    EXPECT_EQ(answer.why().code(), errc::device);
  }
  EXPECT_EQ(graph->node_count(), 0U);
  const executable_ptr whole = value(graph->instantiate());
  ok(whole->launch(queue));
  finish(queue);
  EXPECT_EQ(job.calls(), 0);
}

TEST_F(graph_values, ADiamondRunsInOrder) {
  backend::queue& queue = queue_on(0);
  std::byte* a = take(0, 1000, queue);
  std::byte* b = take(0, 1000, queue);
  std::byte* c = take(0, 1000, queue);
  std::byte* d = take(0, 2000, queue);
  bytes got(2000);
  const graph_ptr graph = new_graph();
  const graph_node top = fill_node(*graph, 0, a, 1000, 1);
  const graph_node left = copy_node(*graph, copy_of(b, 0, a, 0, 1000), {top});
  const graph_node right = copy_node(*graph, copy_of(c, 0, a, 0, 1000), {top});
  const graph_node from_b = copy_node(*graph, copy_of(d, 0, b, 0, 1000), {left});
  const graph_node from_c = copy_node(*graph, copy_of(d + 1000, 0, c, 0, 1000), {right});
  const graph_node again = fill_node(*graph, 0, a, 1000, 2, {left, right});
  static_cast<void>(again);
  static_cast<void>(copy_node(*graph, copy_of(got.data(), -1, d, 0, 2000), {from_b, from_c}));
  ok(value(graph->instantiate())->launch(queue));
  EXPECT_EQ(read(queue, 0, a, 1000), bytes(1000, std::byte{2}));
  EXPECT_EQ(got, bytes(2000, std::byte{1}));
}

TEST_F(graph_values, AWideFanRunsBetweenItsEnds) {
  constexpr std::size_t width = 1000;
  std::atomic<int> before{0};
  std::atomic<int> sum{0};
  int at_end = 0;
  static_job top([&] { before = 1; });
  static_job each([&] { sum += before; });
  static_job bottom([&] { at_end = sum; });
  const graph_ptr graph = new_graph();
  const graph_node first = host_node(*graph, top);
  std::vector<graph_node> all;
  for (std::size_t i = 0; i < width; ++i)
    all.push_back(host_node(*graph, each, {first}));
  static_cast<void>(value(graph->add_host(bottom, -1, all)));
  backend::queue& queue = queue_on(0);
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  EXPECT_EQ(at_end, static_cast<int>(width));
  EXPECT_EQ(each.log.runs, static_cast<int>(width));
}

TEST_F(graph_values, AChainRunsInOrder) {
  constexpr int length = 1000;
  std::vector<int> seen;  // only one of them runs at a time
  std::deque<static_job> jobs;
  const graph_ptr graph = new_graph();
  std::vector<graph_node> last;
  for (int i = 0; i < length; ++i) {
    jobs.emplace_back([&seen, i] { seen.push_back(i); });
    last = {value(graph->add_host(jobs.back(), -1, last))};
  }
  backend::queue& queue = queue_on(0);
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  std::vector<int> right(length);
  std::iota(right.begin(), right.end(), 0);
  EXPECT_EQ(seen, right);
}

TEST_F(graph_values, NodesOfTwoDevicesWorkTogether) {
  backend::queue& queue = queue_on(0);
  std::byte* here = take(0, 1000, queue);
  std::byte* there = take(last_device(), 1000, queue);
  bytes got(1000);
  const graph_ptr graph = new_graph();
  const graph_node filled = fill_node(*graph, 0, here, 1000, 7);
  const graph_node moved =
      copy_node(*graph, copy_of(there, last_device(), here, 0, 1000), {filled});
  static_cast<void>(
      copy_node(*graph, copy_of(got.data(), -1, there, last_device(), 1000), {moved}));
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  EXPECT_EQ(got, bytes(1000, std::byte{7}));
}

TEST_F(graph_values, WhatIsGivenIsReadDuringTheCallOnly) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 1000, queue);
  bytes got(1000);
  const graph_ptr graph = new_graph();
  backend::fill_request fill = fill_of(0, block, 1000, 3);
  std::vector<graph_node> after{value(graph->add_fill(fill, {}))};
  fill = {};
  backend::copy_request copy = copy_of(got.data(), -1, block, 0, 1000);
  static_cast<void>(value(graph->add_copy(copy, after)));
  copy = {};
  after[0] = graph_node::none;
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  EXPECT_EQ(got, bytes(1000, std::byte{3}));
}

TEST_F(graph_values, ABlockOfSeveralAxesIsCopied) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 12, queue);
  const bytes sent = random_bytes(100, 1);
  bytes got(12);
  backend::copy_request request = copy_of(block, 0, sent.data(), -1, 4);
  request.rank = 2;
  request.extents = {3, 4};
  request.to_strides = {4};
  request.from_strides = {10};
  const graph_ptr graph = new_graph();
  const graph_node in = copy_node(*graph, request);
  static_cast<void>(copy_node(*graph, copy_of(got.data(), -1, block, 0, 12), {in}));
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t column = 0; column < 4; ++column)
      EXPECT_EQ(got[row * 4 + column], sent[row * 10 + column]);
  }
}

TEST_F(graph_values, AChildIsTakenAsItIs) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 300, queue);
  bytes got(300);
  const graph_ptr graph = new_graph();
  graph_node inside{};
  {
    const graph_ptr child = new_graph();
    const graph_node one = fill_node(*child, 0, block, 100, 2);
    const graph_node first = fill_node(*graph, 0, block, 300, 1);
    inside = value(graph->add_child(*child, span_of({first})));
    // Too late for the parent, and so is the end of the child.
    static_cast<void>(fill_node(*child, 0, block + 100, 100, 9, {one}));
  }
  const graph_node filled = fill_node(*graph, 0, block + 200, 100, 3, {inside});
  static_cast<void>(copy_node(*graph, copy_of(got.data(), -1, block, 0, 300), {filled}));
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  bytes right(300, std::byte{1});
  std::fill_n(right.begin(), 100, std::byte{2});
  std::fill_n(right.begin() + 200, 100, std::byte{3});
  EXPECT_EQ(got, right);
}

TEST_F(graph_values, WhatComesAfterAChildWaitsForAllOfIt) {
  std::atomic<int> inner{0};
  std::vector<int> seen;
  static_job count([&] { ++inner; });
  static_job look([&] { seen.push_back(inner); });
  const graph_ptr innermost = new_graph();
  for (int i = 0; i < 5; ++i)
    static_cast<void>(host_node(*innermost, count));
  const graph_ptr middle = new_graph();
  const graph_node deep = value(middle->add_child(*innermost, {}));
  static_cast<void>(host_node(*middle, count, {deep}));
  static_cast<void>(host_node(*middle, count));
  const graph_ptr graph = new_graph();
  const graph_node before = host_node(*graph, look);
  const graph_node child = value(graph->add_child(*middle, span_of({before})));
  const graph_node nothing = value(graph->add_child(*new_graph(), span_of({child})));
  static_cast<void>(host_node(*graph, look, {nothing}));
  backend::queue& queue = queue_on(0);
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  EXPECT_EQ(seen, (std::vector<int>{0, 7}));
}

TEST_F(graph_values, JobsMayUseTheMachine) {
  backend::queue& queue = queue_on(0);
  backend::queue& inner = queue_on(-1);
  bytes source(100, std::byte{8});
  bytes target(100);
  static_job job([&] {
    ok(inner.copy(copy_of(target.data(), -1, source.data(), -1, 100)));
    finish(inner);
  });
  const graph_ptr graph = new_graph();
  static_cast<void>(host_node(*graph, job));
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  EXPECT_EQ(target, source);
}

TEST_F(graph_values, JobsDoNotRunOnTheThreadThatLaunches) {
  std::thread::id ran_on;
  static_job job([&] { ran_on = std::this_thread::get_id(); });
  const graph_ptr graph = new_graph();
  static_cast<void>(host_node(*graph, job));
  backend::queue& queue = queue_on(0);
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  EXPECT_NE(ran_on, std::thread::id());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(graph_jobs, EveryPlaceRunsThem) {
  static_job job;
  const graph_ptr graph = new_graph();
  for (const int place : places())
    static_cast<void>(host_node(*graph, job, {}, place));
  backend::queue& queue = queue_on(0);
  ok(value(graph->instantiate())->launch(queue));
  finish(queue);
  EXPECT_EQ(job.log.runs, static_cast<int>(places().size()));
}

TEST_F(graph_job_skips, ACopyLooksWhetherToBeLeftOutWhenItRuns) {
  build();
  EXPECT_NE(add(), graph_node::none);
  const executable_ptr whole = value(graph->instantiate());
  launch(*whole);
  EXPECT_EQ(got, bytes(100));
  word = nullptr;
  launch(*whole);
  EXPECT_EQ(got, bytes(100, std::byte{4}));
}

TEST_F(graph_skips, WithoutJobsACopyLooksWhenItIsAdded) {
  if (has(capability::runs_jobs)) GTEST_SKIP() << "the machine looks when it runs";
  build();
  EXPECT_EQ(add(), graph_node::none);
  EXPECT_EQ(graph->node_count(), 1U);
  word = nullptr;
  EXPECT_NE(add(), graph_node::none);
  launch(*value(graph->instantiate()));
  EXPECT_EQ(got, bytes(100, std::byte{4}));
}

}  // namespace
}  // namespace conformance
