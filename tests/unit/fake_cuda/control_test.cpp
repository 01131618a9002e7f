// SPDX-License-Identifier: Apache-2.0
// What tests can make of the look-alike driver.
#include <cstring>
#include <thread>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

class Control : public FakeDriverTest {
 protected:
  std::vector<std::string> logged_names() {
    std::vector<std::string> names;
    fake_cuda_call entry{};
    for (std::size_t i = 0; control.log_entry(i, &entry) != 0; ++i)
      names.emplace_back(entry.name);
    return names;
  }
};

TEST_F(Control, CallsAreCountedByName) {
  control.clear_counts();
  make_event();
  make_event();
  EXPECT_EQ(control.count("cuEventCreate"), 2U);
  EXPECT_EQ(control.count(nullptr), 2U);
  EXPECT_EQ(control.count("cuNothing"), 0U);
}

TEST_F(Control, TheLogHasNamesOrderAndHandles) {
  control.log(1);
  const stream on = make_stream();
  OK(call.cuStreamQuery(on));
  control.log(0);
  EXPECT_EQ(logged_names(), (std::vector<std::string>{"cuStreamCreate", "cuStreamQuery"}));
  fake_cuda_call made{};
  control.log_entry(0, &made);
  EXPECT_EQ(made.argument[0], reinterpret_cast<std::uint64_t>(on));
  EXPECT_EQ(made.result, 0);
}

TEST_F(Control, TheLogTellsThreadsApart) {
  control.log(1);
  int count = 0;
  OK(call.cuDeviceGetCount(&count));
  std::thread([&] { OK(call.cuDeviceGetCount(&count)); }).join();
  fake_cuda_call first{};
  fake_cuda_call second{};
  control.log_entry(0, &first);
  control.log_entry(1, &second);
  EXPECT_NE(first.thread, second.thread);
}

TEST_F(Control, TheNthCallFails) {
  control.fail("cuStreamCreate", 2, static_cast<int>(result::out_of_memory), 0);
  make_stream();
  stream made = nullptr;
  EXPECT_EQ(call.cuStreamCreate(&made, stream_flags::non_blocking), result::out_of_memory);
  make_stream();
  EXPECT_EQ(control.faults_fired(), 1U);
}

TEST_F(Control, TheNthCallOfAnyKindFails) {
  control.fail(nullptr, 2, static_cast<int>(result::unknown), 0);
  int version = 0;
  OK(call.cuDriverGetVersion(&version));
  int count = 0;
  OK(call.cuDeviceGetCount(&count));
  EXPECT_EQ(call.cuDeviceGetCount(&count), result::unknown);
}

TEST_F(Control, AFaultCanStay) {
  control.fail("cuEventCreate", 1, static_cast<int>(result::ecc_uncorrectable), 1);
  event made = nullptr;
  EXPECT_EQ(call.cuEventCreate(&made, event_flags::disable_timing), result::ecc_uncorrectable);
  stream next = nullptr;
  EXPECT_EQ(call.cuStreamCreate(&next, stream_flags::non_blocking), result::ecc_uncorrectable);
  context now = nullptr;
  OK(call.cuCtxGetCurrent(&now));
}

TEST_F(Control, AnOlderDriverLacksWhatIsNewer) {
  control.pose(12020);
  EXPECT_EQ(api.find("cuStreamGetCaptureInfo", 12030), nullptr);
  EXPECT_EQ(api.find("cuGreenCtxCreate", 12040), nullptr);
  EXPECT_NE(api.find("cuStreamGetId", 12000), nullptr);
  int version = 0;
  OK(call.cuDriverGetVersion(&version));
  EXPECT_EQ(version, 12020);
}

TEST_F(Control, ANameAskedForInAnOlderVersionIsNotGiven) {
  EXPECT_EQ(api.find("cuCtxGetId", 11080), nullptr);
}

TEST_F(Control, NamesCanBeHidden) {
  control.hide("cuMemCreate", 1);
  EXPECT_EQ(api.find("cuMemCreate", 10020), nullptr);
  control.hide(nullptr, 0);
  EXPECT_NE(api.find("cuMemCreate", 10020), nullptr);
}

TEST_F(Control, DevicesAndAttributesAreSet) {
  control.devices(5);
  int count = 0;
  OK(call.cuDeviceGetCount(&count));
  EXPECT_EQ(count, 5);
  control.attribute(static_cast<int>(device_attribute::memory_pools_supported), 0);
  int value = 1;
  OK(call.cuDeviceGetAttribute(&value, device_attribute::memory_pools_supported, 0));
  EXPECT_EQ(value, 0);
}

TEST_F(Control, TheStartCanFail) {
  control.fail_init(static_cast<int>(result::operating_system));
  EXPECT_EQ(call.cuInit(0), result::operating_system);
  control.fail_init(0);
  control.devices(0);
  EXPECT_EQ(call.cuInit(0), result::no_device);
  control.devices(2);
}

TEST_F(Control, LeaksAreCounted) {
  const std::int64_t before = control.live(nullptr);
  event made = nullptr;
  OK(call.cuEventCreate(&made, event_flags::disable_timing));
  EXPECT_EQ(control.live("event"), 1);
  EXPECT_EQ(control.live(nullptr), before + 1);
  EXPECT_EQ(control.live("nonsense"), -1);
  OK(call.cuEventDestroy(made));
}

TEST_F(Control, OperationsRunByHand) {
  const stream on = make_stream();
  const device_pointer block = make_block(4);
  for (int i = 0; i < 5; ++i)
    OK(call.cuMemsetD32Async(block, 1, 1, on));
  EXPECT_EQ(control.step(3), 3U);
  EXPECT_EQ(control.step(100), 2U);
}

TEST_F(Control, BeforeTheStartNothingWorks) {
  OK(call.cuCtxSetCurrent(nullptr));
  OK(call.cuDevicePrimaryCtxRelease(0));
  control.reset();
  int count = 0;
  EXPECT_EQ(call.cuDeviceGetCount(&count), result::not_initialized);
  DriverTest::SetUp();
}

}  // namespace
}  // namespace fake_cuda_test
