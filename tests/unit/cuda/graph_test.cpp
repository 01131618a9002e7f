// SPDX-License-Identifier: Apache-2.0
/// Graphs that are made node by node.
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "tests/unit/cuda/graph_test.hpp"

namespace cuda_test {
namespace {

class Graph : public GraphTest {};

TEST_F(Graph, AKernelNodeTakesItsArgumentsDuringTheCall) {
  auto arguments = filling(block_, 0x01010101, 10);
  const auto node = value(graph_->add_kernel(launch_of(fill_, arguments), {}));
  EXPECT_NE(node, graph_node::none);
  arguments.value = 9;
  arguments.to = nullptr;
  run();
  EXPECT_EQ(read(*queue_, block_, 40), bytes(40, std::byte{1}));
}

TEST_F(Graph, AKernelIsOneNodeAndOneCall) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  graph_node last = graph_node::none;
  control.clear_counts();
  for (int i = 0; i < 100; ++i) {
    auto arguments = filling(block_, 1, 10);
    last = value(graph_->add_kernel(launch_of(fill_, arguments),
                                    i == 0 ? node_span{} : node_span(&last, 1)));
  }
  EXPECT_EQ(control.count("cuGraphAddKernelNode"), 100U);
  EXPECT_EQ(control.count("cuGraphKernelNodeSetAttribute"), 0U);
  EXPECT_EQ(control.count("cuGraphAddEmptyNode"), 0U);
  EXPECT_EQ(control.count("cuGraphAddChildGraphNode"), 0U);
  EXPECT_EQ(graph_->node_count(), 100U);
}

TEST_F(Graph, AttributesAreSetOnTheNode) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  auto arguments = filling(block_, 1, 10);
  backend::launch_request request = launch_of(fill_, arguments);
  request.grid = {4, 1, 1};
  request.cluster = {2, 1, 1};
  request.cooperative = true;
  request.programmatic = true;
  static_cast<void>(value(graph_->add_kernel(request, {})));
  EXPECT_EQ(control.launch_attributes(), (1U << 2U) | (1U << 4U));
  run();
}

TEST_F(Graph, AKernelWhoseAttributeIsRefusedLeavesNoNode) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  auto arguments = filling(block_, 1, 10);
  backend::launch_request request = launch_of(fill_, arguments);
  request.cluster = {3, 1, 1};
  request.grid = {4, 1, 1};
  EXPECT_EQ(graph_->add_kernel(request, {}).why().code(), errc::device);
  EXPECT_EQ(graph_->node_count(), 0U);
}

TEST_F(Graph, AForeignKernelIsANode) {
  call.cuCtxSetCurrent(own_);
  abi::library library = nullptr;
  abi::kernel kernel = nullptr;
  call.cuLibraryLoadData(&library, kernel_text().c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  call.cuLibraryGetKernel(&kernel, library, "test_fill_u32");
  call.cuCtxSetCurrent(nullptr);
  auto arguments = filling(block_, 0x07070707, 10);
  backend::kernel* const adopted =
      value(device().adopt_kernel(reinterpret_cast<std::uint64_t>(kernel)));
  static_cast<void>(value(graph_->add_kernel(launch_of(adopted, arguments), {})));
  run();
  EXPECT_EQ(read(*queue_, block_, 40), bytes(40, std::byte{7}));
  call.cuLibraryUnload(library);
}

TEST_F(Graph, NodesOfTwoDevicesMeet) {
  MILLSTREAM_NEEDS_DEVICES(2);
  const queue_ptr other = make_queue(1);
  void* theirs = value(device(1).allocate(40, *other));
  finish(*other);
  const auto program = load(1);
  auto arguments = filling(theirs, 0x05050505, 10);
  const graph_node there =
      value(graph_->add_kernel(launch_of(value(program->find("test_fill_u32")), arguments), {}));
  static_cast<void>(value(
      graph_->add_copy(backend::copy_request::contiguous(block_, backend::device_memory(0), theirs,
                                                         backend::device_memory(1), 40),
                       {&there, 1})));
  run();
  EXPECT_EQ(read(*queue_, block_, 40), bytes(40, std::byte{5}));
  ok(device(1).release(theirs, 40, *other));
}

TEST_F(Graph, EdgesOrderWhateverTheOrderOfExecution) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    control.seed(seed);
    const auto graph = value(device().make_graph());
    std::array<graph_node, 8> writers{};
    for (std::size_t i = 0; i < writers.size(); ++i) {
      auto arguments = filling(word(i), static_cast<std::uint32_t>(i + 1), 1);
      writers[i] = value(graph->add_kernel(launch_of(fill_, arguments), {}));
    }
    graph_node last = graph_node::none;
    for (std::size_t i = 1; i < writers.size(); ++i) {
      const std::array<graph_node, 3> before{writers[i], i == 1 ? writers[0] : last,
                                             graph_node::none};
      auto arguments = adding(word(0), word(0), word(i), 1);
      last = value(graph->add_kernel(launch_of(add_, arguments), before));
    }
    const auto ready = value(graph->instantiate());
    ok(ready->launch(*queue_));
    const bytes got = read(*queue_, block_, 4);
    EXPECT_EQ(got[0], std::byte{36}) << "seed " << seed;
  }
}

