// SPDX-License-Identifier: Apache-2.0
/// Launches that pass a limit of the device.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/cuda/engine_host.hpp"
#include "tests/unit/cuda/engine_kernels.hpp"

namespace millstream::test {
namespace {

struct refused_launch {
  launch_config how;
  std::string text;
};

/// What no device takes.
std::vector<refused_launch> beyond_all() {
  const std::string device = ", and device 'cuda:0' takes at most ";
  return {{{.grid = {1, 65536}, .block = 1}, "grid (1, 65536, 1)" + device + "65535 in y"},
          {{.grid = {1, 1, 65536}, .block = 1}, "grid (1, 1, 65536)" + device + "65535 in z"},
          {{.grid = 1, .block = 1025}, "block (1025, 1, 1)" + device + "1024 in x"},
          {{.grid = 1, .block = {1, 1025}}, "block (1, 1025, 1)" + device + "1024 in y"},
          {{.grid = 1, .block = {1, 1, 65}}, "block (1, 1, 65)" + device + "64 in z"},
          {{.grid = 1, .block = {64, 32}}, "a block of 2048 threads" + device + "1024"},
          {{.grid = 1, .block = {1024, 1024, 64}}, "a block of 67108864 threads" + device + "1024"},
          {{.grid = 1, .block = 1, .shared_bytes = 1U << 30U},
           "1073741824 bytes of dynamic shared memory, and device 'cuda:0' has at most "}};
}

class EngineLimits : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] errc launch_refused(const launch_config& how, std::string& text) {
    untyped_task task(on_);
    task.set_kind(task_kind::cuda_kernel);
    task.set_symbol("large");
    task.set_place(device);
    task.add_dep(x_.rw());
    task.start();
    const errc why = thrown([&] { task.launch({&fill_, how, {}, nullptr}); }, &text);
    task.abandon();
    return why;
  }
  untyped_context on_ = open_cuda(nullptr, /*recorded=*/GetParam());
  const untyped_data x_ = on_.make_data(64);
  const device_kernel fill_{device_0().kernel("test_fill_u32")};
};
INSTANTIATE_TEST_SUITE_P(Modes, EngineLimits, testing::Bool());

TEST_P(EngineLimits, AreNamedWhenTheLaunchIsDescribedAndFailNobodyElse) {
  describe_fill(on_, {x_.write()}, fill_);
  for (const refused_launch& each : beyond_all()) {
    std::string text;
    EXPECT_EQ(launch_refused(each.how, text), errc::invalid_value);
    EXPECT_TRUE(contains(text, "task 'large' launches a kernel with " + each.text)) << text;
  }
  EXPECT_EQ(content<std::uint32_t>(on_, x_), 1U);
  on_.finalize();
}

TEST_P(EngineLimits, AreReadOnceForADevice) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  describe_fill(on_, {x_.write()}, fill_);
  const std::vector<std::string> calls = fake_cuda_test::calls_of_this_thread([&] {
    describe_fill(on_, {x_.write()}, fill_);
    std::string text;
    static_cast<void>(launch_refused({.grid = 1, .block = 1025}, text));
  });
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuDeviceGetAttribute"), 0);
  on_.finalize();
}

}  // namespace
}  // namespace millstream::test
