// SPDX-License-Identifier: Apache-2.0
/// Drivers that lack a function: each optional one is hidden in turn, and what a program does then
/// has the right values or is an error that says what is missing.
#include <array>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <millstream/kernel.hpp>

#include "tests/unit/cuda/engine_leaks.hpp"

namespace millstream::test {
namespace {

constexpr std::uint64_t words = 16;

/// Machines are opened once for their options, so each gets a seed of its own: then it looks the
/// driver up as that is now.
machine machine_of_now() {
  static std::uint64_t next = 1'000'000;
  return machine({.name = "cuda", .devices = 1, .seed = ++next});
}

class EngineAbsent : public testing::Test {
 protected:
  void SetUp() override { MILLSTREAM_LOOK_ALIKE_ONLY(); }
  void TearDown() override {
    if (!cuda_driver().is_fake) return;
    cuda_driver().control.hide(nullptr, 0);
    cuda_driver().control.pose(newest);
    EXPECT_EQ(last_fault(), "");
  }
  static void open_machine() { on_.emplace(machine_of_now()); }

  static untyped_context open_one(bool use_graph, const own_stream* stream = nullptr) {
    context_options options;
    options.on = *on_;
    options.use_graph = use_graph;
    if (stream != nullptr) options.stream = stream->number();
    return untyped_context(std::move(options));
  }
  static constexpr int newest = 13000;