TEST_F(Graph, ANodeOfAnotherGraphAndANodeNamedTwiceAreRefused) {
  const auto other = value(device().make_graph());
  auto arguments = filling(block_, 1, 10);
  const graph_node theirs = value(other->add_kernel(launch_of(fill_, arguments), {}));
  const graph_node ours = value(graph_->add_kernel(launch_of(fill_, arguments), {}));
  const std::array twice{ours, ours};
  EXPECT_EQ(graph_->add_kernel(launch_of(fill_, arguments), twice).why().code(),
            errc::invalid_value);
  if (fake().is_fake) {
    EXPECT_EQ(graph_->add_kernel(launch_of(fill_, arguments), {&theirs, 1}).why().code(),
              errc::invalid_value);
  }
  EXPECT_EQ(graph_->node_count(), 1U);
}

TEST_F(Graph, CopiesOfEveryDriverShapeAreOneNode) {
  bytes source(512);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = std::byte(i);
  bytes target(512);
  graph_node last = graph_node::none;
  backend::copy_request in = to_device(block_, source.data(), 512);
  last = value(graph_->add_copy(in, {}));
  backend::copy_request rows = in;
  rows.to = target.data();
  rows.to_home = memory_home::host;
  rows.from = block_;
  rows.from_home = backend::device_memory(0);
  rows.rank = 2;
  rows.extents = {4, 10};
  rows.from_strides = {32};
  rows.to_strides = {10};
  last = value(graph_->add_copy(rows, {&last, 1}));
  rows.rank = 3;
  rows.extents = {2, 3, 5};
  rows.from_strides = {128, 16};
  rows.to_strides = {15, 5};
  rows.to = target.data() + 100;
  last = value(graph_->add_copy(rows, {&last, 1}));
  EXPECT_EQ(graph_->node_count(), 3U);
  run();
  for (std::size_t y = 0; y < 4; ++y)
    for (std::size_t x = 0; x < 10; ++x)
      EXPECT_EQ(target[y * 10 + x], source[y * 32 + x]);
  for (std::size_t z = 0; z < 2; ++z)
    for (std::size_t y = 0; y < 3; ++y)
      for (std::size_t x = 0; x < 5; ++x)
        EXPECT_EQ(target[100 + z * 15 + y * 5 + x], source[z * 128 + y * 16 + x]);
}

TEST_F(Graph, ABlockThatOneNodeCannotExpressIsOneChild) {
  bytes source(256);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = std::byte(i);
  ok(queue_->copy(to_device(block_, source.data(), 256)));
  bytes target(16);
  backend::copy_request block = to_device(target.data(), block_, 0);
  block.to_home = memory_home::host;
  block.from_home = backend::device_memory(0);
  block.rank = 4;
  block.extents = {2, 2, 2, 2};
  block.from_strides = {128, 32, 4};
  block.to_strides = {8, 4, 2};
  const graph_node before = value(graph_->add_copy(to_device(block_, source.data(), 256), {}));
  static_cast<void>(value(graph_->add_copy(block, {&before, 1})));
  EXPECT_EQ(graph_->node_count(), 2U);
  run();
  std::size_t at = 0;
  for (const std::size_t w : {0U, 128U})
    for (const std::size_t z : {0U, 32U})
      for (const std::size_t y : {0U, 4U})
        for (const std::size_t x : {0U, 1U})
          EXPECT_EQ(target[at++], source[w + z + y + x]);
}

TEST_F(Graph, ACopyThatIsLeftOutIsNoneWhichTakesNoPart) {
  bytes source(40, std::byte{3});
  std::atomic<void*> word{&source};
  backend::copy_request request = to_device(block_, source.data(), 40);
  request.skip_when = &word;
  const graph_node left_out = value(graph_->add_copy(request, {}));
  EXPECT_EQ(left_out, graph_node::none);
  auto arguments = filling(block_, 0x02020202, 10);
  static_cast<void>(value(graph_->add_kernel(launch_of(fill_, arguments), {&left_out, 1})));
  EXPECT_EQ(graph_->node_count(), 1U);
  run();
  EXPECT_EQ(read(*queue_, block_, 40), bytes(40, std::byte{2}));
}

