// SPDX-License-Identifier: Apache-2.0
// Devices, contexts and partitions.
#include <thread>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

class Context : public DriverTest {};

/// A partition of device 0 and a stream of it.
class Partition : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    device_resource whole{};
    device_resource resource{};
    std::uint32_t count = 1;
    resource_descriptor described = nullptr;
    OK(call.cuDeviceGetDevResource(0, &whole, resource_type::multiprocessors));
    OK(call.cuDevSmResourceSplitByCount(&resource, &count, &whole, nullptr, 0, 8));
    OK(call.cuDevResourceGenerateDesc(&described, &resource, 1));
    OK(call.cuGreenCtxCreate(&part, described, 0, green_context_flags::default_stream));
    OK(call.cuGreenCtxStreamCreate(&on, part, stream_flags::non_blocking, 0));
    finally([this] {
      OK(call.cuStreamDestroy(on));
      OK(call.cuGreenCtxDestroy(part));
    });
  }
  green_context part = nullptr;
  stream on = nullptr;
};

class FakeContext : public FakeDriverTest {};

TEST_F(Context, EachThreadHasItsOwnStack) {
  context seen = here;
  std::thread([&] { OK(call.cuCtxGetCurrent(&seen)); }).join();
  EXPECT_EQ(seen, nullptr);
}

TEST_F(Context, PushAndPopGoBack) {
  context other = nullptr;
  OK(call.cuCtxCreate(&other, 0, 0));
  OK(call.cuCtxPushCurrent(here));
  context popped = nullptr;
  OK(call.cuCtxPopCurrent(&popped));
  EXPECT_EQ(popped, here);
  context now = nullptr;
  OK(call.cuCtxGetCurrent(&now));
  EXPECT_EQ(now, other);
  OK(call.cuCtxDestroy(other));
  OK(call.cuCtxGetCurrent(&now));
  EXPECT_EQ(now, here);
}

TEST_F(Context, WithoutOneNothingCanBeMade) {
  OK(call.cuCtxSetCurrent(nullptr));
  stream made = nullptr;
  EXPECT_EQ(call.cuStreamCreate(&made, stream_flags::non_blocking), result::invalid_context);
  OK(call.cuCtxSetCurrent(here));
}

TEST_F(Context, ThePrimaryOneIsSharedAndCounted) {
  context again = nullptr;
  OK(call.cuDevicePrimaryCtxRetain(&again, 0));
  EXPECT_EQ(again, here);
  OK(call.cuDevicePrimaryCtxRelease(0));
  std::uint32_t flags = 0;
  int active = 0;
  OK(call.cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(active, 1);
}

TEST_F(Context, StreamsKnowTheirContext) {
  context owner = nullptr;
  OK(call.cuStreamGetCtx(make_stream(), &owner));
  EXPECT_EQ(owner, here);
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  OK(call.cuStreamGetId(make_stream(), &first));
  OK(call.cuStreamGetId(make_stream(), &second));
  EXPECT_NE(first, second);
}

TEST_F(Context, ADeviceIsSplitIntoPartitions) {
  device_resource whole{};
  OK(call.cuDeviceGetDevResource(0, &whole, resource_type::multiprocessors));
  device_resource parts[2] = {};
  device_resource rest{};
  std::uint32_t count = 2;
  OK(call.cuDevSmResourceSplitByCount(parts, &count, &whole, &rest, 0, 8));
  ASSERT_EQ(count, 2U);
  EXPECT_EQ(
      parts[0].multiprocessors.count + parts[1].multiprocessors.count + rest.multiprocessors.count,
      whole.multiprocessors.count);
}

TEST_F(Partition, RunsWorkOfItsDevice) {
  const device_pointer word = make_block(4);
  OK(call.cuMemsetD32Async(word, 4, 1, on));
  OK(launch(on, "test_add_u32", word, word, word, std::uint64_t{1}));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read_word(word), 8U);
}

TEST_F(Partition, AllocatesFromPoolsOfItsDevice) {
  memory_pool pool = nullptr;
  device_pointer block = 0;
  OK(call.cuDeviceGetDefaultMemPool(&pool, 0));
  OK(call.cuMemAllocFromPoolAsync(&block, 64, pool, on));
  OK(call.cuMemsetD8Async(block, 1, 64, on));
  OK(call.cuMemFreeAsync(block, on));
  OK(call.cuStreamSynchronize(on));
}

TEST_F(Partition, RecordsEventsOfThePrimaryContext) {
  const event mark = make_event();
  OK(call.cuEventRecord(mark, on));
  OK(call.cuStreamWaitEvent(make_stream(), mark, event_wait_flags::none));
  OK(call.cuEventSynchronize(mark));
}

TEST_F(Partition, HasAContextOfItsOwn) {
  context theirs = nullptr;
  context owner = nullptr;
  OK(call.cuCtxFromGreenCtx(&theirs, part));
  EXPECT_NE(theirs, here);
  OK(call.cuStreamGetCtx(on, &owner));
  EXPECT_EQ(owner, theirs);
}

TEST_F(Partition, RecordsEventsOfItsOwnContext) {
  context theirs = nullptr;
  OK(call.cuCtxFromGreenCtx(&theirs, part));
  OK(call.cuCtxPushCurrent(theirs));
  const event mark = make_event();
  OK(call.cuEventRecord(mark, on));
  OK(call.cuCtxPopCurrent(nullptr));
  OK(call.cuEventSynchronize(mark));
}

TEST_F(Partition, MayBeOneOfAnyNumberOfMultiprocessors) {
  device_resource whole{};
  device_resource small{};
  device_resource rest{};
  std::uint32_t count = 1;
  OK(call.cuDeviceGetDevResource(0, &whole, resource_type::multiprocessors));
  OK(call.cuDevSmResourceSplitByCount(&small, &count, &whole, &rest, 0, 9));
  EXPECT_EQ(small.multiprocessors.count, 16U);
  count = 1000;
  OK(call.cuDevSmResourceSplitByCount(nullptr, &count, &whole, nullptr, 0, 16));
  EXPECT_EQ(count, whole.multiprocessors.count / 16);
}

TEST_F(FakeContext, TheLastReleaseEndsEverythingInIt) {
  context other = nullptr;
  OK(call.cuDevicePrimaryCtxRetain(&other, 1));
  OK(call.cuCtxPushCurrent(other));
  stream left = nullptr;
  device_pointer block = 0;
  OK(call.cuStreamCreate(&left, stream_flags::non_blocking));
  OK(call.cuMemAlloc(&block, 100));
  EXPECT_EQ(control.used_bytes(1), 100U);
  OK(call.cuDevicePrimaryCtxRelease(1));
  EXPECT_EQ(control.used_bytes(1), 0U);
  EXPECT_EQ(control.abandoned(), 2U);
  EXPECT_EQ(call.cuStreamQuery(left), result::context_is_destroyed);
  OK(call.cuCtxPopCurrent(nullptr));
  EXPECT_EQ(call.cuStreamQuery(left), result::invalid_handle);
}

}  // namespace
}  // namespace fake_cuda_test
