// SPDX-License-Identifier: Apache-2.0
/// What a recorded stage asks of the driver, call by call.
#include <algorithm>
#include <string>
#include <vector>

#include <millstream/kernel.hpp>

#include "tests/unit/core/drawn.hpp"
#include "tests/unit/cuda/engine_host.hpp"
#include "tests/unit/cuda/engine_kernels.hpp"

namespace millstream::test {
namespace {

using names = std::vector<std::string>;

/// Looks at the current context touch memory of the thread only, so they are left out.
names calls_of(const std::function<void()>& body) {
  names all = fake_cuda_test::calls_of_this_thread(body);
  std::erase(all, "cuCtxGetCurrent");
  return all;
}

names joined(std::initializer_list<names> parts) {
  names all;
  for (const names& each : parts)
    all.insert(all.end(), each.begin(), each.end());
  return all;
}

/// A call that somebody's capture in another mode than ours must not refuse.
names relaxed(const std::string& call) {
  return {"cuThreadExchangeStreamCaptureMode", call, "cuThreadExchangeStreamCaptureMode"};
}

class RecordedStage : public testing::Test {
 protected:
  void SetUp() override { MILLSTREAM_LOOK_ALIKE_ONLY(); }
  void TearDown() override {
    if (on_) on_->finalize();
  }
  untyped_context& on() {
    if (!on_) {
      context_options options;
      options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
      options.use_graph = true;
      on_.emplace(options);
    }
    return *on_;
  }
  /// The calls of a stage, the first or one that had the same before.
  names first(const std::function<void()>& record) {
    return calls_of([&] { stage(record); });
  }
  names again(const std::function<void()>& record) {
    for (int i = 0; i < 3; ++i)
      stage(record);
    return first(record);
  }
  /// Described kernels, one behind the other.
  void describe(int count, const launch_config& how = {.grid = 1, .block = 32}) {
    for (int i = 0; i < count; ++i)
      describe_fill(on(), {x().write()}, fill_, how);
  }
  /// Bodies of one launch each.
  void capture(int count) {
    for (int i = 0; i < count; ++i) {
      run(on(), exec_place::device(0), {x().write()}, [this](const body_call& call) {
        launch(native_, static_cast<abi::stream>(call.stream),
               reinterpret_cast<abi::device_pointer>(call.pointers[0]), std::uint32_t{1},
               std::uint64_t{16});
      });
    }
  }
  void capture_one(bool as_fill);

 private:
  void stage(const std::function<void()>& record) {
    record();
    static_cast<void>(on().fence());
  }
  untyped_data& x() {
    if (!x_) x_ = on().make_data(64);
    return *x_;
  }

