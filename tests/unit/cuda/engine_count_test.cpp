// SPDX-License-Identifier: Apache-2.0
/// What tasks on the CUDA machine cost in steady state: driver calls and heap allocations, exactly.
#include <map>
#include <vector>

#include <millstream/kernel.hpp>

#include "tests/unit/core/heap_meter.hpp"
#include "tests/unit/cuda/engine_kernels.hpp"
#include "tests/unit/cuda/engine_test.hpp"

namespace millstream::test {
namespace {

/// Calls of the driver by name.
using calls = std::map<std::string, std::uint64_t>;

calls calls_of(const std::function<void()>& body) {
  calls all;
  for (const std::string& name : fake_cuda_test::calls_of_this_thread(body))
    ++all[name];
  return all;
}

struct cost {
  calls driver;
  std::uint64_t heap = 0;
};

/// Makes the call often enough for pools and tables to have grown, then counts `times` calls.
cost steady_cost(std::uint64_t times, const std::function<void()>& call) {
  for (int i = 0; i < 2000; ++i)
    call();
  cost found;
  const std::uint64_t before = heap_allocations();
  for (std::uint64_t i = 0; i < times; ++i)
    call();
  if (!pools_are_off) found.heap = heap_allocations() - before;
  found.driver = calls_of([&] {
    for (std::uint64_t i = 0; i < times; ++i)
      call();
  });
  return found;
}

const exec_place device = exec_place::device(0);

class EngineCount : public testing::Test {
 protected:
  void SetUp() override { MILLSTREAM_LOOK_ALIKE_ONLY(); }
  void TearDown() override {
    if (on_) on_->finalize();
  }
  untyped_context& on() {
    if (!on_) on_.emplace(open("cuda", 1));
    return *on_;
  }

