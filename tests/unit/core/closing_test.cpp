// SPDX-License-Identifier: Apache-2.0
/// A context that one thread finalizes while others use it. In the tests of the CUDA machine the
/// file is built for that, where bodies for devices run in the thread that submits them.
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <millstream/hooks.hpp>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/core/gate.hpp"

namespace millstream::test {
namespace {

constexpr const char* refused_text =
    " was called on a context that was finalized (it is being finalized now); the context handle "
    "is NULL: open a new context";

template <class Body>
void launch(untyped_context& on, std::initializer_list<task_dep> deps, Body&& body) {
  run(on, exec_place::host(), deps, std::forward<Body>(body), "host function",
      task_kind::host_launch);
}

/// A listener that does something.
class then_notice final : public notice {
 public:
  explicit then_notice(std::function<void()> then) : then_(std::move(then)) {}
  void ended(const notice_outcome& /*how*/) noexcept override { then_(); }

 private:
  std::function<void()> then_;
};

/// Whether the context records.
class Closing : public testing::TestWithParam<bool> {
 protected:
  static untyped_context open_here(bool records = GetParam()) {
    context_options options;
#ifdef MILLSTREAM_ON_CUDA
    options.on = machine({.name = "cuda"});
#else
    options.on = machine({.name = "host", .devices = 2});
#endif
    options.use_graph = records;
    return untyped_context(std::move(options));
  }
  static void SetUpTestSuite() {
    try {
      open_here(false).finalize();
    } catch (const error& none) {
      GTEST_SKIP() << none.what();
    }
  }

  void submit_one(exec_place place) {
    run(on_, place, {}, [this](const body_call&) { ++ran_; });
    ++accepted_;
  }
  /// Submits until that is refused: then another thread finalizes the context. A body that is
  /// recorded would wait for one of another thread's.
  void submit_until_refused() {
    std::string text;
    errc answer = errc::ok;
    for (int i = 0; answer == errc::ok; ++i) {
      const bool on_device = !GetParam() && i % 2 == 0;
      answer = thrown([&] { submit_one(on_device ? exec_place::device(0) : exec_place::host()); },
                      &text);
    }
    EXPECT_EQ(answer, errc::usage);
    EXPECT_EQ(text, std::string("task") + refused_text);
  }
  /// Keeps the context from its end until that is opened.
  void hold_open() {
    launch(on_, {}, [this](const body_call&) { hold_.pass(); });
  }
  /// `during` is called while this thread is inside of `finalize`.
  void finalize_with(const std::function<void()>& during) {
    hold_open();
    std::thread other([&] {
      submit_until_refused();
      during();
      hold_.open();
    });
    on_.finalize();
    other.join();
    EXPECT_TRUE(on_.is_finished());
    EXPECT_EQ(ran_, accepted_);
  }

  untyped_context on_ = open_here();
  gate hold_;
  std::atomic<int> accepted_{0};
  std::atomic<int> ran_{0};
};
INSTANTIATE_TEST_SUITE_P(Contexts, Closing, testing::Bool(), [](const auto& each) {
  return std::string(each.param ? "Recorded" : "Immediate");
});

TEST_P(Closing, EndsAlthoughManyThreadsGoOnSubmitting) {
  hold_open();
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      submit_until_refused();
      if (++refused == 4) hold_.open();
    });
  }
  on_.finalize();
  for (std::thread& each : threads)
    each.join();
  EXPECT_EQ(ran_, accepted_);
}

TEST_P(Closing, WhatAddsWorkIsRefusedToOtherThreads) {
  const untyped_data t = on_.make_token("t");
  const untyped_data x = on_.make_data(sizeof(int), "x");
  std::array<std::byte, 1> zero{};
  on_.fill(x.write(), zero);
  std::vector<int> buffer(1);
  const auto expect_refused = [](const char* call, const std::function<void()>& what) {
    std::string text;
    EXPECT_EQ(thrown(what, &text), errc::usage) << call;
    EXPECT_EQ(text, call + std::string(refused_text));
  };
  const auto listener = [] { return std::make_unique<then_notice>([] {}); };
  finalize_with([&] {
    expect_refused("token", [&] { (void)on_.make_token(); });
    expect_refused("logical_data", [&] { (void)on_.make_data(8); });
    expect_refused("logical_data", [&] { (void)registered(on_, buffer); });
    expect_refused("task", [&] {
      untyped_task task(on_);
      task.add_dep(t.read());
      task.start();
    });
    expect_refused("fill", [&] { on_.fill(x.write(), zero); });
    expect_refused("fence", [&] { (void)on_.fence(); });
    expect_refused("done", [&] { (void)on_.notify(listener()); });
    expect_refused("get", [&] { (void)on_.fetch(x, buffer.data(), listener()); });
    expect_refused("wait", [&] { on_.await_content(x); });
    expect_refused("wait", [&] { on_.read_back(x, buffer.data()); });
    expect_refused("to_graph", [&] { (void)on_.give_graph(); });
    EXPECT_FALSE(on_.is_finished());
  });
}

