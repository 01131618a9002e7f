// SPDX-License-Identifier: Apache-2.0
// Memory that is allocated in stream order while the stream is captured.
#include <utility>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

class GraphMemory : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    on = make_stream();
    word = make_block(4);
    fill_words(word, 0, 1);
    trim();
  }
  void begin() { OK(call.cuStreamBeginCapture(on, capture_mode::relaxed)); }
  graph end() {
    graph made = nullptr;
    OK(call.cuStreamEndCapture(on, &made));
    finally([this, made] { call.cuGraphDestroy(made); });
    return made;
  }
  device_pointer allocate(std::size_t bytes = 4) {
    device_pointer made = 0;
    OK(call.cuMemAllocAsync(&made, bytes, on));
    return made;
  }
  executable_graph instantiate(graph what) {
    executable_graph made = nullptr;
    OK(call.cuGraphInstantiateWithFlags(&made, what, 0));
    return made;
  }
  /// Captures `word` = value by way of memory of the graph, which is freed there or not.
  std::pair<graph, device_pointer> by_way_of_memory(std::uint32_t value, bool is_freed) {
    begin();
    const device_pointer scratch = allocate();
    OK(call.cuMemsetD32Async(scratch, value, 1, on));
    OK(call.cuMemcpyDtoDAsync(word, scratch, 4, on));
    if (is_freed) {
      OK(call.cuMemFreeAsync(scratch, on));
    }
    return {end(), scratch};
  }
  void synchronize() { OK(call.cuStreamSynchronize(on)); }
  std::uint64_t now(graph_memory_attribute what) {
    std::uint64_t value = 0;
    OK(call.cuDeviceGetGraphMemAttribute(0, what, &value));
    return value;
  }
  void trim() {
    std::uint64_t zero = 0;
    OK(call.cuDeviceGraphMemTrim(0));
    OK(call.cuDeviceSetGraphMemAttribute(0, graph_memory_attribute::used_high, &zero));
    OK(call.cuDeviceSetGraphMemAttribute(0, graph_memory_attribute::reserved_high, &zero));
  }

  stream on = nullptr;
  device_pointer word = 0;
};

TEST_F(GraphMemory, AGraphHasOneExecutableAtATime) {
  const graph what = by_way_of_memory(7, true).first;
  const executable_graph first = instantiate(what);
  executable_graph second = nullptr;
  EXPECT_NE(call.cuGraphInstantiateWithFlags(&second, what, 0), result::success);
  OK(call.cuGraphExecDestroy(first));
  second = instantiate(what);
  OK(call.cuGraphLaunch(second, on));
  synchronize();
  EXPECT_EQ(read_word(word), 7U);
  OK(call.cuGraphExecDestroy(second));
}

TEST_F(GraphMemory, WhatALaunchLeavesMustGoBeforeTheNextOne) {
  const auto [what, scratch] = by_way_of_memory(7, false);
  const executable_graph ready = instantiate(what);
  OK(call.cuGraphLaunch(ready, on));
  EXPECT_NE(call.cuGraphLaunch(ready, on), result::success);
  OK(call.cuMemFreeAsync(scratch, on));
  OK(call.cuGraphLaunch(ready, on));
  synchronize();
  OK(call.cuMemFree(scratch));
  EXPECT_EQ(read_word(word), 7U);
  OK(call.cuGraphExecDestroy(ready));
}

TEST_F(GraphMemory, AnotherGraphFreesWhatALaunchLeft) {
  const auto [what, scratch] = by_way_of_memory(7, false);
  begin();
  OK(call.cuMemcpyDtoDAsync(word, scratch, 4, on));
  OK(call.cuMemFreeAsync(scratch, on));
  const executable_graph frees = instantiate(end());
  const executable_graph ready = instantiate(what);
  for (int i = 0; i < 3; ++i) {
    OK(call.cuGraphLaunch(ready, on));
    OK(call.cuGraphLaunch(frees, on));
  }
  synchronize();
  EXPECT_EQ(read_word(word), 7U);
  OK(call.cuGraphExecDestroy(ready));
  OK(call.cuGraphExecDestroy(frees));
}

TEST_F(GraphMemory, WhatWasNotLaunchedCannotBeFreedOutside) {
  const device_pointer scratch = by_way_of_memory(7, false).second;
  EXPECT_NE(call.cuMemFreeAsync(scratch, on), result::success);
  const device_pointer freed = by_way_of_memory(7, true).second;
  EXPECT_NE(call.cuMemFreeAsync(freed, on), result::success);
}

TEST_F(GraphMemory, MemoryFromOutsideIsNotFreedInAGraph) {
  device_pointer outside = allocate();
  begin();
  EXPECT_EQ(call.cuMemFreeAsync(outside, on), result::invalid_value);
  graph made = nullptr;
  static_cast<void>(call.cuStreamEndCapture(on, &made));
  if (made != nullptr) {
    OK(call.cuGraphDestroy(made));
  }
  OK(call.cuMemFreeAsync(outside, on));
  synchronize();
}

TEST_F(GraphMemory, ItsNodesStay) {
  const graph what = by_way_of_memory(7, true).first;
  std::vector<graph_node> nodes(4);
  std::size_t count = nodes.size();
  OK(call.cuGraphGetNodes(what, nodes.data(), &count));
  ASSERT_EQ(count, 4U);
  for (const graph_node each : nodes)
    EXPECT_NE(call.cuGraphDestroyNode(each), result::success);
}

