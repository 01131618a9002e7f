// SPDX-License-Identifier: Apache-2.0
/// What the nodes of recorded stages see of the user's buffers, which are ordinary memory: there a
/// driver carries out the copies of a graph while it is launched, so that they would miss what host
/// nodes write.
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/cuda/engine_kernels.hpp"
#include "tests/unit/cuda/engine_node.hpp"

namespace millstream::test {
namespace {

using words = std::vector<std::uint32_t>;

/// The device lets others run for a while.
void take_long(const body_call& call) {
  const on_device_0 here;
  constexpr std::uint64_t turns = 1000;
  launch(device_0().kernel("test_spin"), static_cast<abi::stream>(call.stream), turns);
}

class EngineNodeMemory : public testing::Test {
 protected:
  void TearDown() override {
    if (!on_.is_finished()) on_.finish();
  }
  /// Somewhere a host node has run.
  void use_a_host_node() { run_declared(on_, {other_.write()}, nothing); }
  void write(const untyped_data& to, std::uint32_t value) {
    run(on_, device, {to.write()}, fill_words(value));
  }
  static void add_one(const body_call& call) { first<std::uint32_t>(call) += 1; }
  /// Twice what the device sees of it.
  [[nodiscard]] untyped_data twice(const untyped_data& of) {
    untyped_data made = on_.make_data(word);
    run(on_, device, {made.write(), of.read()}, doubled_into);
    return made;
  }

  untyped_context on_ = open_cuda(nullptr, /*recorded=*/true);
  const untyped_data other_ = on_.make_data(word);
  words buffer_ = words{1};
};

TEST_F(EngineNodeMemory, ABufferThatIsRegisteredAgainIsReadByTheDeviceAsItWasWrittenBack) {
  use_a_host_node();
  untyped_data x = registered(on_, buffer_, "x");
  write(x, 5);
  x = {};
  x = registered(on_, buffer_, "x again");
  const untyped_data seen = twice(x);
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
  EXPECT_EQ(content<std::uint32_t>(on_, seen), 10U);
  on_.finalize();
  EXPECT_EQ(buffer_, words{5});
}

TEST_F(EngineNodeMemory, ABufferThatIsRegisteredAgainBeforeTheFirstHostNodeIsUsedByThat) {
  untyped_data x = registered(on_, buffer_, "x");
  write(x, 5);
  x = {};  // no host node is known when this is recorded
  x = registered(on_, buffer_, "x again");
  std::uint32_t seen = 0;
  run_declared(on_, {x.rw()}, [&seen](const body_call& call) {
    seen = first<std::uint32_t>(call);
    add_one(call);
  });
  const untyped_data later = twice(x);
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
  EXPECT_EQ(content<std::uint32_t>(on_, later), 12U);
  on_.finalize();
  EXPECT_EQ(seen, 5U);
  EXPECT_EQ(buffer_, words{6});
}

// The write-back is the work of a host node of the stage before, in which no task is one.
TEST_F(EngineNodeMemory, ABufferThatIsRegisteredAgainInTheNextStageIsReadAsItWasWrittenBack) {
  use_a_host_node();
  static_cast<void>(on_.fence());
  for (std::uint32_t i = 1; i < 5; ++i) {
    untyped_data x = registered(on_, buffer_, "x");
    run(on_, device, {x.write()}, [i](const body_call& call) {
      take_long(call);
      fill_words(i)(call);
    });
    x = {};
    static_cast<void>(on_.fence());
    x = registered(on_, buffer_, "x again");
    const untyped_data seen = twice(x);
    EXPECT_EQ(content<std::uint32_t>(on_, seen), 2 * i);
  }
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
  on_.finalize();
  EXPECT_EQ(buffer_, words{4});
}

TEST_F(EngineNodeMemory, LaunchesOfAGraphThatIsGivenOutFollowEachOther) {
  const untyped_data x = registered(on_, buffer_, "x");
  run(on_, device, {x.rw()}, doubled);
  run_declared(on_, {x.rw()}, add_one);
  run(on_, device, {x.rw()}, doubled);
  recorded_graph graph = on_.to_graph();
  own_stream stream;
  for (int i = 0; i < 3; ++i)
    static_cast<void>(graph.launch(stream.number()));
  stream.synchronize();
  EXPECT_EQ(buffer_, words{106});  // x = 2 (2 x + 1), three times
}

TEST_F(EngineNodeMemory, LaunchesOnStreamsOfOursFollowEachOther) {
  const untyped_data x = registered(on_, buffer_, "x");
  run(on_, device, {x.rw()}, doubled);
  run_declared(on_, {x.rw()}, add_one);
  recorded_graph graph = on_.to_graph();
  std::uint64_t last = 0;
  for (int i = 0; i < 3; ++i)
    last = graph.launch();
  synchronize(last);
  EXPECT_EQ(buffer_, words{15});
}

/// A graph that doubles the word of the buffer on the device, and adds one on the host.
recorded_graph given(words& buffer) {
  untyped_context on = open_cuda(nullptr, /*recorded=*/true);
  const untyped_data x = registered(on, buffer, "x");
  run(on, device, {x.rw()}, doubled);
  run_declared(on, {x.rw()}, [](const body_call& call) { first<std::uint32_t>(call) += 1; });
  return on.to_graph();
}

void add(untyped_context& to, const recorded_graph& graph, const untyped_data& uses) {
  const std::vector<task_dep> deps{uses.rw(data_place::host())};
  task_spec what;
  what.symbol = "graph";
  what.place = device;
  what.deps = deps;
  to.add_graph(what, graph);
}

TEST_F(EngineNodeMemory, AGraphThatIsTakenInSeesWhatWasWrittenToItsBuffers) {
  for (const bool recorded : {false, true}) {
    buffer_ = {1};
    const recorded_graph graph = given(buffer_);
    untyped_context on = open_cuda(nullptr, recorded);
    const untyped_data x = registered(on, buffer_, "x");
    run_declared(on, {x.rw()}, add_one);  // 2
    add(on, graph, x);                    // 5
    add(on, graph, x);                    // 11
    run(on, device, {x.rw()}, doubled);   // 22
    add(on, graph, x);                    // 45
    EXPECT_EQ(content<std::uint32_t>(on, x), 45U) << recorded;
    on.finalize();
    EXPECT_EQ(buffer_, words{45}) << recorded;
  }
}

struct overlap_case {
  bool beside_host_nodes;
  bool page_locked;
};

/// Data with words in common.
class EngineOverlap : public testing::TestWithParam<overlap_case> {
 protected:
  void TearDown() override {
    if (cuda_driver().is_fake) cuda_driver().control.seed(0);
  }
  [[nodiscard]] std::uint32_t* buffer() {
    return GetParam().page_locked ? locked_.at(0) : ordinary_.data();
  }
  [[nodiscard]] untyped_data part(untyped_context& on, std::size_t from, std::size_t count) {
    registration what;
    what.block = buffer() + from;
    what.bytes = count * word;
    what.allow_overlap = true;
    return on.register_data(what);
  }