 private:
  static inline std::optional<machine> on_;
};

/// A body that adds the second dependency to the first.
void add_words(const body_call& call) {
  const on_device_0 here;
  const auto at = [&](std::size_t i) {
    return reinterpret_cast<abi::device_pointer>(call.pointers[i]);
  };
  launch(device_0().kernel("test_add_u32"), static_cast<abi::stream>(call.stream), at(0), at(0),
         at(1), words);
}

void describe(untyped_context& on, const untyped_data& what, const launch_config& how) {
  untyped_task task(on);
  task.set_kind(task_kind::cuda_kernel);
  task.set_place(device);
  task.add_dep(what.write());
  task.start();
  void* const to = task.pointer(0);
  const std::uint32_t value = 4;
  const std::array<kernel_argument, 3> arguments{
      kernel_argument{static_cast<const void*>(&to), sizeof to, alignof(void*)},
      kernel_argument{&value, sizeof value, alignof(std::uint32_t)},
      kernel_argument{&words, sizeof words, alignof(std::uint64_t)}};
  const device_kernel fill(device_0().kernel("test_fill_u32"));
  task.launch({&fill, how, arguments, nullptr});
  task.end();
}

/// 4 by a described kernel, then twice x = x + y of 3: 10.
void submit_all(untyped_context& on, const untyped_data& x, const untyped_data& y) {
  const std::uint32_t three = 3;
  describe(on, x, {.grid = 1, .block = 32});
  on.fill(y.write(), std::as_bytes(std::span(&three, 1)), device);
  run(on, device, {x.rw(), y.read()}, add_words);
  run(on, device, {x.rw(), y.read()}, add_words);
}

struct trial {
  const char* name;
  std::function<void()> run;
};

class EngineWithout : public EngineAbsent {
 protected:
  static void compute(bool use_graph) {
    std::vector<std::uint32_t> buffer(words, 0);
    untyped_context on = open_one(use_graph);
    const untyped_data x = registered(on, buffer);
    const untyped_data y = on.make_data(64);
    submit_all(on, x, y);
    EXPECT_EQ(content<std::uint32_t>(on, x), 10U);
    run(
        on, exec_place::host(), {x.rw()},
        [](const body_call& call) { first<std::uint32_t>(call) += 1; }, {}, task_kind::host_launch);
    run(on, device, {x.rw(), y.read()}, add_words);
    on.finalize();
    EXPECT_EQ(buffer[0], 14U);
  }
  static void compute_on_a_stream(bool use_graph) {
    const own_stream callers;
    std::vector<std::uint32_t> buffer(words, 0);
    untyped_context on = open_one(use_graph, &callers);
    {
      const untyped_data x = registered(on, buffer);
      submit_all(on, x, on.make_data(64));
    }
    on.finalize();
    callers.synchronize();
    EXPECT_EQ(buffer[0], 10U);
  }
  static void take_part_in_a_capture(bool use_graph) {
    const own_stream callers;
    const on_device_0 here;
    const auto& api = cuda_driver().call;
    abi::device_pointer block = 0;
    must(api.cuMemAlloc(&block, words * 4));
    must(api.cuStreamBeginCapture(callers.raw(), abi::capture_mode::relaxed));
    std::exception_ptr refused;
    try {
      untyped_context on = open_one(use_graph, &callers);
      const untyped_data x = in_device(on, block);
      submit_all(on, x, on.make_data(64));
      on.finalize();
    } catch (const error&) {
      refused = std::current_exception();
    }
    abi::graph captured = nullptr;
    must(api.cuStreamEndCapture(callers.raw(), &captured));
    if (!refused) {
      fake_cuda::executable_graph ready = nullptr;
      must(api.cuGraphInstantiateWithFlags(&ready, captured, 0));
      must(api.cuGraphLaunch(ready, callers.raw()));
      EXPECT_EQ(word_at(block, callers), 10U);
      must(api.cuGraphExecDestroy(ready));
    }
    must(api.cuGraphDestroy(captured));
    must(api.cuMemFree(block));
    if (refused) std::rethrow_exception(refused);
  }
  static void give_a_graph(bool with_bodies) {
    std::vector<std::uint32_t> buffer(words, 0);
    untyped_context on = open_one(true);
    {
      const untyped_data x = registered(on, buffer);
      if (with_bodies) {
        submit_all(on, x, on.make_data(64));
      } else {
        describe(on, x, {.grid = 1, .block = 32});
      }
    }
    recorded_graph given;
    try {
      given = on.to_graph();
    } catch (const error&) {
      on.finalize();
      throw;
    }
    const own_stream callers;
    given.launch(callers.number());
    callers.synchronize();
    EXPECT_EQ(buffer[0], with_bodies ? 10U : 4U);
    buffer[0] = 0;
    for (const bool use_graph : {false, true}) {
      untyped_context again = open_one(use_graph);
      task_spec what;
      what.place = device;
      again.add_graph(what, given);
      again.finalize();
      EXPECT_EQ(buffer[0], with_bodies ? 10U : 4U);
    }
  }
  static void launch_with_attributes(bool use_graph) {
    untyped_context on = open_one(use_graph);
    const untyped_data x = on.make_data(64);
    run(on, device, {x.write()}, fill_words(1, words));
    describe(on, x, {.grid = 2, .block = 32, .cluster = 2, .cooperative = true});
    EXPECT_EQ(content<std::uint32_t>(on, x), 4U);
    on.finalize();
  }

  static untyped_data in_device(untyped_context& on, abi::device_pointer block) {
    registration what;
    what.block = reinterpret_cast<void*>(block);
    what.bytes = words * 4;
    what.place = data_place::device(0);
    return on.register_data(what);
  }
  static std::uint32_t word_at(abi::device_pointer block, const own_stream& in) {
    std::uint32_t word = 0;
    must(cuda_driver().call.cuMemcpyDtoHAsync(&word, block, sizeof word, in.raw()));
    in.synchronize();
    return word;
  }

  static std::vector<trial> all_trials() {
    std::vector<trial> all;
    for (const bool use_graph : {false, true}) {
      const char* const kind = use_graph ? "recorded" : "immediate";
      const auto add = [&](const char* name, void (*what)(bool)) {
        all.push_back({name, [what, use_graph, kind] {
                         SCOPED_TRACE(kind);
                         what(use_graph);
                       }});
      };
      add("compute", compute);
      add("on a stream", compute_on_a_stream);
      add("in a capture", take_part_in_a_capture);
      add("attributes", launch_with_attributes);
    }
    all.push_back({"kernels given as a graph", [] { give_a_graph(false); }});
    all.push_back({"bodies given as a graph", [] { give_a_graph(true); }});
    return all;
  }

