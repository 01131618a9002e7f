// SPDX-License-Identifier: Apache-2.0
#include "backend/arena.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>
#include <vector>

#include "base/random.hpp"

namespace millstream::backend {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

std::unique_ptr<arena> make(std::size_t capacity, fresh_content fresh = fresh_content::marked) {
  auto made = arena::reserve(
      {.owner = "device 'x'", .capacity = capacity, .way_out = "buy more", .fresh = fresh});
  EXPECT_TRUE(made.ok()) << made.why().text();
  return std::move(made.value());
}
std::byte* take(arena& from, std::size_t bytes) {
  auto taken = from.take(bytes);
  EXPECT_TRUE(taken.ok()) << taken.why().text();
  return static_cast<std::byte*>(taken.value());
}
void give(arena& to, void* block, std::size_t bytes) {
  EXPECT_TRUE(to.give_up(block, bytes).ok());
  to.take_back(block);
}
byte_span span_of(const void* block, std::size_t bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(block);
  return {first, first + bytes};
}

TEST(Arena, FreshMemoryIsMarked) {
  const auto from = make(10 * mib);
  for (const std::size_t bytes : {1 * kib, 64 * kib}) {
    const std::byte* block = take(*from, bytes);
    EXPECT_TRUE(std::all_of(block, block + bytes, [](std::byte b) { return b == fresh_byte; }));
  }
}

TEST(Arena, ReusedMemoryIsMarkedAgain) {
  const auto from = make(mib);
  std::byte* first = take(*from, kib);
  std::fill_n(first, kib, std::byte{0});
  give(*from, first, kib);
  std::byte* second = take(*from, kib);
  EXPECT_EQ(second, first);
  EXPECT_EQ(second[500], fresh_byte);
}

TEST(Arena, LargeBlocksAreMarkedAtBothEnds) {
  const auto from = make(10 * mib);
  const std::byte* block = take(*from, 3 * mib);
  EXPECT_EQ(block[0], fresh_byte);
  EXPECT_EQ(block[4 * kib - 1], fresh_byte);
  EXPECT_EQ(block[3 * mib - 1], fresh_byte);
  EXPECT_EQ(block[3 * mib - 4 * kib], fresh_byte);
}

TEST(Arena, UnmarkedMemoryComesAsItIs) {
  const auto from = make(mib, fresh_content::as_it_comes);
  EXPECT_EQ(take(*from, kib)[0], std::byte{0});
}

TEST(Arena, TheCapacityCountsExactly) {
  const auto from = make(1000);
  void* block = take(*from, 600);
  EXPECT_EQ(from->used(), 600U);
  EXPECT_FALSE(from->take(401).ok());
  static_cast<void>(take(*from, 400));
  EXPECT_FALSE(from->take(1).ok());
  give(*from, block, 600);
  EXPECT_EQ(from->used(), 400U);
}

TEST(Arena, OutOfMemorySaysWhoHowMuchAndTheWayOut) {
  const auto from = make(10 * mib);
  static_cast<void>(take(*from, 4 * mib));
  const auto answer = from->take(8 * mib);
  EXPECT_EQ(answer.why().code(), errc::out_of_memory);
  EXPECT_EQ(answer.why().text(),
            "device 'x' cannot allocate 8 MiB: 4 MiB of 10 MiB are in use; buy more");
}

TEST(Arena, OutOfMemoryTellsWhatIsAboutToComeBack) {
  const auto from = make(10 * mib);
  void* block = take(*from, 6 * mib);
  EXPECT_TRUE(from->give_up(block, 6 * mib).ok());
  EXPECT_EQ(from->take(8 * mib).why().text(),
            "device 'x' cannot allocate 8 MiB: 6 MiB of 10 MiB are in use, 6 MiB of them until "
            "queued work that uses them has ended; buy more");
}

TEST(Arena, ABlockIsGivenUpOnceAndWithItsSize) {
  const auto from = make(mib);
  std::byte* block = take(*from, 1000);
  EXPECT_EQ(from->give_up(block, 999).code(), errc::invalid_value);
  EXPECT_EQ(from->give_up(block + 256, 1000).code(), errc::invalid_value);
  EXPECT_TRUE(from->give_up(block, 1000).ok());
  EXPECT_EQ(from->give_up(block, 1000).code(), errc::invalid_value);
  from->keep(block);
  EXPECT_TRUE(from->give_up(block, 1000).ok());
}

TEST(Arena, ItKnowsItsAddresses) {
  const auto one = make(mib);
  const auto other = make(mib);
  const byte_span span = span_of(take(*one, 1000), 1000);
  EXPECT_TRUE(one->owns(span));
  EXPECT_FALSE(other->meets(span));
  const int outside = 0;
  EXPECT_FALSE(one->meets(span_of(&outside, sizeof outside)));
}

TEST(Arena, FreeNeighboursJoin) {
  const auto from = make(mib);
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i)
    blocks.push_back(take(*from, 256 * kib));
  for (const std::size_t i : {2U, 0U, 3U, 1U})
    give(*from, blocks[i], 256 * kib);
  EXPECT_EQ(take(*from, mib), blocks[0]);
}

TEST(Arena, RandomUseKeepsBlocksApart) {
  base::random_source random(1);
  const auto from = make(4 * mib);
  std::map<std::byte*, std::size_t> blocks;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t bytes = 1 + random.uniform(50 * kib);
    if (auto taken = from->take(bytes)) {
      auto* block = static_cast<std::byte*>(taken.value());
      const auto [at, is_new] = blocks.emplace(block, bytes);
      ASSERT_TRUE(is_new);
      const auto next = std::next(at);
      EXPECT_TRUE(next == blocks.end() || block + bytes <= next->first);
      EXPECT_TRUE(at == blocks.begin() || std::prev(at)->first + std::prev(at)->second <= block);
    }
    if (blocks.empty() || random.chance(0.5)) continue;
    const auto gone =
        std::next(blocks.begin(), static_cast<std::ptrdiff_t>(random.uniform(blocks.size())));
    give(*from, gone->first, gone->second);
    blocks.erase(gone);
  }
  std::size_t used = 0;
  for (const auto& [block, bytes] : blocks)
    used += bytes;
  EXPECT_EQ(from->used(), used);
}

TEST(Arena, ThreadsShareIt) {
  const auto from = make(64 * mib);
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&, mark = static_cast<std::byte>(user)] {
      for (int i = 0; i < 500; ++i) {
        std::byte* block = take(*from, kib);
        std::fill_n(block, kib, mark);
        EXPECT_EQ(block[kib - 1], mark);
        give(*from, block, kib);
      }
    });
  }
  for (std::thread& each : users)
    each.join();
  EXPECT_EQ(from->used(), 0U);
}

TEST(Arena, MoreAddressesThanThereAreIsUnavailable) {
  const auto answer = arena::reserve({.owner = "device 'x'",
                                      .capacity = std::size_t{1} << 50U,
                                      .way_out = "buy more",
                                      .fresh = fresh_content::marked});
  EXPECT_EQ(answer.why().code(), errc::unavailable);
  EXPECT_EQ(answer.why().text(), "device 'x' cannot reserve 1 PiB of addresses; buy more");
}

}  // namespace
}  // namespace millstream::backend
