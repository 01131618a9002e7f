// SPDX-License-Identifier: Apache-2.0
// Memory of all kinds: what exists when, and who may touch it.
#include <cstring>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

constexpr std::size_t large = std::size_t{2} << 20U;

class Memory : public DriverTest {
 protected:
  memory_pool make_pool(device on = 0) {
    memory_pool_properties properties{};
    properties.type = allocation_type::pinned;
    properties.location = {location_type::at_device, on};
    memory_pool made = nullptr;
    OK(call.cuMemPoolCreate(&made, &properties));
    finally([this, made] { call.cuMemPoolDestroy(made); });
    return made;
  }
  std::uint64_t pool_value(memory_pool of, pool_attribute what) {
    std::uint64_t value = 0;
    OK(call.cuMemPoolGetAttribute(of, what, &value));
    return value;
  }
};

class FakeMemory : public FakeDriverTest {
 protected:
  /// A stream of device 1, in its primary context, which stays current no longer than the call.
  stream stream_of_other() {
    OK(call.cuDevicePrimaryCtxRetain(&other, 1));
    OK(call.cuCtxPushCurrent(other));
    const stream made = make_stream();
    OK(call.cuCtxPopCurrent(nullptr));
    finally([this] { call.cuDevicePrimaryCtxRelease(1); });
    return made;
  }
  context other = nullptr;
};

TEST_F(Memory, BlocksAreDistinctAndAligned) {
  const device_pointer first = make_block(100);
  const device_pointer second = make_block(100);
  EXPECT_TRUE(first + 100 <= second || second + 100 <= first);
  EXPECT_EQ(first % 256, 0U);
  EXPECT_EQ(second % 256, 0U);
}

TEST_F(Memory, ZeroBytesAreRefused) {
  device_pointer made = 0;
  EXPECT_EQ(call.cuMemAlloc(&made, 0), result::invalid_value);
}

TEST_F(Memory, TooMuchIsRefusedAndDoesNotStick) {
  device_pointer made = 0;
  EXPECT_EQ(call.cuMemAlloc(&made, std::size_t{1} << 50U), result::out_of_memory);
  make_block(100);
}

TEST_F(Memory, FreeingTwiceIsRefused) {
  device_pointer made = 0;
  OK(call.cuMemAlloc(&made, 100));
  OK(call.cuMemFree(made));
  EXPECT_EQ(call.cuMemFree(made), result::invalid_value);
}

