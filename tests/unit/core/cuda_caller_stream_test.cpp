// SPDX-License-Identifier: Apache-2.0
/// Contexts on a stream of the caller's, recorded by the caller or not, and buffers that a stream
/// of somebody else still fills. Holds for the look-alike driver and for a real one.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/core/cuda_caller.hpp"

namespace millstream::test {
namespace {

TEST_F(CudaCaller, WorkIsOrderedInTheStreamAndFinishReturnsAtOnce) {
  launch(spin_, stream_, std::uint64_t{1000});
  overwrite_all();
  untyped_context ctx = open_here();
  const untyped_data a = in_device(ctx, 0);
  const untyped_data b = in_device(ctx, 1);
  const untyped_data c = in_device(ctx, 2);
  submit_fill(ctx, a, 1);
  submit_fill(ctx, b, 2);
  submit_sum(ctx, a, b, c);
  EXPECT_EQ(ctx.fence(), stream());
  ctx.finish();
  EXPECT_EQ(ctx.stats().host_waits, 0U);
  EXPECT_EQ(value_of(2), 3U);
}

// With and without a recording of the context's own, which becomes a part of the caller's.
class CudaRecordedCaller : public CudaCaller, public testing::WithParamInterface<bool> {
 protected:
  [[nodiscard]] bool use_graph() const { return GetParam(); }
  /// What `body` does with a context on the stream is recorded.
  template <class Body>
  [[nodiscard]] abi::graph record(Body&& body) {
    CALL(cuStreamSynchronize, stream_);
    CALL(cuStreamBeginCapture, stream_, abi::capture_mode::relaxed);
    {
      untyped_context ctx = open_here(use_graph());
      body(ctx);
    }
    abi::graph recorded = nullptr;
    CALL(cuStreamEndCapture, stream_, &recorded);
    return recorded;
  }
  /// A task that fills the datum and tells the stream it had.
  void submit_noted_fill(untyped_context& on, const untyped_data& what, std::uint32_t value,
                         std::set<std::uint64_t>& streams) {
    run(on, exec_place::device(0), {{what, access_mode::write, {}, {}}},
        [&streams, fill = fill_, value](const body_call& call) {
          streams.insert(reinterpret_cast<std::uint64_t>(call.stream));
          launch(fill, stream_of(call), call.pointers[0], value, count);
        });
  }
  /// Until a context gets one of the streams, which a thread of the library's gives back, soon.
  /// What is given back last is taken first, so that contexts that had others hold on to them.
  void await_return(const std::set<std::uint64_t>& streams) {
    std::vector<untyped_context> others;
    std::set<std::uint64_t> theirs;
    const auto is_back = [&] {
      return std::any_of(theirs.begin(), theirs.end(),
                         [&](std::uint64_t each) { return streams.count(each) != 0; });
    };
    while (!is_back()) {
      others.push_back(open("cuda", 0));
      submit_noted_fill(others.back(), others.back().make_data(block_bytes), 5, theirs);
      std::this_thread::yield();
    }
    for (untyped_context& each : others)
      each.finish();
  }
  /// Three launches over spoiled values, so that a branch that was left out shows.
  template <class Look>
  void launch_often(abi::graph recorded, Look&& look) {
    fake_cuda::executable_graph ready = nullptr;
    CALL(cuGraphInstantiateWithFlags, &ready, recorded, 0);
    CALL(cuGraphDestroy, recorded);
    for (int turn = 0; turn < 3; ++turn) {
      overwrite_all();
      CALL(cuGraphLaunch, ready, stream_);
      look();
    }
    CALL(cuGraphExecDestroy, ready);
  }
};
INSTANTIATE_TEST_SUITE_P(Both, CudaRecordedCaller, testing::Bool(), [](const auto& chosen) {
  return chosen.param ? "recorded" : "immediate";
});

// The stages become nodes behind one another, with the copies of the write-back behind them.
TEST_P(CudaRecordedCaller, StagesAreInTheirOrder) {
  std::vector<std::uint32_t> values(count, 0);
  const abi::graph recorded = record([&](untyped_context& ctx) {
    const untyped_data a = in_device(ctx, 0);
    registration what;
    what.block = values.data();
    what.bytes = block_bytes;
    const untyped_data sum = ctx.register_data(what);
    submit_fill(ctx, a, 1);
    submit_sum(ctx, a, a, sum);
    EXPECT_EQ(ctx.fence(), stream());
    submit_fill(ctx, a, 10);
    EXPECT_EQ(ctx.fence(), stream());
    submit_sum(ctx, a, sum, sum);
    ctx.finish();
    EXPECT_EQ(ctx.stats().recording.stages, use_graph() ? 3U : 0U);
    EXPECT_EQ(ctx.stats().recording.instantiations, 0U);
  });
  launch_often(recorded, [&] {
    EXPECT_EQ(value_of(0), 10U);
    EXPECT_EQ(values, std::vector<std::uint32_t>(count, 12));
    values.assign(count, 0);
  });
}

// What the tasks need lives as long as what was recorded.
TEST_P(CudaRecordedCaller, TheRecordingKeepsTheBuffers) {
  auto values = std::make_shared<std::vector<std::uint32_t>>(count, 0);
  const std::weak_ptr<std::vector<std::uint32_t>> watched = values;
  const std::uint32_t* const seen = values->data();
  const abi::graph recorded = record([&](untyped_context& ctx) {
    registration what;
    what.block = values->data();
    what.bytes = block_bytes;
    what.owner = std::exchange(values, nullptr);
    const untyped_data sum = ctx.register_data(what);
    const untyped_data a = in_device(ctx, 0);
    submit_fill(ctx, a, 21);
    submit_sum(ctx, a, a, sum);
    ctx.finish();
  });
  launch_often(recorded, [&] {
    EXPECT_EQ(value_of(0), 21U);
    EXPECT_FALSE(watched.expired());
    EXPECT_EQ(seen[count - 1], 42U);
  });
  CALL(cuStreamSynchronize, stream_);
  while (!watched.expired())  // on a thread of the library's, soon
    std::this_thread::yield();
}

// Libraries keep memory for each stream, and what was recorded uses it whenever it runs.
TEST_P(CudaRecordedCaller, StreamsOfItsTasksAreNobodyElsesWhileItMayRun) {
  std::set<std::uint64_t> used;
  const abi::graph recorded = record([&](untyped_context& ctx) {
    for (int block = 0; block < 3; ++block)
      submit_noted_fill(ctx, in_device(ctx, block), 4, used);
    ctx.finish();
  });
  used.erase(stream());
  ASSERT_FALSE(used.empty());
  const auto meets_another_context = [&] {
    std::set<std::uint64_t> theirs;
    for (const bool also_recorded : {false, true}) {
      context_options options;
      options.on = machine({.name = "cuda", .devices = 0, .seed = {}});
      options.use_graph = also_recorded;
      untyped_context other(options);
      for (int i = 0; i < 16; ++i)
        submit_noted_fill(other, other.make_data(block_bytes), 5, theirs);
      other.finish();
    }
    return std::any_of(theirs.begin(), theirs.end(),
                       [&](std::uint64_t each) { return used.count(each) != 0; });
  };
  EXPECT_FALSE(meets_another_context());
  launch_often(recorded, [&] {
    EXPECT_EQ(value_of(0), 4U);
    EXPECT_FALSE(meets_another_context());
  });
  CALL(cuStreamSynchronize, stream_);
  await_return(used);
}

TEST_P(CudaRecordedCaller, StreamsOfATaskComeBackWhenTheCaptureIsThrownAway) {
  std::set<std::uint64_t> used;
  const abi::graph recorded = record([&](untyped_context& ctx) {
    submit_noted_fill(ctx, in_device(ctx, 0), 4, used);
    submit_noted_fill(ctx, in_device(ctx, 1), 4, used);
    ctx.finish();
  });
  CALL(cuGraphDestroy, recorded);
  used.erase(stream());
  ASSERT_FALSE(used.empty());
  await_return(used);
}

// What the context was given to keep goes with what was recorded.
TEST_P(CudaRecordedCaller, TheRecordingKeepsWhatTheContextEndsWith) {
  auto code = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = code;
  const abi::graph recorded = record([&](untyped_context& ctx) {
    submit_fill(ctx, in_device(ctx, 0), 8);
    ctx.finish(std::move(code));
  });
  launch_often(recorded, [&] {
    EXPECT_EQ(value_of(0), 8U);
    EXPECT_FALSE(watched.expired());
  });
  CALL(cuStreamSynchronize, stream_);
  while (!watched.expired())  // on a thread of the library's, soon
    std::this_thread::yield();
}

TEST_F(CudaCaller, WhatAContextEndsWithIsDroppedWhereNothingIsRecorded) {
  auto code = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = code;
  {
    untyped_context ctx = open("cuda", 0);
    ctx.finish(std::move(code));
    EXPECT_TRUE(watched.expired());
  }
  code = std::make_shared<int>(2);
  const std::weak_ptr<int> again = code;
  {
    untyped_context ctx = open_here();
    submit_fill(ctx, in_device(ctx, 0), 8);
    ctx.finish(std::move(code));
  }
  EXPECT_EQ(value_of(0), 8U);
  while (!again.expired())  // when the stream has passed
    std::this_thread::yield();
}

TEST_P(CudaRecordedCaller, TakesInTasksWithoutInputs) {
  const abi::graph recorded = record([&](untyped_context& ctx) {
    const untyped_data a = in_device(ctx, 0);
    const untyped_data b = in_device(ctx, 1);
    const untyped_data c = in_device(ctx, 2);
    const untyped_data scratch = ctx.make_data(block_bytes, "scratch", {});
    submit_fill(ctx, a, 1);
    submit_fill(ctx, b, 2);
    submit_fill(ctx, scratch, 4);
    submit_sum(ctx, a, b, c);
    submit_sum(ctx, c, scratch, a);
    ctx.finish();
  });
  launch_often(recorded, [&] {
    EXPECT_EQ(value_of(2), 3U);
    EXPECT_EQ(value_of(0), 7U);
    EXPECT_EQ(value_of(1), 2U);
  });
}

TEST_F(CudaCaller, WaitingOnTheHostUnderARecordingIsRefusedWithoutSpoilingIt) {
  CALL(cuStreamBeginCapture, stream_, abi::capture_mode::relaxed);
  {
    untyped_context ctx = open_here();
    const untyped_data a = in_device(ctx, 0);
    submit_fill(ctx, a, 9);
    std::vector<std::uint32_t> got(count);
    std::string text;
    EXPECT_EQ(thrown([&] { ctx.read_back(a, got.data()); }, &text), errc::usage);
    EXPECT_TRUE(contains(text, "captured")) << text;
    ctx.finish();
  }
  abi::graph recorded = nullptr;
  CALL(cuStreamEndCapture, stream_, &recorded);
  CALL(cuGraphDestroy, recorded);
}

TEST_F(CudaCaller, AHostFunctionUnderARecordingIsRefusedWithAWayOut) {
  CALL(cuStreamBeginCapture, stream_, abi::capture_mode::relaxed);
  {
    untyped_context ctx = open_here();
    const untyped_data a = in_device(ctx, 0);
    submit_fill(ctx, a, 9);
    std::string text;
    EXPECT_EQ(
        thrown([&] { run(ctx, exec_place::host(), {a.rw()}, [](const body_call&) {}); }, &text),
        errc::usage);
    EXPECT_TRUE(contains(text, "host functions cannot be a part of what the caller's stream"))
        << text;
    EXPECT_TRUE(contains(text, "submit it before the capture begins or after it has ended"));
    EXPECT_TRUE(contains(text, "cuLaunchHostFunc")) << text;
    ctx.finish();
  }
  abi::graph recorded = nullptr;
  CALL(cuStreamEndCapture, stream_, &recorded);
  CALL(cuGraphDestroy, recorded);
}

TEST_F(CudaCaller, AReadThatIsRefusedUnderARecordingIsNotRecorded) {
  CALL(cuStreamBeginCapture, stream_, abi::capture_mode::relaxed);
  {
    untyped_context ctx = open_here();
    const untyped_data a = in_device(ctx, 0);  // there is nothing to wait for but the copy
    std::vector<std::uint32_t> got(count);
    EXPECT_EQ(thrown([&] { ctx.read_back(a, got.data()); }), errc::usage);
    ctx.finish();
  }
  abi::graph recorded = nullptr;
  CALL(cuStreamEndCapture, stream_, &recorded);
  std::size_t nodes = 1;
  CALL(cuGraphGetNodes, recorded, nullptr, &nodes);
  EXPECT_EQ(nodes, 0U);
  CALL(cuGraphDestroy, recorded);
}

TEST_F(CudaCaller, AContextAfterARecordingWorksAtOnce) {
  CALL(cuStreamBeginCapture, stream_, abi::capture_mode::relaxed);
  {
    untyped_context ctx = open_here();
    const untyped_data a = in_device(ctx, 0);
    submit_fill(ctx, a, 9);
    ctx.finish();
    untyped_context other = open("cuda", 0);  // takes queues that are not recorded
    const untyped_data scratch = other.make_data(block_bytes, "scratch", {});
    submit_fill(other, scratch, 6);
    EXPECT_EQ(content<std::uint32_t>(other, scratch), 6U);
    other.finish();
  }
  abi::graph recorded = nullptr;
  CALL(cuStreamEndCapture, stream_, &recorded);
  CALL(cuGraphDestroy, recorded);
  untyped_context after = open("cuda", 0);
  const untyped_data a = in_device(after, 0);
  submit_fill(after, a, 5);
  after.finish();
  EXPECT_EQ(value_of(0), 5U);
}

TEST_F(CudaCaller, AProducerIsWaitedForOnTheDevice) {
  for (int round = 0; round < 100; ++round) {
    launch(spin_, stream_, std::uint64_t{1000});
    launch(fill_, stream_, blocks_[0], std::uint32_t{4}, count);
    untyped_context ctx = open("cuda", 0);
    const untyped_data filled = in_device(ctx, 0, stream());
    const untyped_data twice = in_device(ctx, 1);
    submit_sum(ctx, filled, filled, twice);
    EXPECT_EQ(ctx.stats().host_waits, 0U);
    ctx.finish();
    ASSERT_EQ(value_of(1), 8U) << "round " << round;
    overwrite_all();
  }
}

TEST_F(CudaCaller, AProducerThatIsRecordedIsRefused) {
  CALL(cuStreamBeginCapture, stream_, abi::capture_mode::relaxed);
  untyped_context ctx = open("cuda", 0);
  std::string text;
  EXPECT_EQ(thrown([&] { static_cast<void>(in_device(ctx, 0, stream())); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "being captured")) << text;
  ctx.finish();
  abi::graph recorded = nullptr;
  CALL(cuStreamEndCapture, stream_, &recorded);
  CALL(cuGraphDestroy, recorded);
}

}  // namespace
}  // namespace millstream::test
