// SPDX-License-Identifier: Apache-2.0
/// Device code.
#include <cstring>

#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

std::span<const std::byte> image_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class Program : public MachineTest {
 protected:
  struct fill_arguments {
    void* to;
    std::uint32_t value;
    std::uint32_t padding;
    std::uint64_t count;
  };
  std::unique_ptr<backend::program> load() { return value(device().load(image_of(text_))); }
  backend::status launch(backend::queue& on, backend::kernel* what, fill_arguments& arguments,
                         std::size_t count = sizeof(fill_arguments)) {
    backend::launch_request request;
    request.what = what;
    request.block = {32, 1, 1};
    request.arguments = std::as_bytes(std::span(&arguments, 1)).first(count);
    return on.launch(request);
  }
  void expect_refused(std::span<const std::byte> image, const std::string& word) {
    const auto answer = device().load(image);
    EXPECT_EQ(answer.why().code(), errc::invalid_value);
    EXPECT_NE(answer.why().text().find(word), std::string::npos) << answer.why().text();
  }
  const std::string text_ = kernel_text();
};

TEST_F(Program, AKernelIsFoundAndLaunchedWithItsArguments) {
  const auto program = load();
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(40, *queue));
  fill_arguments arguments{block, 0x01010101, 0, 10};
  ok(launch(*queue, value(program->find("test_fill_u32")), arguments));
  arguments.value = 9;  // the block was taken at the call
  EXPECT_EQ(read(*queue, block, 40), bytes(40, std::byte{1}));
  ok(device().release(block, 40, *queue));
}

TEST_F(Program, AKernelIsLookedUpOnce) {
  const auto program = load();
  EXPECT_EQ(value(program->find("test_fill_u32")), value(program->find("test_fill_u32")));
  EXPECT_EQ(value(program->find("test_fill_u32"))->name(), "test_fill_u32");
}

TEST_F(Program, AnUnknownNameIsRefused) {
  const auto answer = load()->find("no_such_kernel");
  EXPECT_EQ(answer.why().code(), errc::invalid_value);
  EXPECT_NE(answer.why().text().find("'no_such_kernel'"), std::string::npos);
}

TEST_F(Program, AWrongSizeOfArgumentsIsRefused) {
  const auto program = load();
  const queue_ptr queue = make_queue();
  fill_arguments arguments{nullptr, 1, 0, 0};
  const backend::status answer =
      launch(*queue, value(program->find("test_fill_u32")), arguments, 16);
  EXPECT_EQ(answer.code(), errc::invalid_value);
  EXPECT_NE(answer.text().find("it takes 24 bytes"), std::string::npos) << answer.text();
}

TEST_F(Program, AWrongImageIsRefusedWithTheLog) {
  expect_refused(image_of("this is no image"), "cannot load device code");
  expect_refused({}, "empty");
}

TEST_F(Program, ACutOffImageNeverReachesTheDriver) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.clear_counts();
  bytes cubin(64);
  std::memcpy(cubin.data(),
              "\x7f"
              "ELF",
              4);
  cubin[40] = std::byte{200};  // the table of sections begins at 200
  expect_refused(cubin, "cut off");
  const std::uint32_t magic = 0xba55ed50;
  bytes fatbin(16);
  std::memcpy(fatbin.data(), &magic, 4);
  fatbin[8] = std::byte{100};
  expect_refused(fatbin, "cut off");
  EXPECT_EQ(control.count("cuModuleLoadDataEx"), 0U);
}

TEST_F(Program, AKernelOfAnotherDeviceIsRefused) {
  MILLSTREAM_NEEDS_DEVICES(2);
  const auto program = load();
  const queue_ptr other = make_queue(1);
  fill_arguments arguments{nullptr, 1, 0, 0};
  EXPECT_EQ(launch(*other, value(program->find("test_fill_u32")), arguments).code(),
            errc::invalid_value);
}

TEST_F(Program, AModuleStaysUntilItsLaunchesHaveEnded) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  auto program = load();
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(40, *queue));
  {
    gate hold(machine(), *queue);
    fill_arguments arguments{block, 0x02020202, 0, 10};
    ok(launch(*queue, value(program->find("test_fill_u32")), arguments));
    program.reset();
    EXPECT_EQ(control.live("module"), 1);
  }
  EXPECT_EQ(read(*queue, block, 40), bytes(40, std::byte{2}));
  program = load();  // sweeps
  EXPECT_EQ(control.live("module"), 1);
  program.reset();
  EXPECT_EQ(control.live("module"), 0);
  ok(device().release(block, 40, *queue));
}

}  // namespace
}  // namespace cuda_test
