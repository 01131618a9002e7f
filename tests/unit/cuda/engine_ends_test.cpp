// SPDX-License-Identifier: Apache-2.0
/// Bodies that are recorded while another thread's is, and how they end.
#include "tests/unit/cuda/engine_host.hpp"

namespace millstream::test {
namespace {

/// A recorded context in which another thread has the body of a task open until `go_on`.
class EngineEnds : public EngineHost {
 protected:
  void SetUp() override {
    MILLSTREAM_LOOK_ALIKE_ONLY();
    EngineHost::SetUp();
    for (const untyped_data& each : {x_, y_})
      run(graph_, device, {each.write()}, fill_words(1));
    graph_.drain();
    other_ = std::thread([this] {
      untyped_task slow = start(x_, "slow");
      is_open_.open();
      go_on_.hold();
      ends_ = true;
      slow.end();
    });
    is_open_.hold();
  }
  void TearDown() override {
    go_on();
    on_.finalize();
    if (!cuda_driver().is_fake) return;
    set_blocking_hooks({});
    EngineHost::TearDown();
  }
  void go_on() {
    go_on_.open();
    if (other_.joinable()) other_.join();
  }
  [[nodiscard]] untyped_task start(const untyped_data& on, std::string_view name) {
    untyped_task made(graph_);
    made.set_place(device);
    made.set_symbol(name);
    made.add_dep(on.rw());
    made.start();
    return made;
  }
  /// Since nothing waited for it, the other thread's body is as it was.
  void expect_still_open() const { EXPECT_FALSE(ends_.load()); }
  [[nodiscard]] std::string poison_of(const untyped_data& what) {
    std::string text;
    EXPECT_EQ(thrown([&] { (void)content<std::uint32_t>(graph_, what); }, &text), errc::poisoned);
    return text;
  }

