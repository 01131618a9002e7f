// SPDX-License-Identifier: Apache-2.0
// Streams that are being captured, and the graphs that come of it.
#include <thread>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

class Capture : public DriverTest {
 protected:
  void begin(stream on, capture_mode mode = capture_mode::relaxed) {
    OK(call.cuStreamBeginCapture(on, mode));
  }
  graph end(stream on) {
    graph made = nullptr;
    OK(call.cuStreamEndCapture(on, &made));
    finally([this, made] { call.cuGraphDestroy(made); });
    return made;
  }
  result end_badly(stream on) {
    graph made = nullptr;
    const result answer = call.cuStreamEndCapture(on, &made);
    if (made != nullptr) call.cuGraphDestroy(made);
    return answer;
  }
  executable_graph instantiate(graph what) {
    executable_graph made = nullptr;
    OK(call.cuGraphInstantiateWithFlags(&made, what, 0));
    finally([this, made] { call.cuGraphExecDestroy(made); });
    return made;
  }
  std::size_t node_count(graph of) {
    std::size_t count = 0;
    OK(call.cuGraphGetNodes(of, nullptr, &count));
    return count;
  }
  std::size_t edge_count(graph of) {
    std::size_t count = 0;
    OK(call.cuGraphGetEdges(of, nullptr, nullptr, nullptr, &count));
    return count;
  }
  capture_status status_of(stream on) {
    capture_status now{};
    OK(call.cuStreamIsCapturing(on, &now));
    return now;
  }
};

class FakeCapture : public FakeDriverTest {};