 private:
  words ordinary_ = words(4);
  word_block locked_{4};
};

// What they have in common goes by way of the buffer.
TEST_P(EngineOverlap, WhatOneWritesIsReadInTheOther) {
  for (std::uint64_t seed = 0; seed < (cuda_driver().is_fake ? 16 : 1); ++seed) {
    if (cuda_driver().is_fake) cuda_driver().control.seed(seed);
    untyped_context on = open_cuda(nullptr, /*recorded=*/true);
    for (std::uint32_t i = 0; i < 4; ++i)
      buffer()[i] = i + 1;
    const untyped_data other = on.make_data(word);
    if (GetParam().beside_host_nodes) run_declared(on, {other.write()}, nothing);
    const untyped_data low = part(on, 0, 3);
    const untyped_data high = part(on, 2, 2);
    const untyped_data seen = on.make_data(word);
    for (std::uint32_t i = 0; i < 3; ++i) {
      run(on, device, {low.write()}, fill_words(10 + i, 3));
      run(on, device, {seen.write(), high.read()}, doubled_into);
      run(on, device, {high.rw()}, doubled);
      run(on, device, {low.read(), other.write()}, nothing);
    }
    EXPECT_EQ(content<std::uint32_t>(on, seen), 24U) << "seed " << seed;
    on.finalize();
    EXPECT_EQ(words(buffer(), buffer() + 4), (words{12, 12, 24, 4})) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, EngineOverlap,
                         testing::Values(overlap_case{false, false}, overlap_case{false, true},
                                         overlap_case{true, false}, overlap_case{true, true}));

}  // namespace
}  // namespace millstream::test
