// SPDX-License-Identifier: Apache-2.0
/// Page-locking of users' buffers on the CUDA machine.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <vector>

#include <millstream/hooks.hpp>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/fake_cuda/driver.hpp"

namespace millstream::test {
namespace {

using fake_cuda_test::the_driver;

class CudaPages : public testing::Test {
 protected:
  void SetUp() override {
    if (!the_driver().is_fake) GTEST_SKIP() << "needs the look-alike driver";
    locked_before_ = calls("cuMemHostRegister");
    unlocked_before_ = calls("cuMemHostUnregister");
  }
  static std::uint64_t calls(const char* name) { return the_driver().control.count(name); }
  [[nodiscard]] std::uint64_t locked() const { return calls("cuMemHostRegister") - locked_before_; }
  [[nodiscard]] std::uint64_t unlocked() const {
    return calls("cuMemHostUnregister") - unlocked_before_;
  }
  /// A device reads it twice and writes it, there or `at` a place. True once the owner has gone.
  void use(std::size_t bytes, bool owned, std::atomic<bool>& gone, data_place at = {}) {
    auto buffer = std::make_shared<std::vector<std::byte>>(bytes);
    untyped_context ctx = open("cuda", 0);
    registration what;
    what.block = buffer->data();
    what.bytes = bytes;
    if (owned) {
      what.owner = std::shared_ptr<void>(buffer.get(), [&gone, buffer](void*) {
        gone = true;
        gone.notify_all();
      });
    }
    untyped_data data = ctx.register_data(what);
    what.owner.reset();
    for (const access_mode mode : {access_mode::read, access_mode::read, access_mode::rw})
      run(ctx, exec_place::device(0), {{data, mode, at, {}}}, nothing);
    data = untyped_data();
    ctx.finish();
  }

  std::uint64_t locked_before_ = 0;
  std::uint64_t unlocked_before_ = 0;
};

TEST_F(CudaPages, ALargeBufferIsLockedOnceAndUnlockedBeforeItsOwnerGoes) {
  std::atomic<bool> gone{false};
  use(std::size_t{4} << 20U, /*owned=*/true, gone);
  EXPECT_TRUE(gone);  // when finish has returned
  EXPECT_EQ(locked(), 1U);
  EXPECT_EQ(unlocked(), 1U);
}

TEST_F(CudaPages, TheOwnerOfALockedBufferIsKnown) {
  std::vector<std::byte> buffer(std::size_t{4} << 20U);
  untyped_context ctx = open("cuda", 0);
  registration what;
  what.block = buffer.data();
  what.bytes = buffer.size();
  what.owner = std::make_shared<int>(0);
  const void* const owner = what.owner.get();
  const untyped_data data = ctx.register_data(what);
  what.owner.reset();
  run(ctx, exec_place::device(0), {data.read()}, nothing);
  EXPECT_EQ(locked(), 1U);
  const std::shared_ptr<void>* const found = owner_kept_by(data);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->get(), owner);
  const std::shared_ptr<void> other = *found;
  EXPECT_EQ(owner_kept_by(data), nullptr);
  ctx.finish();
}

TEST_F(CudaPages, ASmallBufferIsNotLocked) {
  std::atomic<bool> gone{false};
  use(1000, /*owned=*/true, gone);
  gone.wait(false);
  EXPECT_EQ(locked(), 0U);
}

TEST_F(CudaPages, ABufferWithoutAnOwnerIsNotLocked) {
  std::atomic<bool> gone{false};
  use(std::size_t{4} << 20U, /*owned=*/false, gone);
  EXPECT_EQ(locked(), 0U);
}

// Few GPUs can follow the address of ordinary memory.
TEST_F(CudaPages, AnyBufferIsLockedThatADeviceWorksIn) {
  std::atomic<bool> gone{false};
  use(1000, /*owned=*/true, gone, data_place::host());
  EXPECT_TRUE(gone);
  EXPECT_EQ(locked(), 1U);
  EXPECT_EQ(unlocked(), 1U);
}

TEST_F(CudaPages, ABufferWithoutAnOwnerThatADeviceWorksInIsNotLocked) {
  std::atomic<bool> gone{false};
  use(1000, /*owned=*/false, gone, data_place::host());
  EXPECT_EQ(locked(), 0U);
}

}  // namespace
}  // namespace millstream::test
