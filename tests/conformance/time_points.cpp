// SPDX-License-Identifier: Apache-2.0
/// Events: marks in queues that other queues and the host wait for.
#include <thread>

#include "tests/conformance/promise.hpp"

namespace conformance {
namespace {

using events = promise<>;
using time_points = promise<capability::values>;
using std::chrono::milliseconds;

TEST_F(events, OneThatWasNeverRecordedIsDone) {
  const event_ptr event = new_event();
  EXPECT_TRUE(value(event->is_done()));
  EXPECT_TRUE(value(event->wait_for(milliseconds(0))));
  ok(queue_on(0).wait(*event));
}

TEST_F(events, OneRecordedOnAnIdleQueueIsDoneSoon) {
  backend::queue& queue = queue_on(0);
  const event_ptr event = mark(queue);
  EXPECT_TRUE(value(event->wait_for(long_time)));
  EXPECT_TRUE(value(event->is_done()));
}

TEST_F(events, OneServesManyTimes) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 64, queue);
  const event_ptr event = new_event();
  for (int i = 0; i < 300; ++i) {
    fill(queue, 0, block, 64, 1);
    ok(queue.record(*event));
    EXPECT_TRUE(value(event->wait_for(long_time)));
  }
}

TEST_F(events, AQueueMayWaitForItself) {
  backend::queue& queue = queue_on(0);
  ok(queue.wait(*mark(queue)));
  finish(queue);
}

TEST_F(events, PollingComesToAnEnd) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 64, queue);
  for (int i = 0; i < 20; ++i)
    fill(queue, 0, block, 64, i);
  const event_ptr event = mark(queue);
  while (!value(event->is_done()))
    std::this_thread::yield();
}

TEST_F(time_points, OneBehindHeldWorkIsNotDone) {
  backend::queue& queue = queue_on(0);
  gate hold(*this, queue);
  fill(queue, 0, take(0, 64, queue), 64, 1);
  const event_ptr event = mark(queue);
  EXPECT_FALSE(value(event->is_done()));
  EXPECT_FALSE(value(event->wait_for(milliseconds(0))));
  EXPECT_FALSE(value(event->wait_for(milliseconds(20))));
  hold.open();
  EXPECT_TRUE(value(event->wait_for(long_time)));
  EXPECT_TRUE(value(event->is_done()));
}

TEST_F(time_points, AVeryLongLimitIsAllowed) {
  backend::queue& queue = queue_on(0);
  fill(queue, 0, take(0, 64, queue), 64, 1);
  EXPECT_TRUE(value(mark(queue)->wait_for(milliseconds::max())));
}

TEST_F(time_points, AWaitOrdersTwoQueues) {
  backend::queue& first = queue_on(0);
  backend::queue& later = queue_on(0);
  std::byte* block = take(0, 50'000, first);
  gate hold(*this, first);
  fill(first, 0, block, 50'000, 1);
  put_behind(first, later);
  fill(later, 0, block, 50'000, 2);
  hold.open();
  EXPECT_EQ(read(later, 0, block, 50'000), bytes(50'000, std::byte{2}));
}

TEST_F(time_points, WaitsOrderQueuesOfAllPlaces) {
  for (const int from : places()) {
    for (const int to : places()) {
      backend::queue& first = queue_on(from);
      backend::queue& later = queue_on(to);
      std::byte* block = take(from, 1000, first);
      fill(first, from, block, 1000, 1);
      put_behind(first, later);
      EXPECT_EQ(read(later, from, block, 1000), bytes(1000, std::byte{1}));
    }
  }
}

TEST_F(time_points, AWaitRefersToTheMarkSetLastBeforeIt) {
  backend::queue& first = queue_on(0);
  backend::queue& later = queue_on(0);
  std::byte* block = take(0, 100, first);
  const event_ptr event = new_event();
  fill(first, 0, block, 100, 1);
  ok(first.record(*event));
  ok(later.wait(*event));
  gate hold(*this, first);
  fill(first, 0, block, 100, 2);
  ok(first.record(*event));
  // Not disturbed by the record behind the gate: this ends although the gate is closed.
  EXPECT_EQ(read(later, 0, block, 100), bytes(100, std::byte{1}));
}

TEST_F(time_points, AnEventFollowsTheQueueItWasRecordedOnLast) {
  backend::queue& held = queue_on(0);
  backend::queue& other = queue_on(0);
  gate hold(*this, held);
  fill(held, 0, take(0, 64, held), 64, 1);
  const event_ptr event = mark(held);
  ok(other.record(*event));
  EXPECT_TRUE(value(event->wait_for(long_time)));
}

TEST_F(time_points, AnEventMayBeDestroyedWhileQueuesWaitForIt) {
  backend::queue& first = queue_on(0);
  std::byte* block = take(0, 100, first);
  gate hold(*this, first);
  fill(first, 0, block, 100, 3);
  std::vector<backend::queue*> later;
  {
    const event_ptr event = mark(first);
    for (const int place : places()) {
      later.push_back(&queue_on(place));
      ok(later.back()->wait(*event));
    }
  }
  hold.open();
  for (backend::queue* each : later) {
    EXPECT_EQ(read(*each, 0, block, 100), bytes(100, std::byte{3}));
  }
}

TEST_F(time_points, AWaitForAPassedMarkHoldsNothingUp) {
  backend::queue& first = queue_on(0);
  fill(first, 0, take(0, 64, first), 64, 1);
  const event_ptr event = mark(first);
  EXPECT_TRUE(value(event->wait_for(long_time)));
  gate hold(*this, first);
  backend::queue& later = queue_on(0);
  ok(later.wait(*event));
  finish(later);
}

TEST_F(time_points, QueuesThatDoNotWaitGoOn) {
  backend::queue& held = queue_on(0);
  gate hold(*this, held);
  fill(held, 0, take(0, 64, held), 64, 1);
  for (const int place : places())
    finish(queue_on(place));
}

TEST_F(time_points, AThreadWaitsWhileAnotherOpensTheWay) {
  backend::queue& queue = queue_on(0);
  gate hold(*this, queue);
  fill(queue, 0, take(0, 64, queue), 64, 1);
  const event_ptr event = mark(queue);
  bool passed = false;
  std::thread waiter([&] { passed = value(event->wait_for(long_time)); });
  hold.open();
  waiter.join();
  EXPECT_TRUE(passed);
}

TEST_F(time_points, AForkJoinsAgain) {
  backend::queue& root = queue_on(0);
  std::byte* blocks = take(0, 800, root);
  fill(root, 0, blocks, 800, 0);
  for (int i = 0; i < 8; ++i) {
    backend::queue& branch = queue_on(i % machine().device_count());
    put_behind(root, branch);
    fill(branch, 0, blocks + 100 * i, 100, i);
    put_behind(branch, root);
  }
  const bytes got = read(root, 0, blocks, 800);
  for (std::size_t i = 0; i < 800; ++i)
    ASSERT_EQ(got[i], static_cast<std::byte>(i / 100)) << i;
}

TEST_F(time_points, ALongZigzagKeepsItsOrder) {
  backend::queue& one = queue_on(0);
  backend::queue& other = queue_on(machine().device_count() - 1);
  std::byte* block = take(0, 256, one);
  for (int i = 0; i < 100; ++i) {
    backend::queue& from = i % 2 == 0 ? one : other;
    backend::queue& to = i % 2 == 0 ? other : one;
    fill(from, 0, block, 256, i);
    put_behind(from, to);
  }
  EXPECT_EQ(read(one, 0, block, 256), bytes(256, std::byte{99}));
}

}  // namespace
}  // namespace conformance
