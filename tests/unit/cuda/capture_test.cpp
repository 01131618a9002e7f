// SPDX-License-Identifier: Apache-2.0
/// Captures: ours into a graph, and those of others, which no call of ours may spoil.
#include <thread>

#include "backend/graph.hpp"
#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

class Capture : public MachineTest {
 protected:
  void SetUp() override {
    MachineTest::SetUp();
    call.cuDevicePrimaryCtxRetain(&own_, 0);
    call.cuCtxSetCurrent(own_);
    call.cuStreamCreate(&callers_, abi::stream_flags::non_blocking);
    call.cuCtxSetCurrent(nullptr);
  }
  void TearDown() override {
    if (graph_ != nullptr) call.cuGraphDestroy(graph_);
    call.cuStreamDestroy(callers_);
    call.cuDevicePrimaryCtxRelease(0);
    MachineTest::TearDown();
  }
  void begin(abi::capture_mode mode) {
    ASSERT_EQ(call.cuStreamBeginCapture(callers_, mode), abi::result::success);
  }
  void end() { ASSERT_EQ(call.cuStreamEndCapture(callers_, &graph_), abi::result::success); }
  std::size_t nodes() {
    std::size_t count = 0;
    call.cuGraphGetNodes(graph_, nullptr, &count);
    return count;
  }
  /// Launches what was captured, on a stream of the caller.
  void run_graph() {
    fake_cuda::executable_graph ready = nullptr;
    call.cuCtxSetCurrent(own_);
    ASSERT_EQ(call.cuGraphInstantiateWithFlags(&ready, graph_, 0), abi::result::success);
    ASSERT_EQ(call.cuGraphLaunch(ready, callers_), abi::result::success);
    ASSERT_EQ(call.cuStreamSynchronize(callers_), abi::result::success);
    call.cuGraphExecDestroy(ready);
    call.cuCtxSetCurrent(nullptr);
  }
  queue_ptr adopt() { return value(device().adopt(reinterpret_cast<std::uint64_t>(callers_))); }

  abi::context own_ = nullptr;
  abi::stream callers_ = nullptr;
  abi::graph graph_ = nullptr;
};

TEST_F(Capture, NoCallSpoilsTheCaptureOfAnotherThread) {
  MILLSTREAM_NEEDS_DEVICES(2);
  begin(abi::capture_mode::global);
  std::thread([&] {
    const queue_ptr queue = make_queue();
    void* block = value(device().allocate(1000, *queue));
    void* host = value(device(-1).allocate(std::size_t{5} << 20U, *queue));
    bytes locked(1000);
    ok(machine().register_memory(locked.data(), locked.size()));
    fill(*queue, block, 1000, 1);
    EXPECT_EQ(read(*queue, block, 1000), bytes(1000, std::byte{1}));
    ok(machine().unregister_memory(locked.data()));
    const std::string text = kernel_text();
    static_cast<void>(value(device().load(std::as_bytes(std::span(text)))));
    static_cast<void>(value(device().split(1, 8)));
    const queue_ptr second = make_queue(1);  // opens a device
    finish(*second);
    ok(device(-1).release(host, std::size_t{5} << 20U, *queue));
    ok(device().release(block, 1000, *queue));
    finish(*queue);
  }).join();
  end();
}

TEST_F(Capture, NoCallSpoilsTheCaptureOfTheSameThread) {
  begin(abi::capture_mode::thread_local_mode);
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(1000, *queue));
  fill(*queue, block, 1000, 2);
  EXPECT_EQ(read(*queue, block, 1000), bytes(1000, std::byte{2}));
  ok(device().release(block, 1000, *queue));
  finish(*queue);
  end();
  EXPECT_EQ(nodes(), 0U);
}

TEST_F(Capture, AnAdoptedStreamUnderCaptureRecordsOurWork) {
  const queue_ptr outside = make_queue();
  void* block = value(device().allocate(1000, *outside));
  finish(*outside);
  const queue_ptr queue = adopt();
  EXPECT_FALSE(value(queue->is_capturing()));
  begin(abi::capture_mode::relaxed);
  EXPECT_TRUE(value(queue->is_capturing()));
  bytes got(1000);
  fill(*queue, block, 1000, 3);
  ok(queue->copy(backend::copy_request::contiguous(got.data(), memory_home::host, block,
                                                   backend::device_memory(0), 1000)));
  end();
  EXPECT_EQ(nodes(), 2U);
  EXPECT_EQ(got, bytes(1000));
  run_graph();
  EXPECT_EQ(got, bytes(1000, std::byte{3}));
  ok(device().release(block, 1000, *outside));
}

TEST_F(Capture, ABranchForksAndJoins) {
  const queue_ptr origin = adopt();
  const queue_ptr branch = make_queue();
  void* block = value(device().allocate(1000, *branch));
  finish(*branch);
  begin(abi::capture_mode::relaxed);
  ok(branch->wait(*mark(*origin)));
  EXPECT_TRUE(value(branch->is_capturing()));
  fill(*branch, block, 1000, 4);
  ok(origin->wait(*mark(*branch)));
  end();
  EXPECT_FALSE(value(branch->is_capturing()));
  run_graph();
  EXPECT_EQ(read(*branch, block, 1000), bytes(1000, std::byte{4}));
  ok(device().release(block, 1000, *branch));
}

