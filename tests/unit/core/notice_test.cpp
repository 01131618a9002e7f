// SPDX-License-Identifier: Apache-2.0
/// Notices: told once, after what they wait for, and before their context ends.
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/core/gate.hpp"

namespace millstream::test {
namespace {

/// What a listener was told.
struct answer {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;
  notice_outcome how;

  notice_outcome wait() {
    std::unique_lock hold(mutex);
    changed.wait(hold, [&] { return count > 0; });
    return how;
  }
  [[nodiscard]] int told() {
    const std::scoped_lock hold(mutex);
    return count;
  }
};

class listener final : public notice {
 public:
  explicit listener(std::shared_ptr<answer> to, std::function<void()> then = nullptr)
      : to_(std::move(to)), then_(std::move(then)) {}
  void ended(const notice_outcome& how) noexcept override {
    if (then_) then_();
    const std::scoped_lock hold(to_->mutex);
    ++to_->count;
    to_->how = how;
    to_->changed.notify_all();
  }

 private:
  std::shared_ptr<answer> to_;
  std::function<void()> then_;
};

struct asked {
  std::shared_ptr<answer> to = std::make_shared<answer>();
  notice_ticket ticket;
};

asked all_of(untyped_context& on, std::function<void()> then = nullptr) {
  asked made;
  made.ticket = on.notify(std::make_unique<listener>(made.to, std::move(then)));
  return made;
}

template <class Element>
asked content_of(untyped_context& on, const untyped_data& of, std::vector<Element>& to) {
  asked made;
  made.ticket = on.fetch(of, to.data(), std::make_unique<listener>(made.to));
  return made;
}

class Notices : public testing::TestWithParam<std::optional<std::uint64_t>> {
 protected:
  // Local buffers are gone by then, so tests that register any finalize themselves.
  void TearDown() override { on.finish(); }

  untyped_context on = test::open("host", 2, GetParam());
};
INSTANTIATE_TEST_SUITE_P(Orders, Notices,
                         testing::Values(std::nullopt, std::uint64_t{1}, std::uint64_t{2}));

TEST_P(Notices, AnEmptyContextIsDone) {
  EXPECT_EQ(all_of(on).to->wait().why, nullptr);
}

TEST_P(Notices, ATaskIsDoneBeforeItsNotice) {
  std::atomic<int> ran{0};
  for (int device = 0; device < 2; ++device)
    run(on, exec_place::device(device), {}, [&](const body_call&) { ++ran; });
  run(on, exec_place::host(), {}, [&](const body_call&) { ++ran; });
  const notice_outcome how = all_of(on).to->wait();
  EXPECT_EQ(ran, 3);
  EXPECT_EQ(how.last_task, 3U);
}

TEST_P(Notices, FetchBringsTheContentOfTheCall) {
  std::vector<int> source(3, 1);
  const untyped_data x = registered(on, source, "x");
  const auto twice = [](const body_call& call) { first<int>(call) *= 2; };
  std::vector<std::vector<int>> seen(8, std::vector<int>(3));
  std::vector<asked> all;
  for (int i = 0; i < 8; ++i) {
    run(on, exec_place::device(i % 2), {x.rw()}, twice);
    all.push_back(content_of(on, x, seen[static_cast<std::size_t>(i)]));
  }
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(all[i].to->wait().why, nullptr);
    EXPECT_EQ(seen[i][0], 2 << i);
  }
  on.finalize();
}

TEST_P(Notices, FinishWaitsUntilTheyAreTold) {
  std::vector<asked> all;
  for (int i = 0; i < 20; ++i) {
    run(on, exec_place::device(i % 2), {}, nothing);
    all.push_back(all_of(on));
  }
  on.finalize();
  for (const asked& each : all)
    EXPECT_EQ(each.to->told(), 1);
}

TEST_P(Notices, FinishWaitsForWhatAListenerSubmits) {
  std::vector<int> source(1, 0);
  const untyped_data x = registered(on, source);
  const auto add = [](const body_call& call) { ++first<int>(call); };
  run(on, {}, {x.rw()}, add);
  const asked one = all_of(on, [&] {
    run(on, {}, {x.rw()}, add);
    static_cast<void>(all_of(on, [&] { run(on, {}, {x.rw()}, add); }));
  });
  on.finalize();
  EXPECT_EQ(source[0], 3);
}

TEST_P(Notices, ContentOfAFailedTaskIsPoisoned) {
  const untyped_data x = on.make_data(8, "x");
  run(on, {}, {x.write()}, [](const body_call&) { throw std::runtime_error("boom"); }, "bad");
  std::vector<double> to(1);
  const notice_outcome how = content_of(on, x, to).to->wait();
  std::string text;
  EXPECT_EQ(thrown([&] { std::rethrow_exception(how.why); }, &text), errc::poisoned);
  EXPECT_TRUE(contains(text, "get needs 'x', which task 'bad'")) << text;
  const std::vector<failure> seen = on.look_at_failures({how.failed_task, how.failed_task});
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].task, "task 'bad'");
  EXPECT_EQ(on.look_at_failures({}).size(), 1U);
  on.mark_failures_seen({how.failed_task});
  EXPECT_TRUE(on.take_failures().empty());
}