TEST_P(Closing, DataMayBeDroppedAndAreWrittenBack) {
  std::vector<unsigned char> buffer(4, 1);
  untyped_data x = registered(on_, buffer);
  const std::array<std::byte, 1> five{std::byte{5}};
  on_.fill(x.write(), five);
  finalize_with([&] { x = untyped_data(); });
  EXPECT_EQ(buffer, std::vector<unsigned char>(4, 5));
}

TEST_P(Closing, HostFunctionsOfTheContextGoOn) {
  constexpr int rounds = 20;
  gate closing;
  launch(on_, {}, [&](const body_call&) {
    closing.pass();
    for (int i = 0; i < rounds; ++i)
      submit_one(exec_place::host());
    untyped_task task(on_);
    const untyped_data fresh = on_.make_token();
    task.add_dep(fresh.write());
    task.set_place(exec_place::host());
    task.start();
    task.end();
  });
  finalize_with([&] { closing.open(); });
  EXPECT_GE(ran_, rounds);
}

TEST_P(Closing, WhatABodyHoldsGoesOnWhenItIsDestroyed) {
  gate closing;
  auto last = std::shared_ptr<void>(nullptr, [&](void*) {
    closing.pass();
    EXPECT_EQ(thrown([&] { submit_one(exec_place::host()); }), errc::ok);
  });
  launch(on_, {}, [last = std::move(last)](const body_call&) {});
  finalize_with([&] { closing.open(); });
}

TEST_P(Closing, ListenersGoOn) {
  gate closing;
  (void)on_.notify(std::make_unique<then_notice>([&] {
    closing.pass();
    EXPECT_EQ(thrown([&] { submit_one(exec_place::host()); }), errc::ok);
    (void)on_.notify(std::make_unique<then_notice>(
        [&] { EXPECT_EQ(thrown([&] { submit_one(exec_place::host()); }), errc::ok); }));
  }));
  finalize_with([&] { closing.open(); });
}

TEST_P(Closing, BodiesAndListenersOfOtherContextsAreOtherThreads) {
  untyped_context other = open_here(false);
  std::atomic<errc> in_body{errc::ok};
  std::atomic<errc> in_listener{errc::ok};
  const auto submit = [&] { return thrown([&] { submit_one(exec_place::host()); }); };
  finalize_with([&] {
    launch(other, {}, [&](const body_call&) { in_body = submit(); });
    (void)other.notify(std::make_unique<then_notice>([&] { in_listener = submit(); }));
    other.finalize();
  });
  EXPECT_EQ(in_body, errc::usage);
  EXPECT_EQ(in_listener, errc::usage);
}

// On CUDA it is called inside of `submit`.
TEST_P(Closing, AFunctionThatRunsIsWaitedForWithWhatItSubmits) {
  gate inside;
  gate closing;
  std::thread submitter([&] {
    run(on_, exec_place::device(0), {}, [&](const body_call&) {
      inside.open();
      closing.pass();
      if (!GetParam()) submit_one(exec_place::device(0));  // else its stream is being recorded
    });
  });
#ifdef MILLSTREAM_ON_CUDA
  inside.pass();
#else
  submitter.join();
#endif
  finalize_with([&] { closing.open(); });
  if (submitter.joinable()) submitter.join();
}

TEST_P(Closing, AFunctionThatRunsCannotFinalize) {
  gate closing;
  gate inside;
  errc answer = errc::ok;
  std::thread submitter([&] {
    run(on_, exec_place::device(0), {}, [&](const body_call&) {
      inside.open();
      closing.pass();
      answer = thrown([&] { on_.finalize(); });
    });
  });
#ifdef MILLSTREAM_ON_CUDA
  inside.pass();
#else
  submitter.join();
#endif
  finalize_with([&] { closing.open(); });
  if (submitter.joinable()) submitter.join();
#ifdef MILLSTREAM_ON_CUDA
  EXPECT_EQ(answer, errc::usage);
#else
  EXPECT_EQ(answer, errc::deadlock);
#endif
}