TEST_F(Capture, AMarkOfACaptureIsNotWaitedForOnTheHost) {
  const queue_ptr queue = adopt();
  begin(abi::capture_mode::relaxed);
  const event_ptr event = mark(*queue);
  EXPECT_EQ(event->is_done().why().code(), errc::usage);
  EXPECT_EQ(event->wait_for(long_time).why().code(), errc::usage);
  EXPECT_EQ(make_queue(-1)->wait(*event).code(), errc::usage);
  end();
}

TEST_F(Capture, PassedWorkOutsideOfACaptureIsNoObstacle) {
  const queue_ptr outside = make_queue();
  const event_ptr passed = mark(*outside);
  ASSERT_TRUE(value(passed->wait_for(long_time)));
  const queue_ptr queue = adopt();
  begin(abi::capture_mode::relaxed);
  ok(queue->wait(*passed));
  end();
}

TEST_F(Capture, UnfinishedWorkOutsideOfACaptureIsRefusedWithoutSpoilingIt) {
  const queue_ptr outside = make_queue();
  const queue_ptr queue = adopt();
  gate hold(machine(), *outside);
  const event_ptr later = mark(*outside);
  begin(abi::capture_mode::relaxed);
  EXPECT_EQ(queue->wait(*later).code(), errc::usage);
  end();
  hold.open();
  ASSERT_TRUE(value(later->wait_for(long_time)));
}

TEST_F(Capture, MemoryOfACaptureBelongsToTheGraph) {
  const queue_ptr queue = adopt();
  begin(abi::capture_mode::relaxed);
  void* block = value(device().allocate(1000, *queue));
  fill(*queue, block, 1000, 5);
  ok(device().release(block, 1000, *queue));
  end();
  EXPECT_EQ(nodes(), 3U);
  EXPECT_EQ(device().memory().used_bytes, 0U);
  run_graph();
  run_graph();
}

TEST_F(Capture, OursGoesStraightIntoTheGraph) {
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(1000, *queue));
  finish(*queue);
  const auto graph = value(device().make_graph());
  backend::node_list first;
  backend::node_list last;
  ok(graph->begin_body(*queue, {}));
  fill(*queue, block, 1000, 1);
  ok(graph->end_body(*queue, first));
  ASSERT_EQ(first.size(), 1U);
  ok(graph->begin_body(*queue, {first.begin(), first.size()}));
  fill(*queue, block, 500, 2);
  ok(graph->end_body(*queue, last));
  ASSERT_EQ(last.size(), 1U);
  EXPECT_NE(last[0], first[0]);
  EXPECT_FALSE(value(queue->is_capturing()));
  fill(*queue, block, 1000, 7);
  EXPECT_EQ(read(*queue, block, 1000), bytes(1000, std::byte{7}));
  ok(device().release(block, 1000, *queue));
}

TEST_F(Capture, NothingCapturedIsNoNode) {
  const queue_ptr queue = make_queue();
  const auto graph = value(device().make_graph());
  backend::node_list last;
  ok(graph->begin_body(*queue, {}));
  ok(graph->end_body(*queue, last));
  EXPECT_TRUE(last.empty());
}

TEST_F(Capture, OpenBranchesAreAllToldAndNotJoined) {
  const queue_ptr queue = make_queue();
  const queue_ptr branch = make_queue();
  void* block = value(device().allocate(1000, *queue));
  finish(*queue);
  const auto graph = value(device().make_graph());
  backend::node_list last;
  ok(graph->begin_body(*queue, {}));
  ok(branch->wait(*mark(*queue)));
  fill(*branch, block, 500, 1);
  fill(*queue, static_cast<std::byte*>(block) + 500, 500, 2);
  ok(queue->wait(*mark(*branch)));
  ok(graph->end_body(*queue, last));
  EXPECT_EQ(last.size(), 2U);
  ok(device().release(block, 1000, *queue));
}

TEST_F(Capture, ASpoiltOneIsToldAndTheQueueGoesOn) {
  const queue_ptr queue = make_queue();
  const auto graph = value(device().make_graph());
  backend::node_list last;
  ok(graph->begin_body(*queue, {}));
  call.cuStreamSynchronize(reinterpret_cast<abi::stream>(queue->handle()));  // not allowed
  const backend::status answer = graph->end_body(*queue, last);
  EXPECT_FALSE(answer.ok());
  EXPECT_TRUE(last.empty());
  finish(*queue);
}

TEST_F(Capture, EndingWithoutABeginningIsRefused) {
  const queue_ptr queue = make_queue();
  const auto graph = value(device().make_graph());
  backend::node_list last;
  EXPECT_EQ(graph->end_body(*queue, last).code(), errc::usage);
  finish(*queue);
}

}  // namespace
}  // namespace cuda_test