  std::optional<untyped_context> on_;
  std::optional<untyped_data> x_;
  const on_device_0 here_;
  const abi::function native_ = device_0().kernel("test_fill_u32");
  const device_kernel fill_ = device_kernel(native_);
};

names end_of_stage() {
  return joined({relaxed("cuGraphExecUpdate"), {"cuGraphLaunch"}, relaxed("cuGraphDestroy")});
}

// What the stage before was made of goes when this one has been launched.
TEST_F(RecordedStage, OfDescribedKernelsAsksForNothingThatGrowsWithIt) {
  EXPECT_EQ(again([&] { describe(3); }),
            joined({{"cuGraphCreate"}, names(3, "cuGraphAddKernelNode"), end_of_stage()}));
}

TEST_F(RecordedStage, OfDescribedKernelsIsNotCountedWhenItIsInstantiatedEither) {
  static_cast<void>(again([&] { describe(1); }));
  EXPECT_EQ(first([&] { describe(2); }), joined({{"cuGraphCreate"},
                                                 names(2, "cuGraphAddKernelNode"),
                                                 relaxed("cuGraphInstantiateWithParams"),
                                                 {"cuGraphLaunch"},
                                                 relaxed("cuGraphDestroy")}));
}

TEST_F(RecordedStage, OfBodiesIsCountedOnce) {
  EXPECT_EQ(
      again([&] { capture(2); }),
      joined({{"cuGraphCreate", "cuStreamBeginCaptureToGraph", "cuLaunchKernel",
               "cuStreamGetCaptureInfo", "cuStreamUpdateCaptureDependencies", "cuLaunchKernel",
               "cuStreamGetCaptureInfo", "cuStreamEndCapture", "cuGraphGetNodes"},
              end_of_stage()}));
}

// The nodes are looked at once, for memory of their own.
TEST_F(RecordedStage, OfBodiesIsCountedOnceWhenItIsInstantiated) {
  static_cast<void>(again([&] { capture(1); }));
  EXPECT_EQ(
      first([&] { capture(2); }),
      joined({{"cuGraphCreate", "cuStreamBeginCaptureToGraph", "cuLaunchKernel",
               "cuStreamGetCaptureInfo", "cuStreamUpdateCaptureDependencies", "cuLaunchKernel",
               "cuStreamGetCaptureInfo", "cuStreamEndCapture", "cuGraphGetNodes"},
              {"cuGraphGetNodes", "cuGraphNodeGetType", "cuGraphNodeGetType"},
              relaxed("cuGraphInstantiateWithParams"),
              {"cuGraphLaunch"},
              relaxed("cuGraphDestroy")}));
}

TEST_F(RecordedStage, ProgrammaticKernelsHaveEdgesOfTheirOwn) {
  const launch_config early{.grid = 1, .block = 32, .programmatic = true};
  EXPECT_EQ(again([&] { describe(3, early); }), joined({{"cuGraphCreate", "cuGraphAddKernelNode"},
                                                        names(2, "cuGraphAddNode"),
                                                        end_of_stage()}));
}

// What an update would be refused for is known before.
TEST_F(RecordedStage, OfAnotherFormIsAnotherShape) {
  const std::vector<launch_config> forms{
      {.grid = 2, .block = 32},
      {.grid = 2, .block = 32, .programmatic = true},
      {.grid = 2, .block = 32, .cooperative = true},
      {.grid = 2, .block = 32, .cluster = 2},
  };
  static_cast<void>(first([&] { describe(1); }));
  const recording_stats before = on().stats().recording;
  for (int turn = 0; turn < 3; ++turn) {
    for (const launch_config& each : forms)
      static_cast<void>(first([&] { describe(2, each); }));
  }
  const recording_stats after = on().stats().recording;
  EXPECT_EQ(after.instantiations - before.instantiations, 4U);
  EXPECT_EQ(after.misses.new_shape - before.misses.new_shape, 4U);
  EXPECT_EQ(after.hits - before.hits, 8U);
  EXPECT_EQ(after.updates - before.updates, 8U);
  EXPECT_EQ(after.refused_updates, 0U);
}

/// A body of one node, which is a fill or a kernel.
void RecordedStage::capture_one(bool as_fill) {
  run(on(), exec_place::device(0), {x().write()}, [this, as_fill](const body_call& call) {
    const auto stream = static_cast<abi::stream>(call.stream);
    const auto to = reinterpret_cast<abi::device_pointer>(call.pointers[0]);
    if (as_fill) {
      cuda_driver().call.cuMemsetD32Async(to, 2, 16, stream);
    } else {
      launch(native_, stream, to, std::uint32_t{1}, std::uint64_t{16});
    }
  });
}

// Until the driver is asked they look alike. After a few turns it is known which one comes next.
TEST_F(RecordedStage, OfBodiesThatTakeTurnsIsKeptForEach) {
  const auto turns = [&](int count) {
    for (int i = 0; i < count; ++i)
      static_cast<void>(first([&] { capture_one(i % 2 == 0); }));
    return on().stats().recording;
  };
  const recording_stats early = turns(6);
  EXPECT_EQ(early.instantiations, 2U);
  EXPECT_EQ(early.misses.new_shape, 1U);
  EXPECT_EQ(early.misses.refused, 1U);
  EXPECT_EQ(early.hits, 4U);
  EXPECT_EQ(early.refused_updates, 3U);
  const recording_stats late = turns(40);
  EXPECT_EQ(late.instantiations, 2U);
  EXPECT_EQ(late.hits, 44U);
  EXPECT_EQ(late.updates, 44U);
  EXPECT_EQ(late.refused_updates, 3U);
}

TEST_F(RecordedStage, OfBodiesInALongerPatternIsRefusedOnlyAtFirst) {
  const std::vector<bool> pattern{true, true, false, false};
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (const bool as_fill : pattern)
        static_cast<void>(first([&] { capture_one(as_fill); }));
    }
    return on().stats().recording;
  };
  const recording_stats early = rounds(3);
  const recording_stats late = rounds(20);
  EXPECT_EQ(late.instantiations, 2U);
  EXPECT_EQ(late.refused_updates, early.refused_updates);
  EXPECT_EQ(late.hits, 23U * 4U - 2U);
}

// What is added behind a count of the driver's is counted here.
TEST_F(RecordedStage, OfBothIsCountedOnce) {
  const recording_stats before = on().stats().recording;
  const names calls = again([&] {
    describe(2);
    capture(2);
    describe(3);
  });
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuGraphGetNodes"), 1);
  EXPECT_EQ(on().stats().recording.nodes - before.nodes, 4U * 7U);
}

// Others of their stream do not come after what they came after.
TEST(RecordedBodies, ThatIssueNothingHandOnNoOrderOfTheirStream) {
  constexpr std::array pattern{std::byte{1}};
  untyped_context on = open_cuda(nullptr, /*recorded=*/true);
  std::vector<untyped_data> all;
  for (int i = 0; i < 60; ++i) {
    all.push_back(on.make_data(word));
    on.fill(all.back().write(), pattern, device);
  }
  for (int i = 0; i < 40; ++i)
    run(on, device, {all[static_cast<std::size_t>(i)].rw()}, nothing);
  for (std::size_t i = 40; i < 60; ++i)
    run(on, device, {all[i].rw()}, doubled);
  run(on, device, {all[0].rw()}, doubled);
  const std::uint32_t seen = content<std::uint32_t>(on, all[0]);
  EXPECT_EQ(seen, 0x02020202U);
  // Each kernel comes after its fill, and all but the first eight after one of their stream.
  EXPECT_EQ(on.stats().recording.nodes, 81U);
  EXPECT_EQ(edges(on), 21U + 13U);
  on.finalize();
}

}  // namespace
}  // namespace millstream::test
