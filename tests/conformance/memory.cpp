// SPDX-License-Identifier: Apache-2.0
/// Blocks of memory: what `allocate` gives and `release` takes back.
#include <algorithm>

#include "tests/conformance/promise.hpp"

namespace conformance {
namespace {

using memory = promise<>;
using memory_values = promise<capability::values>;

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr std::size_t tib = std::size_t{1} << 40U;

TEST_F(memory, BlocksAreDistinctAndAligned) {
  std::vector<std::pair<std::uintptr_t, std::size_t>> blocks;
  for (const int place : places()) {
    backend::queue& queue = queue_on(place);
    for (const std::size_t count : {1U, 255U, 256U, 257U, 100'000U}) {
      blocks.emplace_back(reinterpret_cast<std::uintptr_t>(take(place, count, queue)), count);
    }
  }
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].first % 256, 0U);
    if (i > 0) {
      EXPECT_LE(blocks[i - 1].first + blocks[i - 1].second, blocks[i].first);
    }
  }
}

TEST_F(memory, ZeroBytesGiveNull) {
  for (const int place : places())
    EXPECT_EQ(take(place, 0, queue_on(place)), nullptr);
}

TEST_F(memory, NullIsIgnoredByRelease) {
  ok(device(0).release(nullptr, 0, queue_on(0)));
  ok(device(0).release(nullptr, 100, queue_on(0)));
}

TEST_F(memory, TooMuchIsOutOfMemoryWithSizesInTheText) {
  for (const int place : places()) {
    const auto answer = device(place).allocate(300 * tib, queue_on(place));
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.why().code(), errc::out_of_memory);
    EXPECT_NE(answer.why().text().find("300 TiB"), std::string::npos) << answer.why().text();
  }
}

TEST_F(memory, TheLargestNumberIsOutOfMemory) {
  const auto answer = device(0).allocate(~std::size_t{0}, queue_on(0));
  EXPECT_EQ(answer.why().code(), errc::out_of_memory);
}

TEST_F(memory, OutOfMemoryIsNotSticky) {
  backend::queue& queue = queue_on(0);
  EXPECT_FALSE(device(0).allocate(300 * tib, queue).ok());
  EXPECT_NE(take(0, 1000, queue), nullptr);
}

TEST_F(memory, OutOfMemoryLeavesTheUsedBytesAlone) {
  backend::queue& queue = queue_on(0);
  static_cast<void>(take(0, 1000, queue));
  const std::size_t before = device(0).memory().used_bytes;
  EXPECT_FALSE(device(0).allocate(300 * tib, queue).ok());
  EXPECT_EQ(device(0).memory().used_bytes, before);
}

TEST_F(memory, UsedBytesFollowTheBlocks) {
  backend::queue& queue = queue_on(0);
  const std::size_t before = device(0).memory().used_bytes;
  void* block = value(device(0).allocate(3 * mib, queue));
  EXPECT_EQ(device(0).memory().used_bytes, before + 3 * mib);
  ok(device(0).release(block, 3 * mib, queue));
  finish(queue);
  EXPECT_EQ(device(0).memory().used_bytes, before);
}

TEST_F(memory, UsedBytesStayWithinTheTotal) {
  for (const int place : places()) {
    EXPECT_GT(device(place).memory().total_bytes, 0U);
    EXPECT_LE(device(place).memory().used_bytes, device(place).memory().total_bytes);
  }
}

TEST_F(memory, ReleasedMemoryIsHandedOutAgain) {
  backend::queue& queue = queue_on(0);
  // Together many times what there is, so it must come round.
  const std::size_t count = std::min(device(0).memory().total_bytes / 4 * 3, 100 * tib);
  for (int round = 0; round < 8; ++round) {
    void* block = value(device(0).allocate(count, queue));
    ok(device(0).release(block, count, queue));
    finish(queue);
  }
}

TEST_F(memory, ManySizesLeaveNothingBehind) {
  backend::queue& queue = queue_on(0);
  const std::size_t before = device(0).memory().used_bytes;
  std::vector<std::pair<void*, std::size_t>> blocks;
  for (std::size_t i = 1; i <= 500; ++i) {
    const std::size_t count = i * 37 % 5000 + 1;
    blocks.emplace_back(value(device(0).allocate(count, queue)), count);
    if (i % 3 != 0) continue;
    ok(device(0).release(blocks[i / 2].first, blocks[i / 2].second, queue));
    blocks[i / 2] = {nullptr, 0};
  }
  for (const auto& [block, count] : blocks)
    ok(device(0).release(block, count, queue));
  finish(queue);
  EXPECT_EQ(device(0).memory().used_bytes, before);
}

TEST_F(memory, TheHostSideGivesMemoryTheCallerCanTouch) {
  std::byte* block = take(-1, 5000, queue_on(-1));
  std::fill_n(block, 5000, std::byte{7});
  EXPECT_EQ(std::count(block, block + 5000, std::byte{7}), 5000);
}

TEST_F(memory, ABlockMayBeReleasedInTheOrderOfAnotherQueue) {
  backend::queue& one = queue_on(0);
  backend::queue& other = queue_on(machine().device_count() - 1);
  void* block = value(device(0).allocate(1000, one));
  put_behind(one, other);
  ok(device(0).release(block, 1000, other));
  finish(other);
  EXPECT_EQ(device(0).memory().used_bytes, 0U);
}

TEST_F(memory_values, ABlockIsKeptUntilQueuedWorkHasEnded) {
  backend::queue& queue = queue_on(0);
  const bytes sent = random_bytes(100'000, 1);
  void* first = value(device(0).allocate(sent.size(), queue));
  gate hold(*this, queue);
  write(queue, 0, first, sent);
  bytes got(sent.size());
  ok(queue.copy(copy_of(got.data(), -1, first, 0, got.size())));
  ok(device(0).release(first, sent.size(), queue));
  // Whatever this block is, writing it now must not disturb the copies that wait.
  backend::queue& other = queue_on(0);
  fill(other, 0, take(0, sent.size(), other), sent.size(), 9);
  finish(other);
  hold.open();
  finish(queue);
  EXPECT_EQ(got, sent);
}

TEST_F(memory_values, NeighboursAreNotDisturbed) {
  backend::queue& queue = queue_on(0);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 20; ++i)
    blocks.push_back(take(0, 1000, queue));
  for (int i = 0; i < 20; ++i)
    fill(queue, 0, blocks[static_cast<std::size_t>(i)], 1000, i);
  for (int i = 0; i < 20; ++i) {
    const bytes got = read(queue, 0, blocks[static_cast<std::size_t>(i)], 1000);
    EXPECT_EQ(got, bytes(1000, static_cast<std::byte>(i)));
  }
}

}  // namespace
}  // namespace conformance
