// SPDX-License-Identifier: Apache-2.0
/// The host side: page-locked memory, moves of pageable memory, waits across.
#include <atomic>
#include <numeric>

#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

class Host : public MachineTest {
 protected:
  backend::copy_request up(void* to, const void* from, std::size_t count) {
    return backend::copy_request::contiguous(to, backend::device_memory(0), from, memory_home::host,
                                             count);
  }
};

TEST_F(Host, APageableSourceIsReadAtItsTurn) {
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(100, *queue));
  bytes source(100, std::byte{1});
  {
    gate hold(machine(), *queue);
    ok(queue->copy(up(block, source.data(), 100)));
    source.assign(100, std::byte{2});
  }
  EXPECT_EQ(read(*queue, block, 100), bytes(100, std::byte{2}));
  ok(device().release(block, 100, *queue));
}

TEST_F(Host, CopiesLargerThanTheStagingArriveWhole) {
  const queue_ptr queue = make_queue();
  bytes source(std::size_t{9} << 20U);
  for (std::size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<std::byte>(i * 7 + i / 1000);
  void* block = value(device().allocate(source.size(), *queue));
  ok(queue->copy(up(block, source.data(), source.size())));
  EXPECT_EQ(read(*queue, block, source.size()), source);
  ok(device().release(block, source.size(), *queue));
}

TEST_F(Host, LockedMemoryIsCopiedByTheDriverAlone) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(1000, *queue));
  bytes source(1000, std::byte{3});
  ok(machine().register_memory(source.data(), source.size()));
  control.clear_counts();
  ok(queue->copy(up(block, source.data(), source.size())));
  EXPECT_EQ(control.count("cuLaunchHostFunc"), 0U);
  EXPECT_EQ(control.count("cuMemcpyHtoDAsync"), 1U);
  EXPECT_EQ(read(*queue, block, 1000), source);
  ok(machine().unregister_memory(source.data()));
  ok(device().release(block, 1000, *queue));
}

TEST_F(Host, MemoryLockedTwiceIsUnlockedWithTheSecondCall) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  bytes block(1000);
  ok(machine().register_memory(block.data(), block.size()));
  ok(machine().register_memory(block.data(), block.size()));
  EXPECT_EQ(control.live("registration"), 1);
  ok(machine().unregister_memory(block.data()));
  EXPECT_EQ(control.live("registration"), 1);
  ok(machine().unregister_memory(block.data()));
  EXPECT_EQ(control.live("registration"), 0);
  EXPECT_EQ(machine().unregister_memory(block.data()).code(), errc::invalid_value);
}

TEST_F(Host, MemoryThatSomebodyElseLockedStaysLocked) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  bytes block(1000);
  abi::context own = nullptr;
  call.cuDevicePrimaryCtxRetain(&own, 0);
  call.cuCtxSetCurrent(own);
  call.cuMemHostRegister(block.data(), block.size(), abi::host_register_flags::portable);
  ok(machine().register_memory(block.data(), block.size()));
  ok(machine().unregister_memory(block.data()));
  EXPECT_EQ(control.live("registration"), 1);
  call.cuMemHostUnregister(block.data());
  call.cuCtxSetCurrent(nullptr);
  call.cuDevicePrimaryCtxRelease(0);
}

TEST_F(Host, MemoryThatCannotBeLockedIsAnErrorAndStaysUsable) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  bytes source(1000, std::byte{6});
  control.fail("cuMemHostRegister", 1, static_cast<int>(abi::result::operating_system), 0);
  EXPECT_EQ(machine().register_memory(source.data(), source.size()).code(), errc::device);
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(1000, *queue));
  ok(queue->copy(up(block, source.data(), 1000)));
  EXPECT_EQ(read(*queue, block, 1000), source);
  ok(device().release(block, 1000, *queue));
}

TEST_F(Host, APinnedBlockIsNotHandedOutBeforeItsLastUse) {
  const queue_ptr queue = make_queue();
  void* host = value(device(-1).allocate(1000, *queue));
  {
    gate hold(machine(), *queue);
    ok(device(-1).release(host, 1000, *queue));
    for (int i = 0; i < 10; ++i) {
      void* other = value(device(-1).allocate(1000, *queue));
      EXPECT_NE(other, host);
      ok(device(-1).release(other, 1000, *queue));
    }
  }
  finish(*queue);
}

TEST_F(Host, AStreamWaitsForTheWordOfAQueueThatIsGone) {
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(64, *queue));
  std::atomic<bool> ran{false};
  {
    const queue_ptr jobs = make_queue(-1);
    run_job(*jobs, [&] { ran = true; });
    const event_ptr done = mark(*jobs);
    ok(queue->wait(*done));
    ASSERT_TRUE(value(done->wait_for(long_time)));
  }
  // Another queue counts on in the same word.
  const queue_ptr next = make_queue(-1);
  ok(queue->wait(*mark(*next)));
  fill(*queue, block, 64, 1);
  EXPECT_EQ(read(*queue, block, 64), bytes(64, std::byte{1}));
  EXPECT_TRUE(ran);
  ok(device().release(block, 64, *queue));
}

TEST_F(Host, WithoutMemoryWaitsAWaitForAHostFunctionIsUnsupported) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  close();
  control.hide("cuStreamWaitValue64", 1);
  open();
  const queue_ptr queue = make_queue();
  const queue_ptr jobs = make_queue(-1);
  std::atomic<bool> go_on{false};
  run_job(*jobs, [&] {
    while (!go_on)
      continue;
  });
  const backend::status answer = queue->wait(*mark(*jobs));
  EXPECT_EQ(answer.code(), errc::unsupported);
  EXPECT_NE(answer.text().find("stream_memory_ops"), std::string::npos) << answer.text();
  go_on = true;
  finish(*jobs);
}

TEST_F(Host, AFailureOfLateWorkReachesTheWait) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr jobs = make_queue(-1);
  void* block = value(device().allocate(64, *jobs));
  finish(*jobs);
  control.fail("cuMemsetD8Async", 1, static_cast<int>(abi::result::not_permitted), 0);
  fill(*jobs, block, 64, 1);
  const auto answer = mark(*jobs)->wait_for(long_time);
  EXPECT_EQ(answer.why().code(), errc::device);
  finish(*jobs);  // told once
  ok(device().release(block, 64, *jobs));
  finish(*jobs);
}

}  // namespace
}  // namespace cuda_test