  untyped_context graph_ = open_cuda(nullptr, /*recorded=*/true);
  const untyped_data x_ = graph_.make_data(word);
  const untyped_data y_ = graph_.make_data(word);
  gate is_open_;
  gate go_on_;
  std::atomic<bool> ends_{false};
  std::thread other_;
};

TEST_F(EngineEnds, OneThatFailedWaitsForNobody) {
  untyped_task task = start(y_, "fails");
  doubled(task.call());
  task.fail(std::make_exception_ptr(std::runtime_error("boom")));
  expect_still_open();
  go_on();
  EXPECT_TRUE(contains(poison_of(y_), "task 'fails'"));
  EXPECT_EQ(content<std::uint32_t>(graph_, x_), 1U);
  EXPECT_EQ(graph_.stats().recording.child_graphs, 0U);
  graph_.finalize();
}

TEST_F(EngineEnds, OneThatIsDroppedWaitsForNobody) {
  {
    untyped_task task = start(y_, "dropped");
    doubled(task.call());
  }
  expect_still_open();
  go_on();
  EXPECT_TRUE(contains(poison_of(y_), "dropped before end()"));
  graph_.finalize();
}

TEST_F(EngineEnds, OneThatIsHandedOverAndThrowsWaitsForNobody) {
  run(
      graph_, device, {y_.rw()}, [](const body_call&) { throw std::runtime_error("boom"); },
      "throws");
  expect_still_open();
  go_on();
  EXPECT_TRUE(contains(poison_of(y_), "task 'throws'"));
  EXPECT_EQ(thrown([&] { graph_.finalize(); }), errc::task_failed);
}

// The nodes of what failed are in no stage, and its place in the order is kept.
TEST_F(EngineEnds, WhatComesAfterOneThatFailedHealsItsData) {
  {
    untyped_task task = start(y_, "fails");
    doubled(task.call());
    task.fail(std::make_exception_ptr(std::runtime_error("boom")));
  }
  go_on();
  run(graph_, device, {y_.write()}, fill_words(5));
  run(graph_, device, {y_.rw()}, doubled);
  EXPECT_EQ(content<std::uint32_t>(graph_, y_), 10U);
  EXPECT_EQ(graph_.stats().recording.nodes, 2U + 2U);
  graph_.finalize();
}

// Their streams are free at once.
TEST_F(EngineEnds, ManyThatFailTakeOneStream) {
  std::set<std::uint64_t> streams;
  for (int i = 0; i < 20; ++i) {
    const untyped_data fresh = graph_.make_data(word);
    untyped_task task(graph_);
    task.set_place(device);
    task.add_dep(fresh.write());
    task.start();
    streams.insert(task.call().queue);
    task.fail(std::make_exception_ptr(std::runtime_error("boom")));
  }
  EXPECT_EQ(streams.size(), 1U);
  go_on();
  graph_.finalize();
}

std::atomic<bool> g_is_interrupted{false};

void interrupt_all() {
  set_blocking_hooks({.enter = nullptr, .leave = nullptr, .interrupted = []() noexcept {
                        return g_is_interrupted.load();
                      }});
  g_is_interrupted = true;
}

// The user wants out: nothing of the task runs, and it has ended.
TEST_F(EngineEnds, AnEndThatIsInterruptedIsToldOnce) {
  untyped_task task = start(y_, "beside");
  doubled(task.call());
  interrupt_all();
  EXPECT_EQ(thrown([&] { task.end(); }), errc::interrupted);
  g_is_interrupted = false;
  expect_still_open();
  EXPECT_TRUE(task.is_ended());
  EXPECT_EQ(thrown([&] { task.end(); }), errc::usage);
  go_on();
  const std::string text = poison_of(y_);
  EXPECT_TRUE(contains(text, "task 'beside'") && contains(text, "was interrupted")) << text;
  EXPECT_EQ(content<std::uint32_t>(graph_, x_), 1U);
  EXPECT_EQ(graph_.stats().recording.child_graphs, 0U);
  EXPECT_EQ(graph_.stats().failed, 1U);
  graph_.finalize();
}

TEST_F(EngineEnds, AFunctionWhoseEndIsInterruptedToo) {
  interrupt_all();
  EXPECT_EQ(thrown([&] { run(graph_, device, {y_.rw()}, doubled, "beside"); }), errc::interrupted);
  g_is_interrupted = false;
  expect_still_open();
  go_on();
  EXPECT_TRUE(contains(poison_of(y_), "was interrupted"));
  run(graph_, device, {y_.write()}, fill_words(3));
  EXPECT_EQ(content<std::uint32_t>(graph_, y_), 3U);
  graph_.finalize();
}

// Another thread that has the task, too, while its end waits.
TEST_F(EngineEnds, ATaskEndsOnceWhileItsEndWaits) {
  untyped_task task = start(y_, "beside");
  doubled(task.call());
  std::atomic<bool> waits{false};
  static std::atomic<bool>* told = nullptr;
  told = &waits;
  set_blocking_hooks({.enter = []() noexcept -> void* {
                        *told = true;
                        return nullptr;
                      },
                      .leave = nullptr,
                      .interrupted = nullptr});
  std::thread ending([&] { task.end(); });
  while (!waits)
    std::this_thread::yield();
  EXPECT_EQ(thrown([&] { task.end(); }), errc::usage);
  task.fail(nullptr);
  go_on();
  ending.join();
  EXPECT_EQ(content<std::uint32_t>(graph_, y_), 2U);
  EXPECT_EQ(graph_.stats().failed, 0U);
  graph_.finalize();
}

// Its stream is recorded: what others queue now runs before it.
TEST_F(EngineEnds, NoStreamOfOthersComesAfterABody) {
  const own_stream stream;
  untyped_task task = start(y_, "recorded");
  const std::uint64_t own = task.call().queue;
  std::string text;
  EXPECT_EQ(thrown([&] { graph_.order(stream.number(), own); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "task 'recorded'") && contains(text, "is being recorded")) << text;
  graph_.order(own, own);
  doubled(task.call());
  go_on();
  task.end();
  EXPECT_EQ(thrown([&] { graph_.order(stream.number(), own); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "belongs to no task")) << text;
  EXPECT_EQ(content<std::uint32_t>(graph_, y_), 2U);
  graph_.finalize();
}

}  // namespace
}  // namespace millstream::test
