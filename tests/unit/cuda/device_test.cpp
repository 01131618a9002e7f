// SPDX-License-Identifier: Apache-2.0
/// Adopted streams and contexts, partitions, ranges, peers, kinds of memory.
#include "backend/range.hpp"
#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

class Device : public MachineTest {
 protected:
  /// Some work that must come out right on that queue.
  void expect_works(backend::device& on, backend::queue& queue, int home) {
    void* block = value(on.allocate(1000, queue));
    fill(queue, block, 1000, 7, home);
    EXPECT_EQ(read(queue, block, 1000, home), bytes(1000, std::byte{7}));
    ok(on.release(block, 1000, queue));
    finish(queue);
  }
  abi::stream stream_of_caller(abi::context in) {
    call.cuCtxPushCurrent(in);
    abi::stream made = nullptr;
    call.cuStreamCreate(&made, abi::stream_flags::default_stream);
    call.cuCtxPopCurrent(&in);
    return made;
  }
  abi::context primary(int ordinal) {
    abi::context own = nullptr;
    call.cuDevicePrimaryCtxRetain(&own, ordinal);
    return own;
  }
  template <class T>
  void expect_refused(const backend::result<T>& answer, const std::string& word) {
    EXPECT_EQ(answer.why().code(), errc::invalid_value);
    EXPECT_NE(answer.why().text().find(word), std::string::npos) << answer.why().text();
  }
};

TEST_F(Device, AnAdoptedStreamIsUsedAndNeverDestroyed) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const abi::stream own = stream_of_caller(primary(0));
  {
    const queue_ptr queue = value(device().adopt(reinterpret_cast<std::uint64_t>(own)));
    EXPECT_EQ(queue->handle(), reinterpret_cast<std::uint64_t>(own));
    control.log(1);
    expect_works(device(), *queue, 0);
    control.log(0);
  }
  EXPECT_EQ(call.cuStreamQuery(own), abi::result::success);
  close();
  EXPECT_EQ(call.cuStreamQuery(own), abi::result::success);
  call.cuStreamDestroy(own);
  call.cuDevicePrimaryCtxRelease(0);
}

TEST_F(Device, ZeroAdoptsTheDefaultStream) {
  const queue_ptr queue = value(device().adopt(0));
  EXPECT_EQ(queue->handle(), 1U);
  expect_works(device(), *queue, 0);
}

TEST_F(Device, TheDefaultStreamOfAThreadIsNotAdopted) {
  expect_refused(device().adopt(2), "default stream of a thread");
}

TEST_F(Device, AStreamOfAnotherDeviceIsNotAdopted) {
  MILLSTREAM_NEEDS_DEVICES(2);
  const abi::stream other = stream_of_caller(primary(1));
  expect_refused(device(0).adopt(reinterpret_cast<std::uint64_t>(other)), "another device");
  call.cuStreamDestroy(other);
  call.cuDevicePrimaryCtxRelease(1);
}

TEST_F(Device, PartitionsComputeOnTheirOwnStreams) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  auto parts = value(device().split(2, 16));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(control.live("green_context"), 2);
  for (const auto& part : parts) {
    EXPECT_EQ(part->index(), 0);
    const queue_ptr queue = value(part->make_queue());
    expect_works(*part, *queue, 0);
  }
  EXPECT_NE(parts[0]->name(), parts[1]->name());
  parts.clear();
  EXPECT_EQ(control.live("green_context"), 0);
}

TEST_F(Device, APartitionLivesAsLongAsItsQueues) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  auto parts = value(device().split(1, 16));
  queue_ptr queue = value(parts[0]->make_queue());
  parts.clear();
  EXPECT_EQ(control.live("green_context"), 1);
  finish(*queue);
  queue.reset();
  EXPECT_EQ(control.live("green_context"), 0);
}

