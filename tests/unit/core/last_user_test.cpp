// SPDX-License-Identifier: Apache-2.0
/// What a collector of garbage learns about owners of users' buffers.
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <millstream/hooks.hpp>

#include "core/context.hpp"
#include "tests/unit/core/engine.hpp"
#include "tests/unit/core/gate.hpp"

namespace millstream::test {
namespace {

/// Whether the context records.
class LastUser : public testing::TestWithParam<bool> {
 protected:
  static untyped_context open_here() {
    context_options options;
    options.on = machine({.name = "host", .devices = 2});
    options.use_graph = GetParam();
    return untyped_context(std::move(options));
  }
  untyped_data registered_with_owner(bool readonly = false) {
    registration what;
    what.block = buffer_.data();
    what.bytes = buffer_.size() * sizeof(int);
    what.readonly = readonly;
    what.owner = std::make_shared<int>(0);
    owner_ = what.owner.get();
    return on_.register_data(what);
  }
  void expect_kept_by(const untyped_data& handle) {
    const std::shared_ptr<void>* const owner = owner_kept_by(handle);
    ASSERT_NE(owner, nullptr);
    EXPECT_EQ(owner->get(), owner_);
  }

  std::vector<int> buffer_{1, 2};
  untyped_context on_ = open_here();
  const void* owner_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Contexts, LastUser, testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "Recorded" : "Immediate");
});

TEST_P(LastUser, OnlyRegisteredDataHaveAnOwner) {
  EXPECT_EQ(owner_kept_by(untyped_data()), nullptr);
  EXPECT_EQ(owner_kept_by(on_.make_data(8)), nullptr);
  EXPECT_EQ(owner_kept_by(registered(on_, buffer_)), nullptr);
  EXPECT_FALSE(is_buffer_at_rest(untyped_data()));
  on_.finalize();
}

TEST_P(LastUser, IsTheOnlyHandle) {
  const untyped_data x = registered_with_owner();
  expect_kept_by(x);
  {
    const untyped_data again = x;
    EXPECT_EQ(owner_kept_by(x), nullptr);
    EXPECT_EQ(owner_kept_by(again), nullptr);
  }
  {
    const task_dep dep = x.read();
    EXPECT_EQ(owner_kept_by(x), nullptr);
  }
  const untyped_data same = registered(on_, buffer_);
  EXPECT_EQ(owner_kept_by(x), nullptr);
  on_.finalize();
  EXPECT_EQ(owner_kept_by(x), nullptr);  // nothing keeps it any more
}

TEST_P(LastUser, IsNobodyWhereTheOwnerIsSomebodyElsesToo) {
  const untyped_data x = registered_with_owner();
  const std::shared_ptr<void> other = *owner_kept_by(x);
  EXPECT_EQ(owner_kept_by(x), nullptr);
  on_.finalize();
}

TEST_P(LastUser, IsTheTaskUntilItHasEnded) {
  const untyped_data x = registered_with_owner();
  gate hold;
  run(on_, exec_place::host(), {x.read()}, [&](const body_call&) { hold.pass(); });
  EXPECT_EQ(owner_kept_by(x), nullptr);
  hold.open();
  on_.await_content(x);
  (void)on_.fence();
  run(on_, exec_place::host(), {x.rw()}, nothing);  // another one that comes after it
  EXPECT_EQ(owner_kept_by(x), nullptr);
  on_.drain();
  expect_kept_by(x);
  on_.finalize();
}

TEST_P(LastUser, IsTheOpenTaskUntilItsEnd) {
  const untyped_data x = registered_with_owner();
  untyped_task task(on_);
  task.add_dep(x.rw());
  EXPECT_EQ(owner_kept_by(x), nullptr);
  task.start();
  EXPECT_EQ(owner_kept_by(x), nullptr);
  task.end();
  on_.drain();
  expect_kept_by(x);
  on_.finalize();
}

TEST_P(LastUser, WhatNobodyUsedIsAtRest) {
  const untyped_data x = registered_with_owner();
  EXPECT_TRUE(is_buffer_at_rest(x));
  on_.finalize();
}

TEST_P(LastUser, WhatIsToBeWrittenBackIsNotAtRest) {
  const untyped_data x = registered_with_owner();
  EXPECT_TRUE(is_buffer_at_rest(x));
  run(on_, exec_place::device(1), {x.rw()}, [](const body_call& call) { first<int>(call) = 5; });
  on_.drain();
  expect_kept_by(x);
  EXPECT_FALSE(is_buffer_at_rest(x));
  run(on_, exec_place::host(), {x.read()}, nothing);  // brings it home
  on_.drain();
  on_.await_content(x);
  EXPECT_TRUE(is_buffer_at_rest(x));
  EXPECT_EQ(buffer_[0], 5);
  on_.finalize();
}

TEST_P(LastUser, WhatIsReadIsNotAtRest) {
  const untyped_data x = registered_with_owner(/*readonly=*/true);
  EXPECT_TRUE(is_buffer_at_rest(x));
  gate hold;
  run(on_, exec_place::host(), {x.read()}, [&](const body_call&) { hold.pass(); });
  EXPECT_FALSE(is_buffer_at_rest(x));
  hold.open();
  on_.drain();
  EXPECT_TRUE(is_buffer_at_rest(x));
  on_.finalize();
}

TEST_P(LastUser, NothingIsWrittenBackToADroppedContext) {
  const untyped_data x = registered_with_owner();
  run(on_, exec_place::device(1), {x.rw()}, nothing);
  on_.drain();
  EXPECT_FALSE(is_buffer_at_rest(x));
  on_.abandon();
  expect_kept_by(x);
  EXPECT_TRUE(is_buffer_at_rest(x));
}

TEST_P(LastUser, ALockIsNotWaitedFor) {
  const untyped_data x = registered_with_owner();
  const auto while_locked = [&] {
    bool answer = false;
    const std::scoped_lock held(on_.state()->mutex());
    std::thread([&] { answer = is_buffer_at_rest(x); }).join();
    return answer;
  };
  EXPECT_FALSE(while_locked());
  EXPECT_TRUE(is_buffer_at_rest(x));
  EXPECT_TRUE(while_locked());  // it was known
  run(on_, exec_place::host(), {x.read()}, nothing);
  on_.drain();
  EXPECT_FALSE(while_locked());  // as before its use
  EXPECT_TRUE(is_buffer_at_rest(x));
  on_.finalize();
}

TEST_P(LastUser, BuffersInCommonAreNeverAtRest) {
  const untyped_data x = registered_with_owner();
  registration what;
  what.block = buffer_.data();
  what.bytes = sizeof(int);
  what.allow_overlap = true;
  const untyped_data part = on_.register_data(what);
  expect_kept_by(x);
  EXPECT_FALSE(is_buffer_at_rest(x));
  on_.finalize();
}

}  // namespace
}  // namespace millstream::test
