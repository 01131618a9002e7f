// SPDX-License-Identifier: Apache-2.0
/// Open tasks across threads, and waits that could never end.
#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <millstream/hooks.hpp>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

void open_on(untyped_task& task, const char* name, std::initializer_list<task_dep> deps) {
  task.set_symbol(name);
  for (const task_dep& dep : deps)
    task.add_dep(dep);
  task.start();
}

class OpenTasks : public testing::Test {
 protected:
  untyped_context on_ = open("host", 2);
  std::vector<int> a_ = std::vector<int>(4, 1);
  std::vector<int> b_ = std::vector<int>(4, 2);
  const untyped_data x_ = registered(on_, a_, "x");
  const untyped_data y_ = registered(on_, b_, "y");
};

TEST_F(OpenTasks, ReadersOfTwoThreadsAreOpenTogether) {
  std::barrier both(2);
  const auto reader = [&](const char* name) {
    untyped_task task(on_);
    open_on(task, name, {x_.read()});
    both.arrive_and_wait();  // never ends if the second one waits for the first
    EXPECT_EQ(*static_cast<int*>(task.pointer(0)), 1);
    task.end();
  };
  std::thread other(reader, "left");
  reader("right");
  other.join();
  on_.finalize();
}

TEST_F(OpenTasks, ConflictingStartOfAnotherThreadWaitsForTheEnd) {
  untyped_task mine(on_);
  open_on(mine, "mine", {x_.rw()});
  std::promise<void> about_to_start;
  std::thread other([&] {
    untyped_task theirs(on_);
    about_to_start.set_value();
    open_on(theirs, "theirs", {x_.rw()});
    *static_cast<int*>(theirs.pointer(0)) *= 10;
    theirs.end();
  });
  about_to_start.get_future().wait();
  *static_cast<int*>(mine.pointer(0)) += 4;
  mine.end();
  other.join();
  EXPECT_EQ(content<int>(on_, x_), 50);
  on_.finalize();
}

// What another thread that has the same task may do while its owner waits: a binding lets it in.
untyped_task* waiting = nullptr;
std::promise<void>* may_end = nullptr;
int refused_calls = 0;

template <class Call>
void expect_refusal(Call&& call) {
  try {
    call();
  } catch (const error& known) {
    if (known.code() == errc::usage) ++refused_calls;
  }
}

void* look_at_waiting() noexcept {
  untyped_task* const task = std::exchange(waiting, nullptr);
  if (task == nullptr) return nullptr;
  EXPECT_FALSE(task->is_open());
  EXPECT_FALSE(task->is_ended());
  expect_refusal([&] { task->start(); });
  expect_refusal([&] { task->end(); });
  expect_refusal([&] { task->set_symbol("other"); });
  expect_refusal([&] { static_cast<void>(task->pointer(0)); });
  task->fail(nullptr);
  may_end->set_value();
  return nullptr;
}

TEST_F(OpenTasks, OneThatWaitsForItsDataRefusesOthers) {
  std::promise<void> opened;
  std::promise<void> end;
  may_end = &end;
  std::thread other([&] {
    untyped_task theirs(on_);
    open_on(theirs, "theirs", {x_.rw()});
    opened.set_value();
    end.get_future().wait();
    *static_cast<int*>(theirs.pointer(0)) += 4;
    theirs.end();
  });
  opened.get_future().wait();
  untyped_task mine(on_);
  waiting = &mine;
  set_blocking_hooks({&look_at_waiting, nullptr, nullptr});
  open_on(mine, "mine", {x_.rw()});
  set_blocking_hooks({});
  EXPECT_EQ(refused_calls, 4);
  *static_cast<int*>(mine.pointer(0)) *= 10;
  mine.end();
  other.join();
  EXPECT_EQ(content<int>(on_, x_), 50);
  on_.finalize();
}

