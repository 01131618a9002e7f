// SPDX-License-Identifier: Apache-2.0
/// Contexts on a stream of the caller's, recorded by the caller or not, and buffers that a stream
/// of somebody else still fills. Holds for the look-alike driver and for a real one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/fake_cuda/driver.hpp"

namespace millstream::test {
namespace {

namespace abi = backend::cuda::abi;
using fake_cuda_test::the_driver;

constexpr std::uint64_t count = 1000;
constexpr std::size_t block_bytes = count * sizeof(std::uint32_t);

void ok(abi::result answer, const char* what) {
  if (answer == abi::result::success) return;
  throw std::runtime_error(std::string(what) + " answered " +
                           std::to_string(static_cast<std::uint32_t>(answer)));
}
#define CALL(name, ...) ok(the_driver().call.name(__VA_ARGS__), #name)

/// The caller's side: a context, a stream, kernels and blocks of device memory.
class CudaCaller : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (the_driver().call.cuInit(0) != abi::result::success ||
        the_driver().call.cuDeviceGetCount(&devices) != abi::result::success || devices == 0) {
      GTEST_SKIP() << "there is no device";
    }
    CALL(cuDevicePrimaryCtxRetain, &here_, 0);
    CALL(cuCtxSetCurrent, here_);
    CALL(cuStreamCreate, &stream_, abi::stream_flags::non_blocking);
    std::ifstream file(std::string(MILLSTREAM_SOURCE_DIR) + "/tests/fakes/cuda_driver/kernels.ptx");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    CALL(cuModuleLoadDataEx, &kernels_, text.c_str(), 0, nullptr, nullptr);
    CALL(cuModuleGetFunction, &fill_, kernels_, "test_fill_u32");
    CALL(cuModuleGetFunction, &add_, kernels_, "test_add_u32");
    CALL(cuModuleGetFunction, &spin_, kernels_, "test_spin");
    for (abi::device_pointer& each : blocks_)
      CALL(cuMemAlloc, &each, block_bytes);
  }
  void TearDown() override {
    if (here_ == nullptr) return;
    CALL(cuStreamSynchronize, stream_);
    for (const abi::device_pointer each : blocks_)
      CALL(cuMemFree, each);
    CALL(cuModuleUnload, kernels_);
    CALL(cuStreamDestroy, stream_);
    abi::context now = nullptr;
    CALL(cuCtxGetCurrent, &now);
    EXPECT_EQ(now, here_);
    CALL(cuCtxSetCurrent, nullptr);
    CALL(cuDevicePrimaryCtxRelease, 0);
  }

  [[nodiscard]] std::uint64_t stream() const { return reinterpret_cast<std::uint64_t>(stream_); }
  [[nodiscard]] untyped_context open_here(bool use_graph = false) const {
    context_options options;
    options.on = machine({.name = "cuda", .devices = 0, .seed = {}});
    options.stream = stream();
    options.use_graph = use_graph;
    return untyped_context(std::move(options));
  }
  untyped_data in_device(untyped_context& on, int block,
                         std::optional<std::uint64_t> producer = {}) {
    registration what;
    what.block = reinterpret_cast<void*>(blocks_[block]);
    what.bytes = block_bytes;
    what.place = data_place::device(0);
    what.producer = producer;
    return on.register_data(what);
  }
  static abi::stream stream_of(const body_call& call) {
    return static_cast<abi::stream>(call.stream);
  }
  template <class... Arguments>
  static void launch(abi::function what, abi::stream on, Arguments... arguments) {
    void* list[] = {&arguments...};
    CALL(cuLaunchKernel, what, 1, 1, 1, 32, 1, 1, 0, on, list, nullptr);
  }
  void submit_fill(untyped_context& on, const untyped_data& what, std::uint32_t value) {
    run(on, exec_place::device(0), {{what, access_mode::write, {}, {}}},
        [fill = fill_, value](const body_call& call) {
          launch(fill, stream_of(call), call.pointers[0], value, count);
        });
  }
  void submit_sum(untyped_context& on, const untyped_data& a, const untyped_data& b,
                  const untyped_data& sum) {
    run(on, exec_place::device(0),
        {{a, access_mode::read, {}, {}},
         {b, access_mode::read, {}, {}},
         {sum, access_mode::write, {}, {}}},
        [add = add_](const body_call& call) {
          launch(add, stream_of(call), call.pointers[2], call.pointers[0], call.pointers[1], count);
        });
  }
  /// The value of all elements, or a number that says which differ.
  std::uint32_t value_of(int block) {
    std::vector<std::uint32_t> got(count);
    CALL(cuStreamSynchronize, stream_);
    CALL(cuMemcpyDtoHAsync, got.data(), blocks_[block], block_bytes, stream_);
    CALL(cuStreamSynchronize, stream_);
    for (const std::uint32_t each : got) {
      if (each != got[0]) return 0xBAD;
    }
    return got[0];
  }
  void overwrite_all() {
    for (const abi::device_pointer each : blocks_)
      CALL(cuMemsetD32Async, each, 0xFFFFFFFFU, count, stream_);
  }

  abi::context here_ = nullptr;
  abi::stream stream_ = nullptr;
  abi::module kernels_ = nullptr;
  abi::function fill_ = nullptr;
  abi::function add_ = nullptr;
  abi::function spin_ = nullptr;
  abi::device_pointer blocks_[3] = {};
};

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
