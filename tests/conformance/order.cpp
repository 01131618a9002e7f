// SPDX-License-Identifier: Apache-2.0
/// Order of operations within a queue.
#include <set>
#include <thread>

#include "tests/conformance/promise.hpp"

namespace conformance {
namespace {

using order = promise<capability::values>;
using queues = promise<>;

TEST_F(queues, HandlesAreUniqueAndNotZero) {
  std::set<std::uint64_t> handles{0};
  for (int i = 0; i < 10; ++i) {
    for (const int place : places())
      handles.insert(queue_on(place).handle());
  }
  EXPECT_EQ(handles.size(), 10 * places().size() + 1);
}

TEST_F(queues, AQueueThatWasNotUsedClosesQuietly) {
  for (const int place : places())
    static_cast<void>(value(device(place).make_queue()));
}

TEST_F(queues, AQueueTakesManyOperationsAhead) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 64, queue);
  for (int i = 0; i < 20'000; ++i)
    fill(queue, 0, block, 64, i % 256);
  finish(queue);
}

TEST_F(order, LaterFillsWin) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 1000, queue);
  for (int i = 0; i < 200; ++i)
    fill(queue, 0, block, 1000, i);
  EXPECT_EQ(read(queue, 0, block, 1000), bytes(1000, std::byte{199}));
}

TEST_F(order, CopiesSeeWhatWasQueuedBefore) {
  backend::queue& queue = queue_on(0);
  std::byte* one = take(0, 1000, queue);
  std::byte* other = take(0, 1000, queue);
  fill(queue, 0, one, 1000, 1);
  ok(queue.copy(copy_of(other, 0, one, 0, 1000)));
  fill(queue, 0, one, 1000, 2);
  EXPECT_EQ(read(queue, 0, other, 1000), bytes(1000, std::byte{1}));
  EXPECT_EQ(read(queue, 0, one, 1000), bytes(1000, std::byte{2}));
}

TEST_F(order, AHeldQueueDoesNothing) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  fill(queue, 0, block, 100, 1);
  finish(queue);
  gate hold(*this, queue);
  fill(queue, 0, block, 100, 2);
  backend::queue& other = queue_on(0);
  EXPECT_EQ(read(other, 0, block, 100), bytes(100, std::byte{1}));
  hold.open();
  EXPECT_EQ(read(queue, 0, block, 100), bytes(100, std::byte{2}));
}

TEST_F(order, AQueueMayBeUsedByOneThreadAfterAnother) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  for (int i = 1; i <= 5; ++i) {
    std::thread([&] { fill(queue, 0, block, 100, i); }).join();
  }
  EXPECT_EQ(read(queue, 0, block, 100), bytes(100, std::byte{5}));
}

TEST_F(order, ThreadsUseQueuesOfTheirOwnAtOnce) {
  std::vector<backend::queue*> own;
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 4; ++i) {
    own.push_back(&queue_on(i % machine().device_count()));
    blocks.push_back(take(i % machine().device_count(), 100, *own.back()));
  }
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&, i, at = static_cast<std::size_t>(i)] {
      for (int n = 0; n <= 100 + i; ++n) {
        fill(*own[at], i % machine().device_count(), blocks[at], 100, n);
      }
    });
  }
  for (std::thread& each : users)
    each.join();
  for (int i = 0; i < 4; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bytes got = read(*own[at], i % machine().device_count(), blocks[at], 100);
    EXPECT_EQ(got, bytes(100, static_cast<std::byte>(100 + i)));
  }
}

}  // namespace
}  // namespace conformance