TEST_F(Memory, StreamOrderedMemoryWorksInItsOrder) {
  const stream on = make_stream();
  const memory_pool pool = make_pool();
  device_pointer block = 0;
  auto* const word = make_pinned<std::uint32_t>(1);
  OK(call.cuMemAllocFromPoolAsync(&block, 1024, pool, on));
  OK(call.cuMemsetD32Async(block, 9, 256, on));
  OK(call.cuMemcpyDtoHAsync(word, block + 1020, 4, on));
  OK(call.cuMemFreeAsync(block, on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(*word, 9U);
}

TEST_F(Memory, APoolKeepsWhatItsThresholdSays) {
  const stream on = make_stream();
  const memory_pool pool = make_pool();
  std::uint64_t keep = ~std::uint64_t{0};
  OK(call.cuMemPoolSetAttribute(pool, pool_attribute::release_threshold, &keep));
  device_pointer block = 0;
  OK(call.cuMemAllocFromPoolAsync(&block, 1024, pool, on));
  OK(call.cuMemFreeAsync(block, on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(pool_value(pool, pool_attribute::used_bytes_now), 0U);
  EXPECT_GE(pool_value(pool, pool_attribute::reserved_bytes_now), 1024U);
  OK(call.cuMemPoolTrimTo(pool, 0));
  EXPECT_EQ(pool_value(pool, pool_attribute::reserved_bytes_now), 0U);
}

TEST_F(Memory, PageLockedMemoryIsSeenByDevices) {
  auto* const word = make_pinned<std::uint32_t>(4);
  device_pointer seen = 0;
  OK(call.cuMemHostGetDevicePointer(&seen, word, 0));
  OK(call.cuMemsetD32(seen, 6, 4));
  OK(call.cuCtxSynchronize());
  EXPECT_EQ(word[3], 6U);
}

TEST_F(Memory, RegistrationIsKeptAccountOf) {
  std::vector<unsigned char> mine(3 * 4096);
  void* const start = mine.data();
  OK(call.cuMemHostRegister(start, mine.size(), host_register_flags::portable));
  EXPECT_EQ(call.cuMemHostRegister(start, 100, host_register_flags::portable),
            result::host_memory_already_registered);
  std::uint32_t type = 0;
  OK(call.cuPointerGetAttribute(&type, pointer_attribute::memory_type,
                                reinterpret_cast<device_pointer>(start)));
  EXPECT_EQ(type, static_cast<std::uint32_t>(memory_type::on_host));
  OK(call.cuMemHostUnregister(start));
  EXPECT_EQ(call.cuMemHostUnregister(start), result::host_memory_not_registered);
}

TEST_F(Memory, UnknownPointersHaveNoAttributes) {
  int mine = 0;
  std::uint32_t type = 0;
  EXPECT_EQ(call.cuPointerGetAttribute(&type, pointer_attribute::memory_type,
                                       reinterpret_cast<device_pointer>(&mine)),
            result::invalid_value);
}

TEST_F(Memory, AllAttributesAtOnceNeverFail) {
  int mine = 0;
  std::uint32_t type = 9;
  int ordinal = 9;
  pointer_attribute what[] = {pointer_attribute::memory_type, pointer_attribute::device_ordinal};
  void* values[] = {&type, &ordinal};
  OK(call.cuPointerGetAttributes(2, what, values, reinterpret_cast<device_pointer>(&mine)));
  EXPECT_EQ(type, 0U);
  EXPECT_EQ(ordinal, -2);
  OK(call.cuPointerGetAttributes(2, what, values, make_block(64) + 10));
  EXPECT_EQ(type, static_cast<std::uint32_t>(memory_type::on_device));
  EXPECT_EQ(ordinal, 0);
}

TEST_F(Memory, ManagedMemoryIsOfHostAndDevice) {
  device_pointer block = 0;
  OK(call.cuMemAllocManaged(&block, 64, attach_flags::global));
  auto* const words = reinterpret_cast<std::uint32_t*>(block);
  words[0] = 1;
  OK(call.cuMemsetD32(block + 4, 8, 1));
  OK(call.cuCtxSynchronize());
  EXPECT_EQ(words[0], 1U);
  EXPECT_EQ(words[1], 8U);
  bool managed = false;
  OK(call.cuPointerGetAttribute(&managed, pointer_attribute::is_managed, block));
  EXPECT_TRUE(managed);
  OK(call.cuMemFree(block));
}

TEST_F(Memory, AVirtualRangeIsBackedByPieces) {
  allocation_properties properties{};
  properties.type = allocation_type::pinned;
  properties.location = {location_type::at_device, 0};
  device_pointer range = 0;
  OK(call.cuMemAddressReserve(&range, 2 * large, 0, 0, 0));
  for (std::size_t i = 0; i < 2; ++i) {
    allocation_handle piece = 0;
    OK(call.cuMemCreate(&piece, large, &properties, 0));
    OK(call.cuMemMap(range + i * large, large, 0, piece, 0));
    OK(call.cuMemRelease(piece));
  }
  const memory_access access{{location_type::at_device, 0}, access_flags::read_write};
  OK(call.cuMemSetAccess(range, 2 * large, &access, 1));
  OK(call.cuMemsetD32(range + large - 8, 4, 4));
  EXPECT_EQ(read_words(range + large - 8, 4), std::vector<std::uint32_t>(4, 4));
  OK(call.cuMemUnmap(range, 2 * large));
  OK(call.cuMemAddressFree(range, 2 * large));
}

TEST_F(FakeMemory, FreshMemoryIsFullOfAPattern) {
  EXPECT_EQ(read_word(make_block(4)), 0xA5A5A5A5U);
}

TEST_F(FakeMemory, UseBeforeTheAllocationIsAFault) {
  const stream first = make_stream();
  const stream second = make_stream();
  device_pointer block = 0;
  auto* const word = make_pinned<std::uint32_t>(1);
  OK(call.cuStreamWaitValue32(first, reinterpret_cast<device_pointer>(word), 1,
                              wait_value_flags::equal));
  OK(call.cuMemAllocAsync(&block, 64, first));
  OK(call.cuMemsetD32Async(block, 1, 1, second));
  EXPECT_EQ(call.cuStreamSynchronize(second), result::illegal_address);
  EXPECT_NE(last_fault().find("not allocated at this point"), std::string::npos);
}

TEST_F(FakeMemory, UseAfterTheFreeIsAFault) {
  const stream on = make_stream();
  const stream late = make_stream();
  const event freed = make_event();
  device_pointer block = 0;
  auto* const word = make_pinned<std::uint32_t>(1);
  OK(call.cuMemAllocAsync(&block, 64, on));
  OK(call.cuStreamWaitValue32(late, reinterpret_cast<device_pointer>(word), 1,
                              wait_value_flags::equal));
  OK(call.cuMemsetD32Async(block, 1, 1, late));
  OK(call.cuMemFreeAsync(block, on));
  OK(call.cuEventRecord(freed, on));
  OK(call.cuEventSynchronize(freed));
  *word = 1;
  EXPECT_EQ(call.cuStreamSynchronize(late), result::illegal_address);
}

TEST_F(FakeMemory, NamingFreedMemoryIsRefused) {
  const stream on = make_stream();
  device_pointer block = 0;
  OK(call.cuMemAllocAsync(&block, 64, on));
  OK(call.cuMemFreeAsync(block, on));
  EXPECT_EQ(call.cuMemsetD32Async(block, 1, 1, on), result::invalid_value);
  EXPECT_EQ(call.cuMemFreeAsync(block, on), result::invalid_value);
}

TEST_F(FakeMemory, RunningOverTheEndIsRefused) {
  const device_pointer block = make_block(512);
  EXPECT_EQ(call.cuMemsetD8(block, 0, 513), result::invalid_value);
  EXPECT_EQ(call.cuMemsetD8(block - 1, 0, 2), result::invalid_value);
}

TEST_F(FakeMemory, AFreeOfOneStreamMakesRoomForAnother) {
  control.device_memory(1000);
  const stream on = make_stream();
  device_pointer first = 0;
  device_pointer second = 0;
  OK(call.cuMemAllocAsync(&first, 800, on));
  EXPECT_EQ(call.cuMemAllocAsync(&second, 800, on), result::out_of_memory);
  OK(call.cuMemFreeAsync(first, on));
  OK(call.cuMemAllocAsync(&second, 800, make_stream()));
  OK(call.cuMemFreeAsync(second, on));
}

TEST_F(FakeMemory, AnotherDeviceNeedsAccess) {
  const stream there = stream_of_other();
  const device_pointer block = make_block(64);
  EXPECT_EQ(call.cuMemsetD32Async(block, 1, 1, there), result::invalid_value);
  OK(call.cuCtxPushCurrent(other));
  OK(call.cuCtxEnablePeerAccess(here, 0));
  EXPECT_EQ(call.cuCtxEnablePeerAccess(here, 0), result::peer_access_already_enabled);
  OK(call.cuCtxPopCurrent(nullptr));
  OK(call.cuMemsetD32Async(block, 1, 1, there));
  OK(call.cuStreamSynchronize(there));
}

TEST_F(FakeMemory, APoolLetsDevicesIn) {
  const stream there = stream_of_other();
  memory_pool pool = nullptr;
  device_pointer block = 0;
  OK(call.cuDeviceGetDefaultMemPool(&pool, 0));
  OK(call.cuMemAllocFromPoolAsync(&block, 64, pool, there));
  EXPECT_EQ(call.cuMemsetD32Async(block, 1, 1, there), result::invalid_value);
  const memory_access access{{location_type::at_device, 1}, access_flags::read_write};
  OK(call.cuMemPoolSetAccess(pool, &access, 1));
  OK(call.cuMemsetD32Async(block, 1, 1, there));
  OK(call.cuMemFreeAsync(block, there));
}

TEST_F(FakeMemory, CopiesBetweenContextsNeedNoAccess) {
  const stream there = stream_of_other();
  const device_pointer from = make_block(4);
  fill_words(from, 12, 1);
  OK(call.cuCtxPushCurrent(other));
  const device_pointer to = make_block(4);
  EXPECT_EQ(call.cuMemcpyDtoDAsync(to, from, 4, there), result::invalid_value);
  OK(call.cuMemcpyPeerAsync(to, other, from, here, 4, there));
  EXPECT_EQ(call.cuMemcpyPeerAsync(to, here, from, other, 4, there), result::invalid_value);
  OK(call.cuStreamSynchronize(there));
  EXPECT_EQ(read_word(to), 12U);
  OK(call.cuCtxPopCurrent(nullptr));
}

TEST_F(FakeMemory, UnlockingMemoryThatQueuedWorkReadsIsAFault) {
  const stream on = make_stream();
  std::vector<unsigned char> mine(256 * 1024);
  const device_pointer to = make_block(mine.size());
  OK(call.cuMemHostRegister(mine.data(), mine.size(), host_register_flags::portable));
  OK(call.cuMemcpyHtoDAsync(to, mine.data(), mine.size(), on));
  OK(call.cuMemHostUnregister(mine.data()));
  EXPECT_EQ(call.cuStreamSynchronize(on), result::illegal_address);
}

}  // namespace
}  // namespace fake_cuda_test