TEST_P(Notices, FetchOfNothingIsRefused) {
  std::string text;
  std::vector<double> to(1);
  const untyped_data x = on.make_data(8, "x");
  EXPECT_EQ(thrown([&] { static_cast<void>(content_of(on, x, to)); }, &text), errc::not_written);
  EXPECT_TRUE(contains(text, "get reads 'x', which nothing has written")) << text;
}

TEST_P(Notices, WaitingInAListenerIsRefused) {
  const asked first = all_of(on);
  errc code = errc::ok;
  const asked second =
      all_of(on, [&] { code = thrown([&] { const notice_wait blocked(first.ticket); }); });
  second.to->wait();
  EXPECT_EQ(code, errc::deadlock);
}

TEST_P(Notices, FinishInAListenerIsRefused) {
  errc code = errc::ok;
  const asked one = all_of(on, [&] { code = thrown([&] { on.finish(); }); });
  one.to->wait();
  EXPECT_EQ(code, errc::deadlock);
  EXPECT_FALSE(on.is_finished());
}

TEST_P(Notices, WaitingInABodyForItselfIsRefused) {
  errc code = errc::ok;
  std::string text;
  const untyped_data x = on.make_token("x");
  run(
      on, exec_place::host(), {x.write()},
      [&](const body_call&) {
        const asked mine = all_of(on);
        code = thrown([&] { const notice_wait blocked(mine.ticket); }, &text);
      },
      "self");
  on.finalize();
  EXPECT_EQ(code, errc::deadlock);
  EXPECT_EQ(text,
            "waiting for a future inside task 'self' would wait for that body itself; wait after "
            "that body has ended");
}

TEST_P(Notices, ADroppedContextStillTells) {
  asked one;
  {
    untyped_context other = open("host", 1, GetParam());
    run(other, {}, {}, nothing);
    one = all_of(other);
    other.abandon();
  }
  EXPECT_EQ(one.to->wait().why, nullptr);
}

TEST_P(Notices, CallsAfterTheEndAreRefused) {
  std::vector<int> source(1);
  const untyped_data x = registered(on, source);
  on.finalize();
  EXPECT_EQ(thrown([&] { static_cast<void>(all_of(on)); }), errc::usage);
  EXPECT_EQ(thrown([&] { static_cast<void>(content_of(on, x, source)); }), errc::usage);
}

TEST(Notices, FetchComesBeforeUnrelatedHostFunctions) {
  untyped_context on = open("host", 1);
  gate closed;
  for (int i = 0; i < 20; ++i)
    run(on, exec_place::host(), {}, [&](const body_call&) { closed.pass(); });
  std::vector<int> source(1, 5);
  std::vector<int> to(1);
  const untyped_data x = registered(on, source);
  content_of(on, x, to).to->wait();
  EXPECT_EQ(to[0], 5);
  closed.open();
  on.finalize();
}

TEST(Notices, TheLaterOneMayBeTheFirst) {
  untyped_context on = open("host", 2);
  gate closed;
  run(on, exec_place::device(0), {}, [&](const body_call&) { closed.pass(); });
  const asked slow = all_of(on);
  std::vector<int> source(1, 5);
  std::vector<int> to(1);
  const untyped_data x = registered(on, source);
  content_of(on, x, to).to->wait();
  EXPECT_EQ(slow.to->told(), 0);
  closed.open();
  slow.to->wait();
  on.finalize();
}

TEST(Notices, AnOpenWriterOfThisThreadIsInTheWay) {
  untyped_context on = open("host", 1);
  std::vector<int> source(1);
  const untyped_data x = registered(on, source, "x");
  untyped_task open_one(on);
  open_one.add_dep(x.rw());
  open_one.start();
  std::string text;
  EXPECT_EQ(thrown([&] { static_cast<void>(content_of(on, x, source)); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "get uses 'x', which task 1, still open in this thread")) << text;
  open_one.end();
  on.finalize();
}

TEST(Notices, TheNullMachineIsDoneAtOnce) {
  untyped_context on = open("null", 1);
  const untyped_data x = on.make_data(8);
  run(on, {}, {x.write()}, nothing);
  std::vector<double> to(1);
  EXPECT_EQ(all_of(on).to->wait().why, nullptr);
  EXPECT_EQ(content_of(on, x, to).to->wait().why, nullptr);
  on.finalize();
}

TEST(Notices, ManyThreadsAskForMany) {
  untyped_context on = open("host", 2);
  std::vector<int> source(1, 0);
  const untyped_data x = registered(on, source);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        run(on, {}, {x.rw()}, [](const body_call& call) { ++first<int>(call); });
        std::vector<int> to(1);
        content_of(on, x, to).to->wait();
        EXPECT_GT(to[0], i);
        static_cast<void>(all_of(on));
      }
    });
  }
  for (std::thread& each : threads)
    each.join();
  on.finalize();
  EXPECT_EQ(source[0], 200);
}

}  // namespace
}  // namespace millstream::test