TEST_F(Graph, AFillIsOneNodeWhateverItsPattern) {
  for (const std::uint32_t width : {1U, 2U, 3U, 4U, 8U, 12U, 16U}) {
    const backend::fill_request request = fill_of(block_, std::size_t{width} * 30, width);
    const auto graph = value(device().make_graph());
    static_cast<void>(value(graph->add_fill(request, {})));
    EXPECT_EQ(graph->node_count(), 1U);
    const auto ready = value(graph->instantiate());
    ok(ready->launch(*queue_));
    expect_pattern(request);
  }
}

TEST_F(Graph, ALongPatternIsDoubledInOrder) {
  const std::size_t count = std::size_t{8} * 5000;
  void* big = value(device().allocate(count, *queue_));
  backend::fill_request request = fill_of(big, count, 8);
  static_cast<void>(value(graph_->add_fill(request, {})));
  run();
  expect_pattern(request);
  ok(device().release(big, count, *queue_));
}

TEST_F(Graph, MemoryOfTheProgramIsFilledAtTheNodesTurn) {
  bytes target(64);
  backend::fill_request request = fill_of(target.data(), 64, 8);
  request.home = memory_home::host;
  static_cast<void>(value(graph_->add_fill(request, {})));
  EXPECT_EQ(target, bytes(64));
  run();
  EXPECT_EQ(std::memcmp(target.data(), request.pattern.data(), 8), 0);
  EXPECT_EQ(std::memcmp(target.data() + 56, request.pattern.data(), 8), 0);
}

TEST_F(Graph, NothingToMoveIsStillANode) {
  EXPECT_NE(value(graph_->add_copy(to_device(block_, nullptr, 0), {})), graph_node::none);
  EXPECT_EQ(graph_->node_count(), 1U);
  run();
}

TEST_F(Graph, ChildrenAreCountedAsOneAndTakenAsTheyAre) {
  auto arguments = filling(block_, 0x01010101, 10);
  const auto child = value(device().make_graph());
  graph_node inner = value(child->add_kernel(launch_of(fill_, arguments), {}));
  auto sum = adding(block_, block_, block_, 10);
  inner = value(child->add_kernel(launch_of(add_, sum), {&inner, 1}));
  const graph_node first = value(graph_->add_child(*child, {}));
  static_cast<void>(value(child->add_kernel(launch_of(add_, sum), {&inner, 1})));  // too late
  static_cast<void>(value(graph_->add_kernel(launch_of(add_, sum), {&first, 1})));
  EXPECT_EQ(graph_->node_count(), 2U);
  run();
  EXPECT_EQ(read(*queue_, block_, 40), bytes(40, std::byte{4}));
}

TEST_F(Graph, AGraphIsNoChildOfItself) {
  EXPECT_EQ(graph_->add_child(*graph_, {}).why().code(), errc::invalid_value);
}

TEST_F(Graph, EachLaunchCallsAHostFunctionOnceOnAThreadOfOurs) {
  repeated_job job;
  static_cast<void>(value(graph_->add_host(job, -1, {})));
  const auto ready = value(graph_->instantiate());
  for (int i = 0; i < 3; ++i)
    ok(ready->launch(*queue_));
  finish(*queue_);
  EXPECT_EQ(job.runs, 3);
  EXPECT_EQ(job.discards, 0);
  EXPECT_NE(job.thread, std::this_thread::get_id());
}

TEST_F(Graph, AHostFunctionMayCallTheDriverAndSeesWhatCameBefore) {
  auto* const got = static_cast<std::byte*>(value(device(-1).allocate(40, *queue_)));
  repeated_job job;
  job.body = [&] {
    const queue_ptr own = make_queue();
    backend::copy_request back = to_device(got, block_, 40);
    back.to_home = memory_home::host;
    back.from_home = backend::device_memory(0);
    ok(own->copy(back));
    finish(*own);
  };
  auto arguments = filling(block_, 0x03030303, 10);
  const graph_node before = value(graph_->add_kernel(launch_of(fill_, arguments), {}));
  const graph_node host = value(graph_->add_host(job, -1, {&before, 1}));
  arguments = filling(block_, 0x04040404, 10);
  static_cast<void>(value(graph_->add_kernel(launch_of(fill_, arguments), {&host, 1})));
  run();
  EXPECT_EQ(bytes(got, got + 40), bytes(40, std::byte{3}));
  EXPECT_EQ(read(*queue_, block_, 40), bytes(40, std::byte{4}));
  ok(device(-1).release(got, 40, *queue_));
}