TEST_P(Closing, ASecondThreadComesBackWhenTheContextIsFinished) {
  std::vector<unsigned char> buffer(4, 1);
  const untyped_data x = registered(on_, buffer);
  const std::array<std::byte, 1> five{std::byte{5}};
  on_.fill(x.write(), five);
  std::vector<std::thread> threads;
  finalize_with([&] {
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        on_.finalize();
        EXPECT_TRUE(on_.is_finished());
        EXPECT_EQ(buffer, std::vector<unsigned char>(4, 5));
      });
    }
  });
  for (std::thread& each : threads)
    each.join();
}

/// Blocking hooks, as long as it lives.
class hooks {
 public:
  explicit hooks(bool (*interrupted)() noexcept) {
    set_blocking_hooks({.enter = nullptr, .leave = nullptr, .interrupted = interrupted});
  }
  ~hooks() { set_blocking_hooks({}); }
  hooks(const hooks&) = delete;
  hooks& operator=(const hooks&) = delete;
};

std::atomic<std::thread::id> g_interrupted;

TEST_P(Closing, AnInterruptedOneOpensTheContextAgain) {
  g_interrupted = std::thread::id();
  const hooks installed([]() noexcept { return g_interrupted == std::this_thread::get_id(); });
  hold_open();
  std::atomic<std::thread::id> first_id;
  std::thread first([&] {
    first_id = std::this_thread::get_id();
    EXPECT_EQ(thrown([&] { on_.finalize(); }), errc::interrupted);
  });
  submit_until_refused();
  std::thread second([&] {
    on_.finalize();
    EXPECT_TRUE(on_.is_finished());
  });
  g_interrupted = first_id.load();
  first.join();
  hold_.open();
  second.join();
  EXPECT_EQ(ran_, accepted_);
}

TEST_P(Closing, WorkIsTakenAgainAfterAnInterruptedOne) {
  g_interrupted = std::thread::id();
  const hooks installed([]() noexcept { return g_interrupted == std::this_thread::get_id(); });
  hold_open();
  g_interrupted = std::this_thread::get_id();
  EXPECT_EQ(thrown([&] { on_.finalize(); }), errc::interrupted);
  g_interrupted = std::thread::id();
  std::thread([&] { EXPECT_EQ(thrown([&] { submit_one(exec_place::host()); }), errc::ok); }).join();
  hold_.open();
  on_.finalize();
  EXPECT_EQ(ran_, 1);
}

std::function<void()> g_while_blocked;

TEST_P(Closing, TheThreadItselfGoesOnAndMayFinalizeAgain) {
  hold_open();
  bool called = false;
  g_while_blocked = [&] {
    if (std::exchange(called, true)) return;
    EXPECT_EQ(thrown([&] { submit_one(exec_place::host()); }), errc::ok);
    hold_.open();
    on_.finalize();
    EXPECT_TRUE(on_.is_finished());
  };
  const hooks installed([]() noexcept {
    g_while_blocked();
    return false;
  });
  on_.finalize();
  g_while_blocked = nullptr;
  EXPECT_TRUE(called);
  EXPECT_EQ(ran_, 1);
}

// The host function waits for the body of the other context, and that for this one.
TEST_P(Closing, ASecondOneThatTheFirstWouldWaitForIsADeadlock) {
  untyped_context other = open_here(false);
  const untyped_data t = other.make_token("t");
  gate closing;
  std::atomic<int> deadlocks{0};
  const auto count = [&](const std::function<void()>& call) {
    if (thrown(call) == errc::deadlock) ++deadlocks;
  };
  launch(other, {t.write()}, [&](const body_call&) {
    closing.pass();
    count([&] { on_.finalize(); });
  });
  launch(on_, {}, [&](const body_call&) {
    closing.pass();
    count([&] { other.await_content(t); });
  });
  finalize_with([&] { closing.open(); });
  other.finalize();
  EXPECT_EQ(deadlocks, 1);
}

}  // namespace
}  // namespace millstream::test