  /// What is missing is a capability, or the function itself; or the way out is named.
  static void expect_says_what_is_missing(const error& refused, const std::string& hidden) {
    const std::string text = refused.what();
    if (refused.code() == errc::usage) {
      EXPECT_TRUE(contains(text, "cuda_kernel")) << text;
      return;
    }
    EXPECT_EQ(refused.code(), errc::unsupported) << text;
    EXPECT_TRUE(contains(text, "the capability") || contains(text, "has no graphs") ||
                contains(text, hidden))
        << text;
  }
  /// How many were refused.
  static int run_all(const std::string& hidden) {
    SCOPED_TRACE(hidden);
    open_machine();
    int refused = 0;
    for (const trial& each : all_trials()) {
      SCOPED_TRACE(each.name);
      try {
        each.run();
      } catch (const error& broken) {
        expect_says_what_is_missing(broken, hidden);
        ++refused;
      }
      EXPECT_EQ(last_fault(), "");
    }
    return refused;
  }
};

TEST_F(EngineWithout, NothingAllIsThere) {
  EXPECT_EQ(run_all("nothing"), 0);
}

TEST_F(EngineWithout, AnyOptionalFunctionNothingBreaks) {
  int less = 0;
  std::map<std::string, int> refused;
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters) \
  if (std::string(#need) == "optional") {                    \
    cuda_driver().control.hide(#name, 1);                    \
    less += refused[#name] = run_all(#name);                 \
    cuda_driver().control.hide(nullptr, 0);                  \
  }
#include "backend/cuda/driver.inc"
#undef MILLSTREAM_CUDA_ROW
  EXPECT_EQ(refused.at("cuStreamWaitValue32"), 0);
  // What needs a capture: bodies in a graph that is given out, and captures of others.
  for (const char* name : {"cuStreamGetCaptureInfo", "cuStreamBeginCaptureToGraph",
                           "cuStreamEndCapture", "cuStreamUpdateCaptureDependencies"})
    EXPECT_EQ(refused.at(name), 3) << name;
  EXPECT_EQ(refused.at("cuLaunchKernelEx"), 1);
  EXPECT_GT(less, 20);
}

TEST_F(EngineWithout, AnyVersionNothingBreaks) {
  for (const int version : {12000, 12010, 12020, 12030, 12040}) {
    cuda_driver().control.pose(version);
    EXPECT_EQ(run_all(std::to_string(version)), version < 12030 ? 3 : 0) << version;
  }
}

// As on the host machine: what was recorded is launched first, and the body runs on its results.
TEST_F(EngineAbsent, ABodyThatCannotBeCapturedEndsTheStage) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    cuda_driver().control.seed(seed);
    cuda_driver().control.pose(12020);
    open_machine();
    untyped_context on = open_one(true);
    const untyped_data x = on.make_data(64);
    const untyped_data y = on.make_data(64);
    describe(on, y, {.grid = 1, .block = 32});  // in a stage
    run(on, device, {x.write()}, fill_words(3, words));
    EXPECT_EQ(on.stats().recording.stage_breaks, 0U);
    run(on, device, {x.rw(), y.read()}, add_words);
    EXPECT_EQ(on.stats().recording.stage_breaks, 1U);
    describe(on, y, {.grid = 1, .block = 32});
    run(on, device, {x.rw(), y.read()}, add_words);
    EXPECT_EQ(on.stats().recording.stage_breaks, 2U);
    EXPECT_EQ(content<std::uint32_t>(on, x), 11U);
    on.finalize();
  }
  cuda_driver().control.seed(0);
}

}  // namespace
}  // namespace millstream::test