TEST_F(OpenTasks, SubmissionOfAnotherThreadWaitsForTheEnd) {
  untyped_task mine(on_);
  open_on(mine, "mine", {x_.rw()});
  std::thread other(
      [&] { run(on_, {}, {x_.rw()}, [](const body_call& call) { first<int>(call) *= 10; }); });
  *static_cast<int*>(mine.pointer(0)) += 4;
  mine.end();
  other.join();
  EXPECT_EQ(content<int>(on_, x_), 50);
  on_.finalize();
}

TEST_F(OpenTasks, CycleOfTwoThreadsIsAnErrorForTheLaterOne) {
  std::barrier both_open(2);
  std::atomic<int> deadlocks{0};
  std::atomic<int> done{0};
  const auto crosswise = [&](const char* name, const untyped_data& has, const untyped_data& wants) {
    untyped_task outer(on_);
    open_on(outer, name, {has.rw()});
    both_open.arrive_and_wait();
    untyped_task inner(on_);
    std::string text;
    const errc answer = thrown([&] { open_on(inner, "inner", {wants.rw()}); }, &text);
    if (answer == errc::ok) {
      ++done;
      inner.end();
    } else {
      EXPECT_EQ(answer, errc::deadlock) << text;
      EXPECT_TRUE(contains(text, "inner")) << text;
      ++deadlocks;
    }
    outer.end();
  };
  std::thread other([&] { crosswise("left", x_, y_); });
  crosswise("right", y_, x_);
  other.join();
  EXPECT_EQ(deadlocks, 1);
  EXPECT_EQ(done, 1);
  on_.finalize();
}

