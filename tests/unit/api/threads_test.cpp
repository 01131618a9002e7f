// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <thread>
#include <vector>

using Threads = Api;

TEST_F(Threads, SixteenThreadsSubmitToOneContext) {
  constexpr int thread_count = 16;
  int shared = 0;
  std::vector<int> own(thread_count, 0);
  const auto counter = ctx.logical_data(shared);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < thread_count; ++i) {
    threads.emplace_back([this, &counter, slot = &own[i]] {
      const auto mine = ctx.logical_data(*slot);
      for (int task = 0; task < 500; ++task) {
        ctx.task(mine.rw(), [](auto v) { ++*v; });
        if (task % 5 == 0) ctx.task(counter.rw(), [](auto v) { ++*v; });
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  ctx.finalize();
  EXPECT_EQ(own, std::vector<int>(thread_count, 500));
  EXPECT_EQ(shared, 1600);
}

TEST_F(Threads, HandlesAreCopiedAndDroppedInSeveralThreads) {
  std::vector<int> values(10, 1);
  const auto data = ctx.logical_data(values);
  const auto sum = ctx.logical_data<long>();
  ctx.fill(sum, 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([ref = ms::context_ref(ctx), data, sum]() mutable {
      for (int round = 0; round < 50; ++round) {
        ref.parallel_for(data.shape(), data.read(),
                         sum.reduce(ms::reducer::sum<long>{}, ms::accumulate),
                         [](auto k, auto v, long& partial) { partial += v[k]; });
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(ctx.wait(sum), 4 * 50 * 10);
  ctx.finalize();
}

TEST_F(Threads, SeveralThreadsWait) {
  int value = 0;
  const auto data = ctx.logical_data(value);
  for (int i = 0; i < 100; ++i)
    ctx.task(data.rw(), [](auto v) { ++*v; });
  std::vector<std::thread> threads;
  std::vector<int> seen(4, 0);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    threads.emplace_back([this, data, slot = &seen[i]] { *slot = ctx.wait(data); });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(seen, std::vector<int>(4, 100));
  ctx.finalize();
}
