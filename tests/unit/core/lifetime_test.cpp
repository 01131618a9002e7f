// SPDX-License-Identifier: Apache-2.0
/// What lives how long: bodies, buffers, handles, contexts.
#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

struct owned_buffer {
  std::vector<int> words = std::vector<int>(4, 1);
  std::promise<std::vector<int>> released;  // with the content at that moment
};

/// Registers a buffer whose owner reports when it is let go.
untyped_data registered_with_owner(untyped_context& on,
                                   const std::shared_ptr<owned_buffer>& buffer) {
  registration what;
  what.block = buffer->words.data();
  what.bytes = buffer->words.size() * sizeof(int);
  what.owner = std::shared_ptr<void>(
      buffer->words.data(), [buffer](void*) { buffer->released.set_value(buffer->words); });
  return on.register_data(what);
}

bool is_ready(const std::future<std::vector<int>>& what) {
  return what.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void submit_sum(untyped_context& on, const untyped_data& out) {
  std::vector<int> captured(1000);
  std::iota(captured.begin(), captured.end(), 0);
  const std::string text(200, 'z');
  run(on, {}, {out.rw()}, [captured, text](const body_call& call) {
    first<int>(call) = std::accumulate(captured.begin(), captured.end(), 0) +
                       static_cast<int>(std::count(text.begin(), text.end(), 'z'));
  });
}

TEST(Lifetime, CapturesOutliveTheFunctionThatSubmitted) {
  untyped_context on = open("host", 2);
  std::vector<int> buffer(1);
  const untyped_data out = registered(on, buffer);
  std::promise<void> go;
  auto gate = std::make_shared<std::future<void>>(go.get_future());
  run(on, {}, {out.rw()}, [gate](const body_call&) { gate->wait(); });
  submit_sum(on, out);
  go.set_value();
  EXPECT_EQ(content<int>(on, out), 499500 + 200);
  on.finalize();
}

TEST(Lifetime, BodyIsDestroyedWithoutLocksAndMaySubmit) {
  untyped_context on = open("host", 2);
  const untyped_data t = on.make_token();
  auto last =
      std::shared_ptr<void>(nullptr, [on, t](void*) mutable { run(on, {}, {t.rw()}, nothing); });
  run(on, {}, {t.rw()}, [last = std::move(last)](const body_call&) {});
  on.finish();
  EXPECT_EQ(on.stats().tasks, 2U);
}

TEST(Lifetime, OwnerIsKeptWhileWorkTouchesTheBuffer) {
  untyped_context on = open("host", 2);
  const auto buffer = std::make_shared<owned_buffer>();
  std::future<std::vector<int>> released = buffer->released.get_future();
  std::promise<void> go;
  auto gate = std::make_shared<std::future<void>>(go.get_future());
  {
    const untyped_data x = registered_with_owner(on, buffer);
    run(on, exec_place::device(1), {x.rw()}, [gate](const body_call& call) {
      gate->wait();
      first<int>(call) = 9;
    });
  }
  EXPECT_FALSE(is_ready(released));
  go.set_value();
  on.finalize();
  ASSERT_TRUE(is_ready(released));
  EXPECT_EQ(released.get()[0], 9);  // the write-back came before
}

TEST(Lifetime, OwnerOfAnIdleBufferIsReleasedByTheDrop) {
  untyped_context on = open("host", 2);
  const auto buffer = std::make_shared<owned_buffer>();
  std::future<std::vector<int>> released = buffer->released.get_future();
  {
    const untyped_data x = registered_with_owner(on, buffer);
  }
  EXPECT_TRUE(is_ready(released));
  on.finalize();
}

TEST(Lifetime, FinalizeReleasesOwnersAlthoughHandlesRemain) {
  untyped_context on = open("host", 2);
  const auto buffer = std::make_shared<owned_buffer>();
  std::future<std::vector<int>> released = buffer->released.get_future();
  const untyped_data x = registered_with_owner(on, buffer);
  run(on, exec_place::device(1), {x.rw()}, [](const body_call& call) { first<int>(call) = 9; });
  on.finalize();
  ASSERT_TRUE(is_ready(released));
  EXPECT_EQ(released.get()[0], 9);
}

TEST(Lifetime, AbandonedContextWritesNothingBackAndReleasesOwners) {
  const auto buffer = std::make_shared<owned_buffer>();
  std::future<std::vector<int>> released = buffer->released.get_future();
  {
    untyped_context on = open("host", 2);
    const untyped_data x = registered_with_owner(on, buffer);
    run(on, exec_place::device(1), {x.rw()}, [](const body_call& call) { first<int>(call) = 9; });
    on.abandon();
  }
  EXPECT_EQ(released.get()[0], 1);
}

// The write-back is in the queues already.
class DroppedContext : public testing::TestWithParam<bool> {};

TEST_P(DroppedContext, KeepsTheOwnerOfABufferThatIsWrittenBack) {
  const bool is_abandoned = GetParam();
  const auto buffer = std::make_shared<owned_buffer>();
  std::future<std::vector<int>> released = buffer->released.get_future();
  std::promise<void> go;
  auto gate = std::make_shared<std::future<void>>(go.get_future());
  {
    untyped_context on = open("host", 2);
    {
      const untyped_data x = registered_with_owner(on, buffer);
      run(on, exec_place::device(1), {x.rw()}, [gate](const body_call& call) {
        gate->wait();
        first<int>(call) = 9;
      });
    }
    if (is_abandoned) on.abandon();
  }
  EXPECT_FALSE(is_ready(released));
  go.set_value();
  EXPECT_EQ(released.get()[0], 9);
}

INSTANTIATE_TEST_SUITE_P(, DroppedContext, testing::Bool(), [](const auto& of) {
  return of.param ? std::string("Abandoned") : std::string("Forgotten");
});

TEST(Lifetime, QueuedWorkOfADroppedContextEndsByItself) {
  std::promise<int> ran;
  std::future<int> answer = ran.get_future();
  auto told = std::make_shared<std::promise<int>>(std::move(ran));
  {
    untyped_context on = open("host", 2);
    const untyped_data t = on.make_token();
    for (int i = 0; i < 20; ++i)
      run(on, exec_place::device(i % 2), {t.rw()}, nothing);
    run(on, exec_place::host(), {t.rw()}, [told](const body_call&) { told->set_value(7); });
    on.abandon();
  }
  EXPECT_EQ(answer.get(), 7);
}

TEST(Lifetime, HandlesMayBeDroppedInBodies) {
  untyped_context on = open("host", 2);
  std::vector<int> buffer(4, 1);
  untyped_data x = registered(on, buffer);
  const task_dep dep = x.rw();
  run(on, exec_place::device(1), {dep}, [x](const body_call& call) mutable {
    first<int>(call) = 3;
    x = untyped_data();
  });
  x = untyped_data();
  on.finalize();
  EXPECT_EQ(buffer[0], 3);
}

TEST(Lifetime, TaskKeepsItsDataAliveBetweenStartAndEnd) {
  untyped_context on = open("host", 2);
  std::vector<int> buffer(4, 1);
  untyped_task task(on);
  {
    const untyped_data x = registered(on, buffer);
    task.add_dep(x.rw());
  }
  task.set_place(exec_place::device(1));
  task.start();
  *static_cast<int*>(task.pointer(0)) = 8;
  task.end();
  task = untyped_task();
  on.finalize();
  EXPECT_EQ(buffer[0], 8);
}

TEST(Lifetime, BufferRegisteredAgainSeesTheWriteBackThatIsStillQueued) {
  untyped_context on = open("host", 2);
  std::vector<int> buffer(4, 1);
  for (int i = 0; i < 50; ++i) {
    const untyped_data x = registered(on, buffer);
    run(on, exec_place::device(i % 2), {x.rw()},
        [](const body_call& call) { first<int>(call) += 1; });
  }
  on.finalize();
  EXPECT_EQ(buffer[0], 51);
}

TEST(Lifetime, ContextCopiesAreOneContext) {
  untyped_context on = open("host", 2);
  untyped_context same = on;
  const untyped_data t = on.make_token();
  EXPECT_TRUE(same.owns(t));
  run(same, {}, {t.rw()}, nothing);
  EXPECT_EQ(on.stats().tasks, 1U);
  same.finalize();
  EXPECT_TRUE(on.is_finished());
}

TEST(Lifetime, ManyTemporariesStayWithinAFewBlocks) {
  untyped_context on = open("host", 2);
  constexpr std::size_t mib = std::size_t{1} << 20U;
  constexpr std::size_t count = 4 * mib / sizeof(std::int64_t);
  std::vector<std::int64_t> total(1);
  const untyped_data sum = registered(on, total);
  for (int i = 0; i < 5000; ++i) {
    const untyped_data fresh = on.make_data(count * sizeof(std::int64_t));
    run(on, exec_place::device(0), {fresh.write()},
        [i](const body_call& call) { (&first<std::int64_t>(call))[count - 1] = i; });
    run(on, exec_place::device(0), {fresh.read(), sum.rw()}, [](const body_call& call) {
      first<std::int64_t>(call, 1) += (&first<std::int64_t>(call))[count - 1];
    });
  }
  EXPECT_EQ(on.stats().host_waits, 0U);
  on.finalize();
  EXPECT_EQ(total[0], 5000LL * 4999 / 2);
  // Were no block ever given back, the device would hold this much.
  EXPECT_LT(on.stats().allocations * 4 * mib, 512 * mib);
}

}  // namespace
}  // namespace millstream::test