TEST_F(OpenTasks, ConflictInOneThreadNamesBothTasks) {
  untyped_task outer(on_);
  open_on(outer, "outer", {x_.read()});
  untyped_task inner(on_);
  std::string text;
  EXPECT_EQ(thrown([&] { open_on(inner, "inner", {x_.rw()}); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "'outer'") && contains(text, "'inner'") && contains(text, "'x'"))
      << text;
  outer.end();
  open_on(inner, "inner", {});  // the refusal left it as it was
  *static_cast<int*>(inner.pointer(0)) = 5;
  inner.end();
  EXPECT_EQ(content<int>(on_, x_), 5);
  on_.finalize();
}

TEST_F(OpenTasks, WaitForDataOfAnOpenTaskOfThisThreadIsRefused) {
  untyped_task mine(on_);
  open_on(mine, "mine", {x_.rw()});
  EXPECT_EQ(thrown([&] { (void)content<int>(on_, x_); }), errc::usage);
  mine.end();
  EXPECT_EQ(content<int>(on_, x_), 1);
  on_.finalize();
}

TEST_F(OpenTasks, FinalizeOfAnotherThreadNamesTheOpenTask) {
  untyped_task mine(on_);
  open_on(mine, "mine", {x_.rw()});
  std::thread other([&] {
    std::string text;
    EXPECT_EQ(thrown([&] { on_.finalize(); }, &text), errc::usage);
    EXPECT_TRUE(contains(text, "'mine'")) << text;
  });
  other.join();
  mine.end();
  on_.finalize();
}

/// Calls a function inside a body and gives what it threw.
template <class Call>
errc thrown_inside(untyped_context& on, exec_place place, std::initializer_list<task_dep> deps,
                   const Call& call) {
  auto answer = std::make_shared<std::promise<errc>>();
  const auto body = [answer, call](const body_call&) {
    std::string text;
    const errc code = thrown(call, &text);
    EXPECT_EQ(code == errc::deadlock, contains(text, "inside task 'body' ")) << text;
    answer->set_value(code);
  };
  run(on, place, deps, body, "body");
  return answer->get_future().get();
}

class InsideBodies : public OpenTasks, public testing::WithParamInterface<exec_place> {};

TEST_P(InsideBodies, FinalizeIsADeadlock) {
  EXPECT_EQ(thrown_inside(on_, GetParam(), {x_.rw()}, [this] { on_.finalize(); }), errc::deadlock);
  EXPECT_FALSE(on_.is_finished());
  on_.finalize();
}

TEST_P(InsideBodies, WaitForTheOwnOutputIsADeadlock) {
  EXPECT_EQ(thrown_inside(on_, GetParam(), {x_.rw()}, [this] { (void)content<int>(on_, x_); }),
            errc::deadlock);
  EXPECT_EQ(content<int>(on_, x_), 1);
  on_.finalize();
}

// In turn the lane of a device is that of the body itself.
TEST_P(InsideBodies, AReadThatIsRefusedWritesNothingLater) {
  const untyped_data there = on_.make_data(sizeof(int));
  run(on_, exec_place::device(0), {there.write()},
      [](const body_call& call) { first<int>(call) = 5; });
  EXPECT_EQ(content<int>(on_, there), 5);
  std::vector<int> to(32, 9);
  std::vector<int> expected(to.size(), 5);
  const auto read_often = [&] {
    for (std::size_t i = 0; i < to.size(); ++i) {
      const errc code = thrown([&] { on_.read_back(there, &to[i]); });
      EXPECT_TRUE(code == errc::ok || code == errc::deadlock);
      if (code == errc::deadlock) expected[i] = 9;
    }
  };
  EXPECT_EQ(thrown_inside(on_, GetParam(), {}, read_often), errc::ok);
  on_.finalize();
  EXPECT_EQ(to, expected);
  const auto refused = std::count(expected.begin(), expected.end(), 9);
  EXPECT_EQ(refused > 0, GetParam() != exec_place::host());
}

TEST_P(InsideBodies, WhatIsInHostMemoryIsReadAtOnce) {
  constexpr std::array<int, 4> b_as_read{2, 2, 2, 2};
  std::vector<std::array<int, 4>> to(32);
  const auto read_often = [&] {
    for (auto& each : to)
      on_.read_back(y_, each.data());
  };
  EXPECT_EQ(thrown_inside(on_, GetParam(), {}, read_often), errc::ok);
  on_.finalize();
  for (const auto& each : to)
    EXPECT_EQ(each, b_as_read);
}

TEST_P(InsideBodies, StartThatWaitsForTheBodyIsADeadlock) {
  const auto start = [this] {
    untyped_task task(on_);
    open_on(task, "inner", {x_.rw()});
    task.end();
  };
  EXPECT_EQ(thrown_inside(on_, GetParam(), {x_.rw()}, start), errc::deadlock);
  run(on_, {}, {x_.write()}, [](const body_call& call) { first<int>(call) = 7; });
  EXPECT_EQ(content<int>(on_, x_), 7);
  on_.finalize();
}

TEST_P(InsideBodies, SubmissionIsWelcome) {
  const auto submit = [this] {
    run(on_, exec_place::device(1), {x_.rw()},
        [](const body_call& call) { first<int>(call) += 100; });
  };
  EXPECT_EQ(thrown_inside(on_, GetParam(), {x_.rw()}, submit), errc::ok);
  EXPECT_EQ(content<int>(on_, x_), 101);
  on_.finalize();
}

TEST_P(InsideBodies, WaitForOtherDataIsWelcome) {
  run(on_, exec_place::device(1), {y_.rw()}, [](const body_call& call) { first<int>(call) += 5; });
  auto seen = std::make_shared<std::promise<int>>();
  run(on_, GetParam(), {x_.rw()},
      [this, seen](const body_call&) { seen->set_value(content<int>(on_, y_)); });
  EXPECT_EQ(seen->get_future().get(), 7);
  on_.finalize();
}

INSTANTIATE_TEST_SUITE_P(Places, InsideBodies,
                         testing::Values(exec_place::device(0), exec_place::host()),
                         [](const auto& place) {
                           return place.param == exec_place::host() ? "Host" : "Device";
                         });

}  // namespace
}  // namespace millstream::test