TEST_F(Graph, ADeviceRunsNoJobs) {
  repeated_job job;
  EXPECT_EQ(graph_->add_host(job, 0, {}).why().code(), errc::unsupported);
  EXPECT_EQ(job.runs + job.discards, 0);
}

TEST_F(Graph, ALaunchOutlivesItsExecutableAndItsGraph) {
  repeated_job job;
  {
    gate hold(machine(), *queue_);
    static_cast<void>(value(graph_->add_host(job, -1, {})));
    auto ready = value(graph_->instantiate());
    ok(ready->launch(*queue_));
    ready.reset();
    graph_.reset();
    EXPECT_EQ(job.runs, 0);
  }
  finish(*queue_);
  EXPECT_EQ(job.runs, 1);
}

TEST_F(Graph, ALaunchThatIsRefusedCallsNobody) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  repeated_job job;
  static_cast<void>(value(graph_->add_host(job, -1, {})));
  const auto ready = value(graph_->instantiate());
  control.fail("cuGraphLaunch", 1, static_cast<int>(abi::result::out_of_memory), 0);
  EXPECT_EQ(ready->launch(*queue_).code(), errc::out_of_memory);
  ok(ready->launch(*queue_));
  finish(*queue_);
  EXPECT_EQ(job.runs, 1);
  EXPECT_EQ(job.discards, 0);
}

TEST_F(Graph, JobsOfALostDeviceAreDiscardedOnce) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  expects_leaks = true;
  repeated_job job;
  const event_ptr event = value(device().make_event());
  {
    auto arguments = filling(reinterpret_cast<void*>(std::uintptr_t{64}), 1, 1);
    const graph_node bad = value(graph_->add_kernel(launch_of(fill_, arguments), {}));
    static_cast<void>(value(graph_->add_host(job, -1, {&bad, 1})));
    const auto ready = value(graph_->instantiate());
    ok(ready->launch(*queue_));
    if (queue_->record(*event)) {
      EXPECT_FALSE(event->wait_for(long_time).ok());
    }
    EXPECT_EQ(job.runs + job.discards, 0);
  }
  EXPECT_EQ(job.runs, 0);
  EXPECT_EQ(job.discards, 1);
}

TEST_F(Graph, LaunchesOfOneExecutableFollowEachOther) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    control.seed(seed);
    fill(*queue_, block_, 8, 0);
    backend::fill_request one = fill_of(word(1), 4, 4);
    one.pattern = {std::byte{1}};
    ok(queue_->fill(one));
    finish(*queue_);
    const auto graph = value(device().make_graph());
    auto sum = adding(word(0), word(0), word(1), 1);
    static_cast<void>(value(graph->add_kernel(launch_of(add_, sum), {})));
    const auto ready = value(graph->instantiate());
    const queue_ptr other = make_queue();
    for (int i = 0; i < 5; ++i)
      ok(ready->launch(i % 2 == 0 ? *queue_ : *other));
    finish(*other);
    EXPECT_EQ(read(*queue_, block_, 1)[0], std::byte{5}) << "seed " << seed;
  }
}

TEST_F(Graph, ADrawingNamesEachNode) {
  auto arguments = filling(block_, 1, 10);
  const graph_node first = value(graph_->add_kernel(launch_of(fill_, arguments), {}));
  static_cast<void>(value(graph_->add_kernel(launch_of(fill_, arguments), {&first, 1})));
  const std::string drawn = value(graph_->dot());
  EXPECT_EQ(drawn.find("digraph"), 0U);
  EXPECT_NE(drawn.find("->"), std::string::npos);
}

TEST_F(Graph, AProgramOutlivesTheGraphsThatNameIt) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  auto program = load(0);
  auto arguments = filling(block_, 0x06060606, 10);
  static_cast<void>(
      value(graph_->add_kernel(launch_of(value(program->find("test_fill_u32")), arguments), {})));
  const auto ready = value(graph_->instantiate());
  program.reset();
  ok(ready->launch(*queue_));
  EXPECT_EQ(read(*queue_, block_, 40), bytes(40, std::byte{6}));
}

TEST_F(Graph, ADriverWithoutOneRowHasNoGraphs) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.hide("cuGraphExecUpdate", 1);
  const auto old = value(backend::cuda::open_with({1, {}}, library_path()));
  EXPECT_FALSE(old->capabilities().has(capability::graphs));
  control.hide(nullptr, 0);
}

}  // namespace
}  // namespace cuda_test
