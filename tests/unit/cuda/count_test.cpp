// SPDX-License-Identifier: Apache-2.0
/// How many calls of the driver the operations cost.
#include <numeric>

#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

/// The context is current, as in a program that uses the device itself.
class Count : public MachineTest {
 protected:
  void SetUp() override {
    MachineTest::SetUp();
    queue_ = make_queue();
    block_ = value(device().allocate(size, *queue_));
    pinned_ = value(device(-1).allocate(size, *queue_));
    event_ = value(device().make_event());
    ok(queue_->record(*event_));
    call.cuDevicePrimaryCtxRetain(&own_, 0);
    call.cuCtxSetCurrent(own_);
  }
  void TearDown() override {
    call.cuCtxSetCurrent(nullptr);
    call.cuDevicePrimaryCtxRelease(0);
    ok(device(-1).release(pinned_, size, *queue_));
    ok(device().release(block_, size, *queue_));
    finish(*queue_);
    event_.reset();
    queue_.reset();
    MachineTest::TearDown();
  }
  /// Calls of the body by name, without those that touch thread-local memory only.
  static std::string calls_of(const std::function<void()>& body) {
    std::string names;
    for (const std::string& name : fake_cuda_test::calls_of_this_thread(body)) {
      if (name == "cuCtxGetCurrent" || name == "cuThreadExchangeStreamCaptureMode") continue;
      names += name + " ";
    }
    return names;
  }
  backend::copy_request copy_of(void* to, memory_home to_home, const void* from,
                                memory_home from_home) {
    return backend::copy_request::contiguous(to, to_home, from, from_home, size);
  }

  static constexpr std::size_t size = 4096;
  queue_ptr queue_;
  event_ptr event_;
  void* block_ = nullptr;
  void* pinned_ = nullptr;
  abi::context own_ = nullptr;
};

TEST_F(Count, TellingTheCurrentDeviceIsOneCallAndNoneWithOneDevice) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  EXPECT_EQ(calls_of([&] { EXPECT_EQ(machine().current_device(), 0); }), "cuCtxGetDevice ");
  const auto single = value(backend::cuda::open_with({1, {}}, library_path()));
  EXPECT_EQ(calls_of([&] { EXPECT_EQ(single->current_device(), 0); }), "");
}

TEST_F(Count, ARecordIsOneCall) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  EXPECT_EQ(calls_of([&] { ok(queue_->record(*event_)); }), "cuEventRecord ");
}

TEST_F(Count, AWaitIsOneCall) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr other = make_queue();
  EXPECT_EQ(calls_of([&] { ok(other->wait(*event_)); }), "cuStreamWaitEvent ");
}

TEST_F(Count, AWaitForAPassedHostMarkIsNone) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr jobs = make_queue(-1);
  run_job(*jobs, [] {});
  const event_ptr passed = mark(*jobs);
  ASSERT_TRUE(value(passed->wait_for(long_time)));
  EXPECT_EQ(calls_of([&] { ok(queue_->wait(*passed)); }), "");
}

TEST_F(Count, AContiguousCopyIsOneCall) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const memory_home host = memory_home::host;
  const memory_home here = backend::device_memory(0);
  EXPECT_EQ(calls_of([&] { ok(queue_->copy(copy_of(block_, here, pinned_, host))); }),
            "cuMemcpyHtoDAsync ");
  EXPECT_EQ(calls_of([&] { ok(queue_->copy(copy_of(pinned_, host, block_, here))); }),
            "cuMemcpyDtoHAsync ");
  void* other = value(device().allocate(size, *queue_));
  EXPECT_EQ(calls_of([&] { ok(queue_->copy(copy_of(other, here, block_, here))); }),
            "cuMemcpyDtoDAsync ");
  ok(device().release(other, size, *queue_));
}

TEST_F(Count, ABlockOfRowsIsOneCall) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  backend::copy_request rows =
      copy_of(block_, backend::device_memory(0), pinned_, memory_home::host);
  rows.rank = 2;
  rows.extents = {8, 100};
  rows.to_strides = {128};
  rows.from_strides = {100};
  EXPECT_EQ(calls_of([&] { ok(queue_->copy(rows)); }), "cuMemcpy2DAsync ");
  rows.rank = 3;
  rows.extents = {2, 4, 100};
  rows.to_strides = {1024, 128};
  rows.from_strides = {500, 100};
  EXPECT_EQ(calls_of([&] { ok(queue_->copy(rows)); }), "cuMemcpy3DAsync ");
}

TEST_F(Count, APageableCopyIsAMoveAndACopy) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  bytes pageable(size);
  ok(queue_->copy(copy_of(block_, backend::device_memory(0), pageable.data(),
                          memory_home::host)));  // the first one takes a staging buffer
  EXPECT_EQ(calls_of([&] {
              ok(queue_->copy(
                  copy_of(block_, backend::device_memory(0), pageable.data(), memory_home::host)));
            }),
            "cuPointerGetAttribute cuLaunchHostFunc cuMemcpyHtoDAsync ");
  finish(*queue_);
}

TEST_F(Count, ASimpleFillIsOneCall) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  EXPECT_EQ(calls_of([&] { fill(*queue_, block_, size, 7); }), "cuMemsetD8Async ");
}

TEST_F(Count, AReleaseAndAnAllocationAreOneCallEach) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  void* other = nullptr;
  EXPECT_EQ(calls_of([&] { other = value(device().allocate(size, *queue_)); }),
            "cuMemAllocFromPoolAsync ");
  EXPECT_EQ(calls_of([&] { ok(device().release(other, size, *queue_)); }), "cuMemFreeAsync ");
}

TEST_F(Count, APinnedBlockComesFromTheCache) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  EXPECT_EQ(calls_of([&] {
              void* other = value(device(-1).allocate(size, *queue_));
              ok(device(-1).release(other, size, *make_queue(-1)));
            }).find("cuMemHostAlloc"),
            std::string::npos);
}

}  // namespace
}  // namespace cuda_test
