// SPDX-License-Identifier: Apache-2.0
/// Loading: what is tried, and what is said when it fails.
#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

class Driver : public testing::Test {
 protected:
  void SetUp() override { begin_anew(); }
  void TearDown() override { begin_anew(); }
  void expect_unavailable(const std::string& word, const std::string& library = library_path()) {
    const auto opened = backend::cuda::open_with({}, library);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.why().code(), errc::unavailable);
    EXPECT_NE(opened.why().text().find(word), std::string::npos) << opened.why().text();
    if (!fake().is_fake) return;
    EXPECT_EQ(control.live(nullptr), 0);
  }
  backend::capability_set bits() {
    return value(backend::cuda::open_with({}, library_path()))->capabilities();
  }

  const fake_cuda_test::controls& control = fake().control;
};

TEST_F(Driver, AMissingLibraryIsNamed) {
  expect_unavailable("'/nowhere/libcuda.so.1'", "/nowhere/libcuda.so.1");
}

TEST_F(Driver, ALibraryThatIsNoDriverIsNamed) {
  expect_unavailable("cuGetProcAddress_v2", "libpthread.so.0");
}

TEST_F(Driver, AnOldDriverSaysItsVersion) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.pose(11080);
  expect_unavailable("11.8");
}

TEST_F(Driver, AMissingRequiredFunctionIsNamed) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.hide("cuMemAllocFromPoolAsync", 1);
  expect_unavailable("cuMemAllocFromPoolAsync (11.2)");
}

TEST_F(Driver, AFailedStartIsDescribed) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.fail_init(999);
  expect_unavailable("CUDA_ERROR_UNKNOWN");
}

TEST_F(Driver, NoDeviceIsUnavailable) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.devices(0);
  expect_unavailable("CUDA_ERROR_NO_DEVICE");
}

TEST_F(Driver, TooFewDevicesAreUnavailable) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.devices(2);
  EXPECT_EQ(backend::cuda::open_with({3, {}}, library_path()).why().code(), errc::unavailable);
}

TEST_F(Driver, ADeviceThatDoesNotOpenIsUnavailable) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.fail("cuDevicePrimaryCtxRetain", 1, 46, 0);
  expect_unavailable("'cuda:0'");
  control.fail(nullptr, 0, 0, 0);
}

TEST_F(Driver, NothingOfALibraryIsCalledBeforeItIsAskedFor) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  EXPECT_EQ(control.count(nullptr), 0U);
}

TEST_F(Driver, EveryRequiredRowIsNamedWhenItIsMissing) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters)                  \
  if (std::string(#need) == "required") {                                     \
    control.hide(#name, 1);                                                   \
    EXPECT_FALSE(backend::cuda::open_with({}, library_path()).ok()) << #name; \
    control.hide(nullptr, 0);                                                 \
  }
#include "backend/cuda/driver.inc"
#undef MILLSTREAM_CUDA_ROW
}

TEST_F(Driver, AMissingOptionalFunctionTurnsItsBitOff) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const struct {
    const char* name;
    capability bit;
  } rows[] = {{"cuMemAllocManaged", capability::managed},
              {"cuStreamWaitValue64", capability::stream_memory_ops},
              {"cuStreamBeginCaptureToGraph", capability::capture_to_graph},
              {"cuStreamUpdateCaptureDependencies", capability::capture_to_graph},
              {"cuGraphAddKernelNode", capability::graphs},
              {"cuGraphExecUpdate", capability::graphs},
              {"cuMemMap", capability::vmm},
              {"cuGreenCtxStreamCreate", capability::green_contexts}};
  for (const auto& row : rows) {
    EXPECT_TRUE(bits().has(row.bit)) << row.name;
    control.hide(row.name, 1);
    EXPECT_FALSE(bits().has(row.bit)) << row.name;
    control.hide(nullptr, 0);
  }
}

TEST_F(Driver, AnOlderDriverHasFewerBits) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.pose(12020);
  const backend::capability_set old = bits();
  EXPECT_TRUE(old.has(capability::kernels));
  EXPECT_TRUE(old.has(capability::graphs));
  EXPECT_FALSE(old.has(capability::capture_to_graph));
  EXPECT_FALSE(old.has(capability::green_contexts));
}

TEST_F(Driver, DevicesThatCannotReachEachOtherAreNoPeers) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.devices(2);
  control.peers(0);
  EXPECT_FALSE(bits().has(capability::peer));
}

}  // namespace
}  // namespace cuda_test