TEST_F(GraphMemory, OneAfterTheOtherShareTheirRoomAndATrimGivesItBack) {
  begin();
  for (int i = 0; i < 8; ++i) {
    const device_pointer scratch = allocate(4 * mebibyte);
    OK(call.cuMemsetD32Async(scratch, 7, mebibyte, on));
    OK(call.cuMemFreeAsync(scratch, on));
  }
  const executable_graph ready = instantiate(end());
  OK(call.cuGraphLaunch(ready, on));
  synchronize();
  if (api.is_fake) {  // an H200 used 32 MiB
    EXPECT_LT(now(graph_memory_attribute::used_high), 8 * mebibyte);
    EXPECT_EQ(now(graph_memory_attribute::reserved_high), 4 * mebibyte);
  }
  OK(call.cuGraphExecDestroy(ready));
  OK(call.cuDeviceGraphMemTrim(0));
  EXPECT_EQ(now(graph_memory_attribute::reserved_now), 0U);
}

TEST_F(GraphMemory, OnesBesideEachOtherDoNot) {
  const stream second = make_stream();
  const event fork = make_event();
  const event join = make_event();
  begin();
  OK(call.cuEventRecord(fork, on));
  OK(call.cuStreamWaitEvent(second, fork, event_wait_flags::none));
  for (const stream each : {on, second}) {
    device_pointer scratch = 0;
    OK(call.cuMemAllocAsync(&scratch, 4 * mebibyte, each));
    OK(call.cuMemsetD32Async(scratch, 7, mebibyte, each));
    OK(call.cuMemFreeAsync(scratch, each));
  }
  OK(call.cuEventRecord(join, second));
  OK(call.cuStreamWaitEvent(on, join, event_wait_flags::none));
  const executable_graph ready = instantiate(end());
  OK(call.cuGraphLaunch(ready, on));
  synchronize();
  EXPECT_GE(now(graph_memory_attribute::reserved_high), 8 * mebibyte);
  OK(call.cuGraphExecDestroy(ready));
}

class FakeGraphMemory : public GraphMemory {
 protected:
  void SetUp() override {
    if (!the_driver().is_fake) GTEST_SKIP() << "this is a promise of the look-alike driver";
    GraphMemory::SetUp();
  }
  void TearDown() override {
    if (the_driver().is_fake) GraphMemory::TearDown();
  }
};

TEST_F(FakeGraphMemory, TheNumbersAreExact) {
  const std::uint64_t before = control.used_bytes(0);
  begin();
  for (int i = 0; i < 8; ++i) {
    const device_pointer scratch = allocate(1000);
    OK(call.cuMemFreeAsync(scratch, on));
  }
  const graph what = end();
  EXPECT_EQ(control.used_bytes(0), before);
  const executable_graph ready = instantiate(what);
  OK(call.cuGraphLaunch(ready, on));
  synchronize();
  EXPECT_EQ(now(graph_memory_attribute::used_high), 1000U);
  EXPECT_EQ(now(graph_memory_attribute::used_now), 0U);
  EXPECT_EQ(control.used_bytes(0), before + 1000);
  OK(call.cuGraphExecDestroy(ready));
  OK(call.cuDeviceGraphMemTrim(0));
  EXPECT_EQ(control.used_bytes(0), before);
}

TEST_F(FakeGraphMemory, ItCannotBeUpdated) {
  const executable_graph ready = instantiate(by_way_of_memory(7, true).first);
  graph_update_info how{};
  EXPECT_EQ(call.cuGraphExecUpdate(ready, by_way_of_memory(8, true).first, &how),
            result::graph_update_failure);
  EXPECT_EQ(how.result, graph_update_result::not_supported);
  OK(call.cuGraphLaunch(ready, on));
  synchronize();
  EXPECT_EQ(read_word(word), 7U);
  OK(call.cuGraphExecDestroy(ready));
}

TEST_F(FakeGraphMemory, ALaunchThatHasNoRoomIsRefused) {
  control.device_memory(control.used_bytes(0) + 1000);
  begin();
  const device_pointer scratch = allocate(2000);
  OK(call.cuMemFreeAsync(scratch, on));
  const executable_graph ready = instantiate(end());
  EXPECT_EQ(call.cuGraphLaunch(ready, on), result::out_of_memory);
  control.device_memory(control.used_bytes(0) + 2000);
  OK(call.cuGraphLaunch(ready, on));
  synchronize();
  OK(call.cuGraphExecDestroy(ready));
}

TEST_F(FakeGraphMemory, WhatALaunchLeftOutlivesTheGraph) {
  begin();
  const device_pointer scratch = allocate();
  graph what = nullptr;
  OK(call.cuStreamEndCapture(on, &what));
  const executable_graph ready = instantiate(what);
  OK(call.cuGraphLaunch(ready, on));
  OK(call.cuGraphExecDestroy(ready));
  OK(call.cuGraphDestroy(what));
  OK(call.cuMemsetD32Async(scratch, 9, 1, on));
  OK(call.cuMemcpyDtoDAsync(word, scratch, 4, on));
  OK(call.cuMemFreeAsync(scratch, on));
  synchronize();
  EXPECT_EQ(read_word(word), 9U);
  OK(call.cuDeviceGraphMemTrim(0));
  EXPECT_EQ(now(graph_memory_attribute::reserved_now), 0U);
}

}  // namespace
}  // namespace fake_cuda_test
