// SPDX-License-Identifier: Apache-2.0
#include "base/block_pool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/sanitizer.hpp"

namespace millstream::base {
namespace {

TEST(BlockPool, BlocksAreDistinctAlignedAndWritable) {
  for (const std::size_t bytes :
       {1U, 64U, 65U, 128U, 512U, 1000U, 1024U, 1025U, 2048U, 2049U, 100'000U}) {
    std::set<void*> blocks;
    for (int i = 0; i < 100; ++i) {
      void* block = take_block(bytes);
      std::memset(block, i, bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 16, 0U);
      EXPECT_TRUE(blocks.insert(block).second);
    }
    for (void* block : blocks)
      give_block(block, bytes);
  }
}

TEST(BlockPool, NullIsIgnored) {
  give_block(nullptr, 100);
}

TEST(BlockPool, ASteadyStateOnOneThreadTakesNothingFromTheHeap) {
  const auto round = [] {
    std::vector<void*> blocks;
    for (int i = 0; i < 500; ++i)
      blocks.push_back(take_block(200));
    for (void* block : blocks)
      give_block(block, 200);
  };
  round();
  const std::size_t before = pooled_blocks();
  for (int i = 0; i < 10; ++i)
    round();
  EXPECT_EQ(pooled_blocks(), before);
}

TEST(BlockPool, ASteadyStateAcrossTwoThreadsTakesNothingFromTheHeap) {
  const auto hand_over = [] {
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i)
      blocks.push_back(take_block(100));
    std::thread([&] {
      for (void* block : blocks)
        give_block(block, 100);
    }).join();
  };
  hand_over();
  const std::size_t before = pooled_blocks();
  for (int i = 0; i < 10; ++i)
    hand_over();
  EXPECT_EQ(pooled_blocks(), before);
}

TEST(BlockPool, AThreadThatEndsReturnsItsBlocks) {
  std::thread([] { give_block(take_block(700), 700); }).join();
  const std::size_t before = pooled_blocks();
  for (int i = 0; i < 20; ++i) {
    std::thread([] { give_block(take_block(700), 700); }).join();
  }
  EXPECT_EQ(pooled_blocks(), before);
}

TEST(BlockPool, WithTheAddressSanitizerItPoolsNothing) {
  if (!address_sanitizer) GTEST_SKIP() << "another build";
  const std::size_t before = pooled_blocks();
  give_block(take_block(64), 64);
  EXPECT_EQ(pooled_blocks(), before);
}

TEST(BlockPool, ManyThreadsExchangeBlocks) {
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([user] {
      std::vector<unsigned char*> own;
      for (int i = 0; i < 5000; ++i) {
        own.push_back(static_cast<unsigned char*>(take_block(64)));
        *own.back() = static_cast<unsigned char>(user);
        if (i % 3 == 0) continue;
        EXPECT_EQ(*own.front(), user);
        give_block(own.front(), 64);
        own.erase(own.begin());
      }
      for (unsigned char* block : own)
        give_block(block, 64);
    });
  }
  for (std::thread& each : users)
    each.join();
}

/// Uses the pool after the thread's own blocks were returned.
struct late_user {
  ~late_user() { give_block(take_block(64), 64); }
};

TEST(BlockPool, ItServesDuringTheEndOfAThread) {
  std::thread([] {
    // Made first, so destroyed after the pool's own cleaning of this thread.
    thread_local late_user late;
    static_cast<void>(late);
    give_block(take_block(64), 64);
  }).join();
}

TEST(BlockPool, ItServesInAForkedChild) {
  std::thread busy([] {
    for (int i = 0; i < 20'000; ++i)
      give_block(take_block(256), 256);
  });
  const pid_t child = fork();
  if (child == 0) {
    std::vector<void*> blocks;
    for (int i = 0; i < 200; ++i)
      blocks.push_back(take_block(256));
    for (void* block : blocks)
      give_block(block, 256);
    _exit(0);
  }
  int ended = -1;
  waitpid(child, &ended, 0);
  busy.join();
  EXPECT_EQ(ended, 0);
}

}  // namespace
}  // namespace millstream::base