 private:
  std::optional<untyped_context> on_;
};

TEST_F(EngineCount, AChainMakesNoCallAndAllocatesNothing) {
  const untyped_data x = on().make_data(64);
  run(on(), device, {x.write()}, nothing);
  const std::vector<task_dep> deps{x.rw()};
  const cost one = steady_cost(1000, [&] { run(on(), device, deps, nothing); });
  EXPECT_EQ(one.driver, calls{});
  EXPECT_EQ(one.heap, 0U);
  EXPECT_EQ(on().stats().records, 0U);
  EXPECT_EQ(on().stats().waits, 0U);
}

TEST_F(EngineCount, AChainThatIsStartedAndEndedMakesNoCall) {
  const untyped_data x = on().make_data(64);
  run(on(), device, {x.write()}, nothing);
  const cost one = steady_cost(1000, [&] {
    untyped_task task(on());
    task.set_place(device);
    task.add_dep(x.rw());
    task.start();
    task.end();
  });
  EXPECT_EQ(one.driver, calls{});
}

TEST_F(EngineCount, AChainOfKernelsMakesTheirLaunchesOnly) {
  const untyped_data x = on().make_data(64);
  run(on(), device, {x.write()}, nothing);
  const std::vector<task_dep> deps{x.rw()};
  const abi::function fill = device_0().kernel("test_fill_u32");
  const on_device_0 here;
  const cost one = steady_cost(1000, [&] {
    run(on(), device, deps, [fill](const body_call& call) {
      launch(fill, static_cast<abi::stream>(call.stream),
             reinterpret_cast<abi::device_pointer>(call.pointers[0]), std::uint32_t{1},
             std::uint64_t{16});
    });
  });
  EXPECT_EQ(one.driver, (calls{{"cuLaunchKernel", 1000}}));
}

/// A program of ours, a kernel of somebody else's, and the handle of one.
std::vector<device_kernel> all_kinds() {
  const abi::function native = device_0().kernel("test_fill_u32");
  const auto handle = reinterpret_cast<std::uint64_t>(native);
  const program own(machine({.name = "cuda", .devices = 1, .seed = {}}),
                    fake_cuda_test::kernel_text());
  return {own.kernel("test_fill_u32"), device_kernel(native), device_kernel::by_handle(handle)};
}

TEST_F(EngineCount, ADescribedKernelIsOneLaunch) {
  const untyped_data x = on().make_data(64);
  const std::vector<task_dep> deps{x.write()};
  const on_device_0 here;
  const std::vector<device_kernel> kinds = all_kinds();
  for (const device_kernel& each : kinds) {
    const cost one = steady_cost(1000, [&] { describe_fill(on(), deps, each); });
    calls seen = one.driver;
    EXPECT_EQ(seen.erase("cuCtxGetCurrent"), 1U);  // touches memory of the thread only
    // What a handle names is looked at, since it may come again.
    const bool by_handle = &each == &kinds.back();
    calls wanted{{"cuLaunchKernel", 1000}};
    if (by_handle) wanted["cuFuncGetParamInfo"] = 1000;
    EXPECT_EQ(seen, wanted);
  }
}

TEST_F(EngineCount, ARecordedKernelIsOneNode) {
  context_options options;
  options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
  options.use_graph = true;
  untyped_context recorded(options);
  const untyped_data x = recorded.make_data(64);
  const std::vector<task_dep> deps{x.write()};
  const on_device_0 here;
  const std::vector<device_kernel> kinds = all_kinds();
  for (const device_kernel& each : kinds) {
    const auto record = [&] {
      for (int i = 0; i < 1000; ++i)
        describe_fill(recorded, deps, each);
    };
    record();
    static_cast<void>(recorded.fence());
    calls seen = calls_of(record);
    EXPECT_EQ(seen.erase("cuCtxGetCurrent"), 1U);  // touches memory of the thread only
    calls wanted{{"cuGraphCreate", 1}, {"cuGraphAddKernelNode", 1000}};
    if (&each == &kinds.back()) wanted["cuFuncGetParamInfo"] = 1000;
    EXPECT_EQ(seen, wanted);
    static_cast<void>(recorded.fence());
  }
  recorded.finalize();
}

TEST_F(EngineCount, WithoutAPlaceOneOfManyDevicesIsAskedForByOneCall) {
  const std::vector<task_dep> deps{on().make_token().rw()};
  const cost one = steady_cost(1000, [&] { run(on(), {}, deps, nothing); });
  EXPECT_EQ(one.driver, calls{});
  EXPECT_EQ(one.heap, 0U);
  untyped_context both = open("cuda", 2);
  const std::vector<task_dep> other{both.make_token().rw()};
  const cost many = steady_cost(1000, [&] { run(both, {}, other, nothing); });
  EXPECT_EQ(many.driver, (calls{{"cuCtxGetDevice", 1000}}));
  both.finalize();
}

TEST_F(EngineCount, ReadersOfOneDatumMakeNoCall) {
  std::vector<int> buffer(16);
  const untyped_data x = registered(on(), buffer);
  const std::vector<task_dep> deps{x.read()};
  const cost one = steady_cost(1000, [&] { run(on(), device, deps, nothing); });
  EXPECT_EQ(one.driver, calls{});
  EXPECT_EQ(one.heap, 0U);
  EXPECT_EQ(on().stats().copies, 1U);
  on().finalize();  // the copy reads the buffer
}

TEST_F(EngineCount, ATemporaryFromAWarmPoolMakesNoCallAndOneAllocation) {
  const untyped_data order = on().make_token();
  const cost one = steady_cost(1000, [&] {
    const untyped_data fresh = on().make_data(4096);
    run(on(), device, {fresh.write(), order.rw()}, nothing);
  });
  EXPECT_EQ(one.driver, calls{});
  EXPECT_LE(one.heap, 1000U);
  EXPECT_EQ(on().stats().allocations, 1U);
}

// Two tasks of each step go to each of the four streams, and each begins with a mark, so that those
// who come after the task before do not come after this one (engine_order_test.cpp).
TEST_F(EngineCount, AStencilTakesOneRecordATaskAndElevenEighthsOfAWait) {
  constexpr std::size_t width = 8;
  constexpr std::size_t steps = 12;
  std::array<std::vector<untyped_data>, 2> columns;
  for (auto& each : columns) {
    for (std::size_t at = 0; at < width; ++at) {
      each.push_back(on().make_token());
      run(on(), device, {each.back().write()}, nothing);
    }
  }
  const auto pass = [&] {
    for (std::size_t step = 0; step < steps; ++step) {
      const auto& from = columns[step % 2];
      for (std::size_t at = 0; at < width; ++at) {
        std::vector<task_dep> deps{columns[(step + 1) % 2][at].write(), from[at].read()};
        if (at > 0) deps.push_back(from[at - 1].read());
        if (at + 1 < width) deps.push_back(from[at + 1].read());
        run(on(), device, deps, nothing);
      }
    }
  };
  const on_device_0 here;
  for (int i = 0; i < 10; ++i)
    pass();
  calls seen = calls_of(pass);
  seen.erase("cuCtxGetCurrent");  // touches memory of the thread only
  EXPECT_EQ(seen, (calls{{"cuEventRecord", steps * width},
                         {"cuStreamWaitEvent", steps * width * 11 / 8}}));
  EXPECT_EQ(on().stats().queues, 4U);
}

class EngineForkJoin : public testing::TestWithParam<int> {};

TEST_P(EngineForkJoin, OneRecordPerTailAndOneWaitPerForeignQueue) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const int width = GetParam();
  untyped_context on = open("cuda", 1);
  const untyped_data first = on.make_token();
  std::vector<untyped_data> ends;
  for (int i = 0; i < width; ++i)
    ends.push_back(on.make_token());
  const auto round = [&] {
    run(on, device, {first.rw()}, nothing);
    std::vector<task_dep> last{first.rw()};
    for (const untyped_data& end : ends) {
      run(on, device, {first.read(), end.write()}, nothing);
      last.push_back(end.read());
    }
    run(on, device, last, nothing);
  };
  const on_device_0 here;
  for (int i = 0; i < 100; ++i)
    round();
  const context_stats before = on.stats();
  calls seen = calls_of(round);
  seen.erase("cuCtxGetCurrent");  // touches memory of the thread only
  const std::uint64_t records = on.stats().records - before.records;
  const std::uint64_t waits = on.stats().waits - before.waits;
  const auto others = static_cast<std::uint64_t>(width - 1);
  EXPECT_LE(records, 1 + others);  // tails: the first task and each branch elsewhere
  EXPECT_LE(waits, 2 * others);
  calls wanted;
  if (records != 0) wanted["cuEventRecord"] = records;
  if (waits != 0) wanted["cuStreamWaitEvent"] = waits;
  EXPECT_EQ(seen, wanted);
  on.finalize();
}
INSTANTIATE_TEST_SUITE_P(Widths, EngineForkJoin, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace millstream::test
