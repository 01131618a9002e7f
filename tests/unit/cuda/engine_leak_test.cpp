// SPDX-License-Identifier: Apache-2.0
/// What contexts leave behind: nothing. And they leave the caller's current context alone.
#include <functional>

#include "tests/unit/cuda/engine_kernels.hpp"
#include "tests/unit/cuda/engine_leaks.hpp"

namespace millstream::test {
namespace {

TEST(EngineLeak, BodyMayLetGoOfItsContext) {
  for (const bool has_data : {false, true}) {
    auto on = std::make_unique<untyped_context>(open("cuda", 1));
    const std::weak_ptr<core::context> state = on->state();
    std::vector<task_dep> deps;
    if (has_data) deps.push_back(on->make_token().rw());
    bool was_there = false;
    run(*on, device, deps, [&](const body_call&) {
      on.reset();
      was_there = !state.expired();
    });
    EXPECT_TRUE(was_there);
    deps.clear();
    EXPECT_TRUE(state.expired());
  }
}

struct many_contexts {
  bool use_graph;
  bool on_stream;
  int times;
};
class EngineLeaks : public testing::TestWithParam<many_contexts> {};

TEST_P(EngineLeaks, ManyContextsLeaveNothingBehind) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const own_stream callers;
  const way_to_open how{GetParam().use_graph, GetParam().on_stream ? &callers : nullptr};
  wait_for_the_device();
  const auto before = what_is_alive();
  use_all_streams();
  // Now and then one that fails takes one more.
  for (int i = 0; i < GetParam().times / 10; ++i)
    one_context(i % 2 == 1, how);
  const auto wanted = wanted_after(before);
  for (int i = 0; i < GetParam().times; ++i)
    one_context(i % 10 == 9, how);
  wait_for_the_device();
  await([&] { return what_is_alive() == wanted; });
  EXPECT_EQ(what_is_alive(), wanted);
  EXPECT_LE(events_alive(), most_events);
}

INSTANTIATE_TEST_SUITE_P(, EngineLeaks,
                         testing::Values(many_contexts{false, false, 10'000},
                                         many_contexts{false, true, 3'000},
                                         many_contexts{true, false, 3'000},
                                         many_contexts{true, true, 3'000}),
                         [](const auto& of) {
                           return std::string(of.param.use_graph ? "Recorded" : "Immediate") +
                                  (of.param.on_stream ? "OnACallersStream" : "");
                         });

/// What adopts a stream of the caller's and leaves it again.
struct visit {
  const char* name;
  std::function<void(const own_stream& callers)> make;
};
std::vector<visit> all_visits() {
  static std::vector<std::uint32_t> buffer(16, 1);
  static const std::uint64_t ours = [] {
    untyped_context on = open(way_to_open{});
    const std::uint64_t queue = on.fence();
    on.finish();
    return queue;
  }();
  static auto* const given = [] {  // kept until the process ends
    untyped_context on = open(way_to_open{.use_graph = true});
    describe_fill(on, {registered(on, buffer).write()},
                  device_kernel(device_0().kernel("test_fill_u32")));
    return new recorded_graph(on.to_graph());
  }();
  const auto open_and_finish = [](bool use_graph, const own_stream& callers) {
    untyped_context on = open(way_to_open{use_graph, &callers});
    on.finish();
  };
  return {
      {"context", [=](const own_stream& callers) { open_and_finish(false, callers); }},
      {"recorded context", [=](const own_stream& callers) { open_and_finish(true, callers); }},
      {"wait for a stream of ours", [](const own_stream&) { synchronize(ours); }},
      {"wait for a stream", [](const own_stream& callers) { synchronize(callers.number()); }},
      {"launch of a graph", [](const own_stream& callers) { given->launch(callers.number()); }},
      {"producer and order",
       [](const own_stream& callers) {
         untyped_context on = open(way_to_open{});
         registration what;
         what.block = buffer.data();
         what.bytes = 64;
         what.producer = callers.number();
         untyped_data x = on.register_data(what);
         run(on, device, {x.rw()},
             [&](const body_call& call) { on.order(callers.number(), call.queue); });
         x = {};
         on.finish();
       }},
      {"kernel of a program",
       [](const own_stream& callers) {
         static const auto* const fill =
             new device_kernel(program(machine({.name = "cuda", .devices = 1, .seed = {}}),
                                       fake_cuda_test::kernel_text())
                                   .kernel("test_fill_u32"));
         untyped_context on = open(way_to_open{.on = &callers});
         describe_fill(on, {on.make_data(64).write()}, *fill);
         on.finish();
       }},
      {"copy through staging",
       [](const own_stream& callers) {
         untyped_context on = open(way_to_open{.on = &callers});
         untyped_data x = registered(on, buffer);
         run(on, device, {x.rw()}, fill_words(2, 16));
         x = {};
         on.finish();
       }},
  };
}

// Pools take a few more now and then.
constexpr std::int64_t few_events = 16;

TEST(EngineLeak, VisitsOfACallersStreamKeepNoEvent) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const own_stream callers;
  for (const visit& each : all_visits()) {
    const auto turn = [&] {
      each.make(callers);
      callers.synchronize();
    };
    for (int i = 0; i < 20; ++i)
      turn();
    const std::int64_t before = events_alive();
    for (int i = 0; i < 1'000; ++i)
      turn();
    EXPECT_LE(events_alive(), before + few_events) << each.name;
  }
}

// Those in flight are kept, and no more than twice as many.
TEST(EngineLeak, EventsOfVisitsInFlightAreBounded) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const own_stream callers;
  const std::vector<visit> all = all_visits();
  const visit& staged = all.back();
  const std::int64_t before = events_alive();
  for (int turn = 0; turn < 20; ++turn) {
    for (int i = 0; i < 50; ++i)
      staged.make(callers);
    callers.synchronize();
    EXPECT_LE(events_alive(), before + 100 + few_events);
  }
}

/// All kinds of calls of a context, with a look after each.
template <class Look>
void every_call(const Look& look) {
  std::vector<std::uint32_t> buffer(16, 1);
  const auto attempt = [&](const char* name, const auto& call) {
    try {
      call();
    } catch (const error&) {
      // Planned failures of the driver.
    }
    look(name);
  };
  untyped_context on = open("cuda", 1);
  look("open");
  untyped_data x;
  untyped_data y;
  attempt("register_data", [&] { x = registered(on, buffer); });
  attempt("make_data", [&] { y = on.make_data(64); });
  if (!x || !y) return;
  const std::uint32_t seven = 7;
  attempt("fill", [&] { on.fill(y.write(), std::as_bytes(std::span(&seven, 1)), device); });
  attempt("submit", [&] { run(on, device, {x.rw(), y.read()}, nothing); });
  attempt("host_launch",
          [&] { run(on, exec_place::host(), {x.rw()}, nothing, {}, task_kind::host_launch); });
  attempt("start and end", [&] {
    untyped_task task(on);
    task.set_place(device);
    task.add_dep(x.rw());
    task.start();
    look("start");
    task.end();
  });
  attempt("start on the host", [&] {
    untyped_task task(on);
    task.set_place(exec_place::host());
    task.add_dep(x.rw());
    task.start();
    look("start on the host");
    task.end();
  });
  attempt("read_back", [&] { (void)content<std::uint32_t>(on, x); });
  attempt("fence", [&] { synchronize(on.fence()); });
  attempt("drop", [&] { y = {}; });
  attempt("finish", [&] { on.finish(); });
}

class EngineContext : public testing::Test {
 protected:
  static void expect_untouched() {
    const abi::context before = current_context();
    every_call([before](const char* name) { EXPECT_EQ(current_context(), before) << name; });
  }
};

TEST_F(EngineContext, NoneStaysNone) {
  ASSERT_EQ(current_context(), nullptr);
  expect_untouched();
}

TEST_F(EngineContext, ThatOfTheDeviceStays) {
  const on_device_0 here;
  expect_untouched();
}

TEST_F(EngineContext, AForeignOneStays) {
  must(cuda_driver().call.cuInit(0));
  abi::context own = nullptr;
  must(cuda_driver().call.cuCtxCreate(&own, 0, 0));
  expect_untouched();
  must(cuda_driver().call.cuCtxDestroy(own));
}

TEST_F(EngineContext, EveryFailureLeavesItAlone) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const on_device_0 here;
  expect_untouched();
  const auto& control = cuda_driver().control;
  int fired = 0;
  // One that waits would wait for ever, since nothing else is queued that could end.
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters)                                \
  if (std::string(#name) != "cuCtxGetCurrent" && std::string(#name) != "cuCtxPopCurrent") { \
    SCOPED_TRACE(#name);                                                                    \
    const std::uint64_t before = control.faults_fired();                                    \
    control.fail(#name, 1, static_cast<int>(abi::result::not_permitted), 0);                \
    expect_untouched();                                                                     \
    EXPECT_EQ(last_fault(), "");                                                            \
    control.fail(nullptr, 0, 0, 0);                                                         \
    if (control.faults_fired() != before) ++fired;                                          \
  }
#include "backend/cuda/driver.inc"
#undef MILLSTREAM_CUDA_ROW
  EXPECT_GT(fired, 5);
}

}  // namespace
}  // namespace millstream::test
