// SPDX-License-Identifier: Apache-2.0
/// What contexts leave behind: nothing. And they leave the caller's current context alone.
#include <filesystem>
#include <iterator>
#include <map>
#include <stdexcept>

#include "tests/unit/cuda/engine_test.hpp"

namespace millstream::test {
namespace {

const exec_place device = exec_place::device(0);

/// Everything the driver and the system count, but events: how many of those are pooled depends on
/// how many were in use at once.
std::map<std::string, std::int64_t> what_is_alive() {
  std::map<std::string, std::int64_t> all;
  const auto& control = cuda_driver().control;
  for (const char* kind :
       {"context", "stream", "device_memory", "host_memory", "managed_memory", "registration",
        "pool", "range", "physical", "module", "graph", "executable_graph"}) {
    all[kind] = control.live(kind);
  }
  all["bytes"] = static_cast<std::int64_t>(control.used_bytes(0));
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  all["descriptors"] = std::distance(begin(descriptors), end(descriptors));
  return all;
}

constexpr std::int64_t most_events = 64;

std::int64_t events_alive() {
  return cuda_driver().control.live("event");
}

std::string last_fault() {
  char text[256] = "";
  cuda_driver().control.last_fault(text, sizeof text);
  return text;
}

/// A context that does a little of everything; `failing`: with a task that fails.
void one_context(bool failing) {
  std::vector<std::uint32_t> buffer(16, 1);
  untyped_context on = open("cuda", 1);
  {
    const untyped_data x = registered(on, buffer);
    const untyped_data y = on.make_data(64);
    run(on, device, {y.write()}, fill_words(2, 16));
    run(on, device, {x.rw(), y.read()}, fill_words(3, 16));
    run(on, device, {x.rw()}, nothing);
    run(on, exec_place::host(), {y.rw()}, [](const body_call&) {}, {}, task_kind::host_launch);
    if (failing) {
      run(on, device, {y.rw()}, [](const body_call&) { throw std::runtime_error("boom"); });
    } else {
      EXPECT_EQ(content<std::uint32_t>(on, y), 2U);
    }
  }
  on.finish();
  EXPECT_EQ(buffer[15], 3U);
}

/// Leaves as many streams in the pool as a context ever uses: how many a task finds idle depends on
/// what has ended by then.
void use_all_streams() {
  untyped_context on = open("cuda", 1);
  for (int i = 0; i < 16; ++i) {
    const untyped_data y = on.make_data(64);
    run(on, device, {y.write()}, fill_words(2, 16));
  }
  on.finish();
}

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

TEST(EngineLeak, TenThousandContextsLeaveNothingBehind) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  use_all_streams();
  // Now and then one that fails takes one more.
  for (int i = 0; i < 1'000; ++i)
    one_context(i % 2 == 1);
  const auto before = what_is_alive();
  for (int i = 0; i < 10'000; ++i)
    one_context(i % 10 == 9);
  EXPECT_EQ(what_is_alive(), before);
  EXPECT_LE(events_alive(), most_events);
}

TEST(EngineLeak, AbandonedContextsLeaveNothingBehind) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const auto abandon = [] {
    untyped_context on = open("cuda", 1);
    const untyped_data y = on.make_data(64);
    run(on, device, {y.write()}, fill_words(2, 16));
    on.abandon();
  };
  use_all_streams();
  for (int i = 0; i < 50; ++i) {  // until there are as many streams as are ever used at once
    abandon();
    one_context(false);
  }
  const auto before = what_is_alive();
  for (int i = 0; i < 1'000; ++i)
    abandon();
  one_context(false);
  EXPECT_EQ(what_is_alive(), before);
  EXPECT_LE(events_alive(), most_events);
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