TEST_F(Device, TooManyPartitionsAreRefusedWithTheNumber) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  expect_refused(device().split(1000, 64), "multiprocessors");
  expect_refused(device().split(0, 8), "0 parts");
  expect_refused(device().split(1, 100'000), "enough for 0");
  EXPECT_EQ(control.live("green_context"), 0);
}

TEST_F(Device, AForeignContextIsADeviceAndStays) {
  MILLSTREAM_NEEDS_DEVICES(2);
  abi::context own = nullptr;
  call.cuCtxCreate(&own, 0, 1);
  call.cuCtxPopCurrent(&own);
  auto foreign = value(machine().adopt_context(reinterpret_cast<std::uint64_t>(own)));
  EXPECT_EQ(foreign->index(), 1);
  {
    const queue_ptr queue = value(foreign->make_queue());
    expect_works(*foreign, *queue, 1);
  }
  foreign.reset();
  close();
  call.cuCtxPushCurrent(own);
  EXPECT_EQ(current(), own);
  call.cuCtxDestroy(own);
}

TEST_F(Device, RangesHoldMemoryOfSeveralDevices) {
  MILLSTREAM_NEEDS_DEVICES(2);
  auto range = value(machine().reserve_range(1));
  const std::size_t step = range->granularity();
  range = value(machine().reserve_range(2 * step));
  EXPECT_EQ(range->bytes(), 2 * step);
  ok(range->back(0, step, 0));
  ok(range->back(step, step, 1));
  ok(range->allow(0));
  ok(range->allow(1));
  auto* first = static_cast<std::byte*>(range->address());
  const queue_ptr queue = make_queue();
  fill(*queue, first, 2 * step, 9);
  EXPECT_EQ(read(*queue, first + step - 4, 8), bytes(8, std::byte{9}));
}

TEST_F(Device, WrongPartsOfARangeAreRefused) {
  const auto range = value(machine().reserve_range(1));
  const std::size_t step = range->granularity();
  ok(range->back(0, step, 0));
  for (const auto& [offset, size] : {std::pair{std::size_t{0}, step},
                                     {std::size_t{1}, step},
                                     {step, step},
                                     {std::size_t{0}, std::size_t{0}}}) {
    EXPECT_EQ(range->back(offset, size, 0).code(), errc::invalid_value) << offset << " " << size;
  }
  EXPECT_EQ(range->back(0, step, 5).code(), errc::invalid_value);
}

TEST_F(Device, PeersAreOpenedOnlyForPairsThatCopy) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr queue = make_queue(0);
  control.clear_counts();
  expect_works(device(0), *queue, 0);
  EXPECT_EQ(control.count("cuCtxEnablePeerAccess"), 0U);
  const queue_ptr other = make_queue(1);
  void* from = value(device(0).allocate(64, *queue));
  void* to = value(device(1).allocate(64, *other));
  ok(queue->wait(*mark(*other)));
  for (int i = 0; i < 3; ++i) {
    ok(queue->copy(backend::copy_request::contiguous(to, backend::device_memory(1), from,
                                                     backend::device_memory(0), 64)));
  }
  EXPECT_EQ(control.count("cuCtxEnablePeerAccess"), 2U);
  finish(*queue);
  ok(device(0).release(from, 64, *queue));
  ok(device(1).release(to, 64, *queue));
}

TEST_F(Device, DevicesWithoutPeersCopyAllTheSame) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  close();
  control.peers(0);
  open();
  const queue_ptr queue = make_queue(0);
  void* from = value(device(0).allocate(64, *queue));
  void* to = value(device(1).allocate(64, *queue));
  fill(*queue, from, 64, 3);
  ok(queue->copy(backend::copy_request::contiguous(to, backend::device_memory(1), from,
                                                   backend::device_memory(0), 64)));
  EXPECT_EQ(read(*queue, to, 64, 1), bytes(64, std::byte{3}));
  EXPECT_EQ(machine().enable_peer(0, 1).code(), errc::unsupported);
  ok(device(0).release(from, 64, *queue));
  ok(device(1).release(to, 64, *queue));
}

TEST_F(Device, ManagedMemoryIsForAll) {
  const queue_ptr queue = make_queue();
  auto* shared = static_cast<std::byte*>(value(device().allocate_managed(1000, *queue)));
  const int home = static_cast<int>(memory_home::managed);
  fill(*queue, shared, 1000, 4, home);
  finish(*queue);
  EXPECT_EQ(shared[999], std::byte{4});
  EXPECT_EQ(device().memory().used_bytes, 0U);
  ok(device().release_managed(shared, 1000, *queue));
  EXPECT_FALSE(device().release_managed(shared, 1000, *queue).ok());
}

TEST_F(Device, OutOfMemoryNamesTheSizesAndTheDeviceGoesOn) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  close();
  control.device_memory(std::size_t{64} << 20U);
  open();
  const queue_ptr queue = make_queue();
  void* most = value(device().allocate(std::size_t{48} << 20U, *queue));
  const auto answer = device().allocate(std::size_t{32} << 20U, *queue);
  EXPECT_EQ(answer.why().code(), errc::out_of_memory);
  EXPECT_NE(answer.why().text().find("32 MiB: 48 MiB of 64 MiB"), std::string::npos)
      << answer.why().text();
  ok(device().release(most, std::size_t{48} << 20U, *queue));
  finish(*queue);
  expect_works(device(), *queue, 0);
}

}  // namespace
}  // namespace cuda_test