TEST_F(Capture, WorkIsRecordedAndRunsAtEachLaunch) {
  const stream on = make_stream();
  const device_pointer words = make_block(8);
  fill_words(words, 1, 2);
  begin(on);
  OK(launch(on, "test_add_u32", words, words, words + 4, std::uint64_t{1}));
  const executable_graph ready = instantiate(end(on));
  EXPECT_EQ(read_word(words), 1U);
  for (int i = 0; i < 3; ++i)
    OK(call.cuGraphLaunch(ready, on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read_word(words), 4U);
}

TEST_F(Capture, BranchesForkAndJoin) {
  const stream origin = make_stream();
  const stream branch = make_stream();
  const device_pointer words = make_block(8);
  begin(origin);
  OK(call.cuMemsetD32Async(words, 1, 1, origin));
  order(origin, branch);
  OK(call.cuMemsetD32Async(words + 4, 2, 1, branch));
  OK(call.cuMemsetD32Async(words, 3, 1, origin));
  EXPECT_EQ(status_of(branch), capture_status::active);
  order(branch, origin);
  OK(launch(origin, "test_add_u32", words, words, words + 4, std::uint64_t{1}));
  const graph made = end(origin);
  EXPECT_EQ(status_of(branch), capture_status::none);
  EXPECT_EQ(node_count(made), 4U);
  EXPECT_EQ(edge_count(made), 4U);
  OK(call.cuGraphLaunch(instantiate(made), origin));
  OK(call.cuStreamSynchronize(origin));
  EXPECT_EQ(read_word(words), 5U);
}

TEST_F(Capture, ABranchThatDoesNotJoinIsAnError) {
  const stream origin = make_stream();
  const stream branch = make_stream();
  const device_pointer words = make_block(8);
  begin(origin);
  order(origin, branch);
  OK(call.cuMemsetD32Async(words, 1, 1, branch));
  EXPECT_EQ(end_badly(origin), result::stream_capture_unjoined);
  EXPECT_EQ(status_of(branch), capture_status::none);
}

TEST_F(Capture, AWaitForWorkOutsideSpoilsTheCapture) {
  const stream origin = make_stream();
  const event outside = make_event();
  OK(call.cuEventRecord(outside, make_stream()));
  begin(origin);
  EXPECT_EQ(call.cuStreamWaitEvent(origin, outside, event_wait_flags::none),
            result::stream_capture_isolation);
  EXPECT_EQ(status_of(origin), capture_status::invalidated);
  EXPECT_EQ(end_badly(origin), result::stream_capture_invalidated);
  EXPECT_EQ(status_of(origin), capture_status::none);
}

TEST_F(Capture, WaitingOnTheHostSpoilsTheCapture) {
  const stream origin = make_stream();
  begin(origin);
  EXPECT_EQ(call.cuStreamSynchronize(origin), result::stream_capture_unsupported);
  EXPECT_EQ(end_badly(origin), result::stream_capture_invalidated);
}

TEST_F(Capture, AQuerySpoilsTheCapture) {
  const stream origin = make_stream();
  begin(origin);
  EXPECT_EQ(call.cuStreamQuery(origin), result::stream_capture_unsupported);
  EXPECT_EQ(end_badly(origin), result::stream_capture_invalidated);
}

TEST_F(Capture, CapturedEventsHaveNoTime) {
  const stream origin = make_stream();
  const event mark = make_event();
  begin(origin);
  OK(call.cuEventRecord(mark, origin));
  EXPECT_EQ(call.cuEventQuery(mark), result::captured_event);
  EXPECT_EQ(end_badly(origin), result::stream_capture_invalidated);
}

TEST_F(Capture, AnEventKeepsTheMarkOfACaptureThatEnded) {
  const stream origin = make_stream();
  const event mark = make_event();
  begin(origin);
  OK(call.cuEventRecord(mark, origin));
  end(origin);
  EXPECT_EQ(call.cuStreamWaitEvent(make_stream(), mark, event_wait_flags::none),
            result::invalid_value);
  EXPECT_EQ(call.cuEventQuery(mark), result::invalid_value);
  OK(call.cuEventRecord(mark, origin));
  OK(call.cuEventSynchronize(mark));
}

TEST_F(Capture, ABranchWithoutWorkNeedNotJoin) {
  const stream origin = make_stream();
  begin(origin);
  order(origin, make_stream());
  end(origin);
}

TEST_F(Capture, AnEventThatWasNeverRecordedIsNoWaitForWorkOutside) {
  const stream origin = make_stream();
  begin(origin);
  OK(call.cuStreamWaitEvent(origin, make_event(), event_wait_flags::none));
  end(origin);
}

TEST_F(Capture, AGraphTakesOneCaptureAtATime) {
  const stream first = make_stream();
  const stream second = make_stream();
  graph into = nullptr;
  OK(call.cuGraphCreate(&into, 0));
  finally([this, into] { call.cuGraphDestroy(into); });
  OK(call.cuStreamBeginCaptureToGraph(first, into, nullptr, nullptr, 0, capture_mode::relaxed));
  EXPECT_EQ(
      call.cuStreamBeginCaptureToGraph(second, into, nullptr, nullptr, 0, capture_mode::relaxed),
      result::illegal_state);
  OK(call.cuStreamEndCapture(first, &into));
}

TEST_F(Capture, ACaptureFreesOnlyItsOwnMemory) {
  const stream origin = make_stream();
  device_pointer block = 0;
  OK(call.cuMemAllocAsync(&block, 4, origin));
  begin(origin);
  EXPECT_EQ(call.cuMemFreeAsync(block, origin), result::invalid_value);
  end(origin);
  OK(call.cuMemFreeAsync(block, origin));
}

TEST_F(Capture, TwoCapturesDoNotMerge) {
  const stream first = make_stream();
  const stream second = make_stream();
  const event mark = make_event();
  begin(first);
  begin(second);
  OK(call.cuEventRecord(mark, first));
  EXPECT_EQ(call.cuStreamWaitEvent(second, mark, event_wait_flags::none),
            result::stream_capture_merge);
  EXPECT_EQ(end_badly(second), result::stream_capture_invalidated);
  EXPECT_EQ(end_badly(first), result::stream_capture_invalidated);
}

TEST_F(Capture, EndingItInAnotherStreamSpoilsIt) {
  const stream origin = make_stream();
  const stream branch = make_stream();
  begin(origin);
  order(origin, branch);
  EXPECT_EQ(end_badly(branch), result::stream_capture_unmatched);
  EXPECT_EQ(end_badly(origin), result::stream_capture_invalidated);
}

TEST_F(Capture, TheLegacyStreamCannotBeCaptured) {
  EXPECT_EQ(call.cuStreamBeginCapture(nullptr, capture_mode::relaxed),
            result::stream_capture_unsupported);
}

TEST_F(Capture, TheLegacyStreamMayNotDependOnACapture) {
  const stream blocking = make_stream(stream_flags::default_stream);
  const device_pointer word = make_block(4);
  begin(blocking);
  EXPECT_EQ(call.cuMemsetD32Async(word, 1, 1, nullptr), result::stream_capture_implicit);
  EXPECT_EQ(end_badly(blocking), result::stream_capture_invalidated);
}

TEST_F(Capture, UnsafeCallsSpoilAGlobalCaptureOfTheSameThread) {
  const stream origin = make_stream();
  begin(origin, capture_mode::global);
  device_pointer block = 0;
  EXPECT_EQ(call.cuMemAlloc(&block, 64), result::stream_capture_unsupported);
  EXPECT_EQ(end_badly(origin), result::stream_capture_invalidated);
}

TEST_F(Capture, ARelaxedThreadMayCallAnything) {
  const stream origin = make_stream();
  begin(origin, capture_mode::global);
  auto mode = capture_mode::relaxed;
  OK(call.cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, capture_mode::global);
  make_block(64);
  OK(call.cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, capture_mode::relaxed);
  end(origin);
}

TEST_F(Capture, OtherThreadsAreDisturbedInGlobalModeOnly) {
  const stream origin = make_stream();
  for (const capture_mode mode : {capture_mode::thread_local_mode, capture_mode::global}) {
    begin(origin, mode);
    std::thread([this, mode] {
      device_pointer block = 0;
      OK(call.cuCtxSetCurrent(here));
      const result answer = call.cuMemAlloc(&block, 64);
      EXPECT_EQ(answer == result::success, mode == capture_mode::thread_local_mode);
      if (answer == result::success) call.cuMemFree(block);
    }).join();
    EXPECT_EQ(end_badly(origin) == result::success, mode == capture_mode::thread_local_mode);
  }
}

TEST_F(Capture, AnotherThreadLosesACaptureThatIsNotRelaxed) {
  const stream origin = make_stream();
  begin(origin, capture_mode::global);
  std::thread([this, origin] {
    OK(call.cuCtxSetCurrent(here));
    EXPECT_EQ(end_badly(origin), result::stream_capture_wrong_thread);
  }).join();
  EXPECT_EQ(status_of(origin), capture_status::none);
}

TEST_F(Capture, WorkGoesIntoAGivenGraphBehindGivenNodes) {
  const stream origin = make_stream();
  const device_pointer word = make_block(4);
  graph into = nullptr;
  graph_node first = nullptr;
  OK(call.cuGraphCreate(&into, 0));
  finally([this, into] { call.cuGraphDestroy(into); });
  OK(call.cuGraphAddEmptyNode(&first, into, nullptr, 0));
  OK(call.cuStreamBeginCaptureToGraph(origin, into, &first, nullptr, 1, capture_mode::relaxed));
  OK(call.cuMemsetD32Async(word, 1, 1, origin));
  graph made = nullptr;
  OK(call.cuStreamEndCapture(origin, &made));
  EXPECT_EQ(made, into);
  EXPECT_EQ(node_count(into), 2U);
  EXPECT_EQ(edge_count(into), 1U);
}

TEST_F(Capture, TheTailCanBeAskedFor) {
  const stream origin = make_stream();
  const device_pointer word = make_block(4);
  begin(origin);
  OK(call.cuMemsetD32Async(word, 1, 1, origin));
  capture_status now{};
  std::uint64_t id = 0;
  graph into = nullptr;
  const graph_node* after = nullptr;
  std::size_t count = 0;
  OK(call.cuStreamGetCaptureInfo(origin, &now, &id, &into, &after, nullptr, &count));
  EXPECT_EQ(now, capture_status::active);
  EXPECT_NE(id, 0U);
  ASSERT_EQ(count, 1U);
  auto type = node_type::empty;
  OK(call.cuGraphNodeGetType(after[0], &type));
  EXPECT_EQ(type, node_type::fill);
  EXPECT_EQ(end(origin), into);
}

TEST_F(Capture, MemoryOfAGraphComesAndGoesWithItsLaunches) {
  const stream origin = make_stream();
  const device_pointer word = make_block(4);
  begin(origin);
  device_pointer block = 0;
  OK(call.cuMemAllocAsync(&block, 4, origin));
  OK(call.cuMemsetD32Async(block, 6, 1, origin));
  OK(call.cuMemcpyDtoDAsync(word, block, 4, origin));
  OK(call.cuMemFreeAsync(block, origin));
  const executable_graph ready = instantiate(end(origin));
  for (int i = 0; i < 2; ++i)
    OK(call.cuGraphLaunch(ready, origin));
  OK(call.cuStreamSynchronize(origin));
  EXPECT_EQ(read_word(word), 6U);
}

TEST_F(FakeCapture, MemoryOfAGraphEndsWithIt) {
  const stream origin = make_stream();
  OK(call.cuStreamBeginCapture(origin, capture_mode::relaxed));
  device_pointer block = 0;
  OK(call.cuMemAllocAsync(&block, 4, origin));
  graph made = nullptr;
  OK(call.cuStreamEndCapture(origin, &made));
  EXPECT_EQ(control.used_bytes(0), 0U);  // nothing was launched
  OK(call.cuMemGetAddressRange(nullptr, nullptr, block));
  OK(call.cuGraphDestroy(made));
  EXPECT_EQ(call.cuMemGetAddressRange(nullptr, nullptr, block), result::not_found);
}

TEST_F(Capture, HostFunctionsRunAtEachLaunch) {
  const stream origin = make_stream();
  int runs = 0;
  begin(origin);
  OK(call.cuLaunchHostFunc(origin, [](void* data) { ++*static_cast<int*>(data); }, &runs));
  const executable_graph ready = instantiate(end(origin));
  for (int i = 0; i < 3; ++i)
    OK(call.cuGraphLaunch(ready, origin));
  OK(call.cuStreamSynchronize(origin));
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace fake_cuda_test
