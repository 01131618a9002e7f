// SPDX-License-Identifier: Apache-2.0
// Copies and fills.
#include <cstring>
#include <numeric>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

class Copy : public DriverTest {
 protected:
  static std::vector<unsigned char> counting(std::size_t bytes) {
    std::vector<unsigned char> made(bytes);
    std::iota(made.begin(), made.end(), static_cast<unsigned char>(0));
    return made;
  }
  std::vector<unsigned char> read(device_pointer from, std::size_t bytes) {
    std::vector<unsigned char> made(bytes);
    OK(call.cuMemcpyDtoH(made.data(), from, bytes));
    return made;
  }
};
class FakeCopy : public FakeDriverTest {};

TEST_F(Copy, BytesArriveByEveryName) {
  const std::vector<unsigned char> source = counting(200);
  const device_pointer first = make_block(200);
  const device_pointer second = make_block(200);
  const stream on = make_stream();
  OK(call.cuMemcpyHtoDAsync(first, source.data(), 200, on));
  OK(call.cuMemcpyDtoDAsync(second, first, 200, on));
  std::vector<unsigned char> back(200);
  OK(call.cuMemcpyDtoHAsync(back.data(), second, 200, on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(back, source);
  OK(call.cuMemcpyAsync(first, second + 100, 100, on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read(first, 1).front(), 100);
}

TEST_F(Copy, RowsAreCopiedBetweenPitches) {
  const std::vector<unsigned char> source = counting(60);
  const device_pointer to = make_block(100);
  OK(call.cuMemsetD8(to, 0xFF, 100));
  copy_2d what{};
  what.from_type = memory_type::on_host;
  what.from_host = source.data();
  what.from_pitch = 20;
  what.from_x_bytes = 2;
  what.from_y = 1;
  what.to_type = memory_type::on_device;
  what.to_device = to;
  what.to_pitch = 50;
  what.width_bytes = 3;
  what.height = 2;
  OK(call.cuMemcpy2DAsync(&what, nullptr));
  const std::vector<unsigned char> back = read(to, 100);
  EXPECT_EQ(back[0], 22);
  EXPECT_EQ(back[2], 24);
  EXPECT_EQ(back[3], 0xFF);
  EXPECT_EQ(back[50], 42);
}

TEST_F(Copy, PlanesAreCopiedBetweenHeights) {
  const std::vector<unsigned char> source = counting(24);
  const device_pointer to = make_block(64);
  OK(call.cuMemsetD8(to, 0xFF, 64));
  copy_3d what{};
  what.from_type = memory_type::on_host;
  what.from_host = source.data();
  what.from_pitch = 4;
  what.from_height = 3;
  what.to_type = memory_type::on_device;
  what.to_device = to;
  what.to_pitch = 8;
  what.to_height = 4;
  what.width_bytes = 2;
  what.height = 2;
  what.depth = 2;
  OK(call.cuMemcpy3DAsync(&what, nullptr));
  const std::vector<unsigned char> back = read(to, 64);
  EXPECT_EQ(back[0], 0);
  EXPECT_EQ(back[9], 5);
  EXPECT_EQ(back[32], 12);
  EXPECT_EQ(back[41], 17);
  EXPECT_EQ(back[2], 0xFF);
}

TEST_F(Copy, RowsThatOverlapAreRefused) {
  const device_pointer block = make_block(64);
  copy_2d what{};
  what.from_type = memory_type::on_device;
  what.from_device = block;
  what.from_pitch = 4;
  what.to_type = memory_type::on_device;
  what.to_device = block + 32;
  what.to_pitch = 8;
  what.width_bytes = 8;
  what.height = 2;
  EXPECT_EQ(call.cuMemcpy2DAsync(&what, nullptr), result::invalid_value);
}

TEST_F(Copy, FillsRepeatAnElement) {
  const device_pointer block = make_block(64);
  const stream on = make_stream();
  OK(call.cuMemsetD8Async(block, 0, 64, on));
  OK(call.cuMemsetD16Async(block, 0x0201, 2, on));
  OK(call.cuMemsetD2D32Async(block + 8, 16, 0x04030201, 1, 2, on));
  OK(call.cuStreamSynchronize(on));
  const std::vector<unsigned char> back = read(block, 32);
  EXPECT_EQ(back[3], 2);
  EXPECT_EQ(back[4], 0);
  EXPECT_EQ(back[8], 1);
  EXPECT_EQ(back[27], 4);
  EXPECT_EQ(back[28], 0);
}

TEST_F(Copy, FillsAreAligned) {
  const device_pointer block = make_block(64);
  EXPECT_EQ(call.cuMemsetD32(block + 2, 1, 1), result::invalid_value);
}

TEST_F(Copy, CopiesOfNothingAreFine) {
  const device_pointer block = make_block(64);
  OK(call.cuMemcpyDtoD(block, block + 32, 0));
  OK(call.cuMemsetD8(block, 1, 0));
}

TEST_F(Copy, FromOrdinaryMemoryTheSourceMayChangeAfterTheCall) {
  const stream on = make_stream();
  const device_pointer to = make_block(4);
  std::uint32_t source = 5;
  OK(call.cuMemcpyHtoDAsync(to, &source, 4, on));
  source = 6;
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read_word(to), 5U);
}

TEST_F(Copy, ToOrdinaryMemoryTheCallWaits) {
  const stream on = make_stream();
  const device_pointer from = make_block(4);
  std::uint32_t target = 0;
  OK(call.cuMemsetD32Async(from, 5, 1, on));
  OK(call.cuMemcpyDtoHAsync(&target, from, 4, on));
  EXPECT_EQ(target, 5U);
}

TEST_F(FakeCopy, PageLockedMemoryIsReadAtItsTurn) {
  const stream on = make_stream();
  const device_pointer to = make_block(4);
  auto* const source = make_pinned<std::uint32_t>(1);
  *source = 5;
  OK(call.cuMemcpyHtoDAsync(to, source, 4, on));
  *source = 6;
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read_word(to), 6U);
}

TEST_F(FakeCopy, DevicePointersAreNoHostPointers) {
  const device_pointer block = make_block(64);
  EXPECT_EQ(call.cuMemcpyHtoD(block, reinterpret_cast<void*>(block + 32), 32),
            result::invalid_value);
  std::uint32_t word = 0;
  EXPECT_EQ(call.cuMemcpyDtoD(block, reinterpret_cast<device_pointer>(&word), 4),
            result::invalid_value);
}

}  // namespace
}  // namespace fake_cuda_test
