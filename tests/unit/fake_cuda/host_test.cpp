// SPDX-License-Identifier: Apache-2.0
// Host functions, and words of memory that streams wait for and write.
#include <atomic>
#include <future>
#include <thread>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

class Host : public DriverTest {
 protected:
  static device_pointer address(const void* of) { return reinterpret_cast<device_pointer>(of); }
  void wait_for(stream on, const std::uint32_t* word) {
    OK(call.cuStreamWaitValue32(on, address(word), 1, wait_value_flags::equal));
  }
  static void set(std::uint32_t* word) { std::atomic_ref<std::uint32_t>(*word).store(1); }
};

class FakeHost : public FakeDriverTest {
 protected:
  static device_pointer address(const void* of) { return reinterpret_cast<device_pointer>(of); }
};

void set_promise(void* data) {
  static_cast<std::promise<void>*>(data)->set_value();
}

TEST_F(Host, AFunctionRunsInItsOrder) {
  const stream on = make_stream();
  auto* const word = make_pinned<std::uint32_t>(2);
  const device_pointer block = make_block(4);
  OK(call.cuMemsetD32Async(block, 5, 1, on));
  OK(call.cuMemcpyDtoHAsync(word, block, 4, on));
  const host_function copy = [](void* data) {
    static_cast<std::uint32_t*>(data)[1] = static_cast<std::uint32_t*>(data)[0];
  };
  OK(call.cuLaunchHostFunc(on, copy, word));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(word[1], 5U);
}

TEST_F(Host, AFunctionRunsThoughNobodyCallsTheDriver) {
  const stream on = make_stream();
  std::promise<void> ran;
  OK(launch(on, "test_spin", std::uint64_t{3}));
  OK(call.cuLaunchHostFunc(on, set_promise, &ran));
  ran.get_future().get();
}

TEST_F(Host, AWrittenWordIsSeenThoughNobodyCallsTheDriver) {
  auto* const word = make_pinned<std::uint32_t>(1);
  OK(call.cuStreamWriteValue32(make_stream(), address(word), 3, write_value_flags::none));
  while (std::atomic_ref<std::uint32_t>(*word).load() != 3)
    std::this_thread::yield();
}

TEST_F(Host, AStreamWaitsForAWord) {
  const stream on = make_stream();
  auto* const word = make_pinned<std::uint32_t>(1);
  wait_for(on, word);
  EXPECT_EQ(call.cuStreamQuery(on), result::not_ready);
  std::thread writer([word] { set(word); });
  OK(call.cuStreamSynchronize(on));
  writer.join();
}

TEST_F(Host, AtLeastIsCyclic) {
  const stream on = make_stream();
  auto* const word = make_pinned<std::uint64_t>(1);
  *word = 2;
  OK(call.cuStreamWaitValue64(on, address(word), ~std::uint64_t{0},
                              wait_value_flags::greater_or_equal));
  OK(call.cuStreamSynchronize(on));
}

TEST_F(Host, AParkedStreamHoldsNobodyUp) {
  const stream parked = make_stream();
  const stream other = make_stream();
  auto* const word = make_pinned<std::uint32_t>(1);
  const device_pointer block = make_block(4);
  wait_for(parked, word);
  OK(call.cuMemsetD32Async(block, 5, 1, other));
  OK(call.cuStreamSynchronize(other));
  EXPECT_EQ(call.cuStreamQuery(parked), result::not_ready);
  set(word);
  OK(call.cuStreamSynchronize(parked));
}

TEST_F(FakeHost, AFunctionMayNotCallTheDriver) {
  struct shared_words {
    const entry_points* call;
    result answer;
  } both{&call, result::success};
  const host_function body = [](void* data) {
    auto* const seen = static_cast<shared_words*>(data);
    int count = 0;
    seen->answer = seen->call->cuDeviceGetCount(&count);
  };
  const stream on = make_stream();
  OK(call.cuLaunchHostFunc(on, body, &both));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(both.answer, result::not_permitted);
}

TEST_F(FakeHost, FunctionsOfABrokenContextDoNotRun) {
  const stream on = make_stream();
  OK(launch(on, "test_touch", std::uint64_t{64}));
  bool ran = false;
  OK(call.cuLaunchHostFunc(on, [](void* data) { *static_cast<bool*>(data) = true; }, &ran));
  EXPECT_EQ(call.cuStreamSynchronize(on), result::illegal_address);
  EXPECT_FALSE(ran);
}

TEST_F(FakeHost, TooManyParkedStreamsStopAllOthers) {
  control.park_limit(3);
  auto* const word = make_pinned<std::uint32_t>(1);
  for (int i = 0; i < 4; ++i)
    OK(call.cuStreamWaitValue32(make_stream(), address(word), 1, wait_value_flags::equal));
  const stream other = make_stream();
  OK(call.cuMemsetD32Async(make_block(4), 5, 1, other));
  EXPECT_EQ(call.cuStreamQuery(other), result::not_ready);
  EXPECT_EQ(call.cuStreamQuery(other), result::not_ready);
  EXPECT_GT(control.stalls(), 0U);
  std::atomic_ref<std::uint32_t>(*word).store(1);
  OK(call.cuStreamSynchronize(other));
}

TEST_F(FakeHost, StreamsBehindAParkedOneCount) {
  control.park_limit(1);
  auto* const word = make_pinned<std::uint32_t>(1);
  const stream parked = make_stream();
  const stream behind = make_stream();
  const event mark = make_event();
  OK(call.cuStreamWaitValue32(parked, address(word), 1, wait_value_flags::equal));
  OK(call.cuEventRecord(mark, parked));
  const stream other = make_stream();
  OK(call.cuMemsetD32Async(make_block(4), 5, 1, other));
  OK(call.cuStreamSynchronize(other));
  OK(call.cuStreamWaitEvent(behind, mark, event_wait_flags::none));
  OK(call.cuMemsetD32Async(make_block(4), 5, 1, other));
  EXPECT_EQ(call.cuStreamQuery(other), result::not_ready);
  EXPECT_GT(control.stalls(), 0U);
  std::atomic_ref<std::uint32_t>(*word).store(1);
  OK(call.cuStreamSynchronize(behind));
}

TEST_F(FakeHost, WithoutTheBackgroundFunctionsWaitForSomebody) {
  control.background(0);
  const stream on = make_stream();
  std::promise<void> ran;
  OK(call.cuLaunchHostFunc(on, set_promise, &ran));
  EXPECT_EQ(control.pending(), 1U);
  OK(call.cuStreamSynchronize(on));
  ran.get_future().get();
}

}  // namespace
}  // namespace fake_cuda_test
