// SPDX-License-Identifier: Apache-2.0
/// Host functions that are declared not to use the device: nodes of recorded stages.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/context.hpp"

#include "tests/unit/core/heap_meter.hpp"
#include "tests/unit/cuda/engine_host.hpp"
#include "tests/unit/cuda/engine_kernels.hpp"
#include "tests/unit/cuda/engine_node.hpp"

namespace millstream::test {
namespace {

/// Something that a function holds: notes each end, and whether that was on a thread that may call
/// the driver. `told` is set after that, for a thread that has nothing else to wait for.
struct held {
  explicit held(std::vector<bool>& ends, std::atomic<bool>* told = nullptr)
      : ends_(ends), told_(told) {}
  ~held() {
    ends_.push_back(may_call_the_driver());
    if (told_ != nullptr) told_->store(true);
  }
  held(const held&) = delete;
  held& operator=(const held&) = delete;

 private:
  std::vector<bool>& ends_;
  std::atomic<bool>* const told_;
};

/// Tells nobody.
class silent final : public notice {
 public:
  void ended(const notice_outcome& /*how*/) noexcept override {}
};

class EngineNode : public testing::Test {
 protected:
  void TearDown() override {
    if (!on_.is_finished()) on_.finish();
  }
  /// A device task that writes 7 to `to` after it has read `from`.
  void derive(const untyped_data& from, const untyped_data& to) {
    run(on_, device, {to.write(), from.read()}, fill_words(7), "derived");
  }
  untyped_context on_ = open_cuda(nullptr, /*recorded=*/true);
};

TEST_F(EngineNode, IsOneNodeAndSeesWhatCameBefore) {
  const untyped_data x = on_.make_data(word);
  std::uint32_t seen = 0;
  std::thread::id thread;
  bool may_call = true;
  run(on_, device, {x.write()}, fill_words(3));
  run_declared(on_, {x.rw()}, [&](const body_call& call) {
    seen = first<std::uint32_t>(call);
    first<std::uint32_t>(call) = 4;
    thread = std::this_thread::get_id();
    may_call = may_call_the_driver();
    EXPECT_EQ(call.device, -1);
    EXPECT_EQ(call.stream, nullptr);
    EXPECT_NE(call.queue, 0U);
  });
  run(on_, device, {x.rw()}, doubled);
  EXPECT_EQ(content<std::uint32_t>(on_, x), 8U);
  EXPECT_EQ(seen, 3U);
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_FALSE(may_call);
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
  EXPECT_EQ(counts(on_).stages, 1U);
  EXPECT_EQ(counts(on_).nodes, 5U);  // fill, to the host, the function, to the device, add
  on_.finalize();
}

TEST_F(EngineNode, TheSameShapeAgainIsAnUpdate) {
  const untyped_data x = on_.make_data(word);
  std::vector<std::uint32_t> seen;
  for (std::uint32_t i = 0; i < 6; ++i) {
    run(on_, device, {x.write()}, fill_words(i));
    run_declared(on_, {x.read()},
                 [&](const body_call& call) { seen.push_back(first<std::uint32_t>(call)); });
    static_cast<void>(on_.fence());
  }
  on_.finalize();
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
  EXPECT_EQ(counts(on_).stages, 6U);
  EXPECT_EQ(counts(on_).nodes, 18U);
  EXPECT_EQ(counts(on_).instantiations, 1U);
  EXPECT_EQ(counts(on_).updates, 5U);
}

TEST_F(EngineNode, WithoutTheDeclarationTheStageIsClosed) {
  const untyped_data x = on_.make_data(word);
  run(on_, device, {x.write()}, fill_words(3));
  run(on_, exec_place::host(), {x.read()}, nothing, {}, task_kind::host_launch);
  on_.finalize();
  EXPECT_EQ(counts(on_).stage_breaks, 1U);
}

TEST_F(EngineNode, AnImmediateContextRunsItAsAnyOther) {
  untyped_context on = open_cuda(nullptr, /*recorded=*/false);
  const untyped_data x = on.make_data(word);
  run(on, device, {x.write()}, fill_words(3));
  errc inside = errc::usage;
  run_declared(on, {x.rw()}, [&](const body_call& call) {
    first<std::uint32_t>(call) += 1;
    inside = thrown([&] { static_cast<void>(on.make_data(8)); });
  });
  EXPECT_EQ(content<std::uint32_t>(on, x), 4U);
  on.finalize();
  EXPECT_EQ(inside, errc::ok);
}

TEST_F(EngineNode, OnADeviceTheDeclarationIsRefused) {
  const untyped_data x = on_.make_data(word);
  std::string text;
  EXPECT_EQ(thrown([&] { run_declared(on_, {x.write()}, nothing, "there", device); }, &text),
            errc::invalid_value);
  EXPECT_TRUE(contains(text, "task 'there' is declared not to use the device")) << text;
  EXPECT_EQ(on_.stats().tasks, 0U);
}

// What comes behind it on the device runs all the same, but nobody gets to see that.
TEST_F(EngineNode, AFailurePoisonsWhatComesOfItAndLeavesTheBuffersAlone) {
  std::vector<std::uint32_t> first_buffer{1};
  std::vector<std::uint32_t> second_buffer{2};
  const untyped_data from = on_.make_data(word);
  const untyped_data dropped = registered(on_, first_buffer, "dropped");
  untyped_data kept = registered(on_, second_buffer, "kept");
  run_declared(
      on_, {from.write()}, [](const body_call&) { throw std::runtime_error("boom"); }, "bad");
  derive(from, dropped);
  derive(from, kept);
  kept = {};  // written back when its stage has ended, if at all
  bool ran = false;
  run_declared(on_, {dropped.read(), from.read()}, [&](const body_call&) { ran = true; });
  std::string text;
  EXPECT_EQ(thrown([&] { static_cast<void>(content<std::uint32_t>(on_, dropped)); }, &text),
            errc::poisoned);
  EXPECT_TRUE(contains(text, "task 'bad'")) << text;
  on_.finish();
  const std::vector<failure> failures = on_.take_failures();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].task, "task 'bad'");
  EXPECT_EQ(first_buffer[0], 1U);
  EXPECT_EQ(second_buffer[0], 2U);
  EXPECT_FALSE(ran);
}

// The stage is closed before such content is copied to where it would be seen.
TEST_F(EngineNode, NoNodeBringsWhatMayBePoisonedToABuffer) {
  std::vector<std::uint32_t> buffer{1};
  const untyped_data from = on_.make_data(word);
  const untyped_data to = registered(on_, buffer, "to");
  bool ran = false;
  run_declared(on_, {from.write()}, [](const body_call&) { throw std::runtime_error("boom"); });
  derive(from, to);
  run_declared(on_, {to.read()}, [&](const body_call&) { ran = true; });
  EXPECT_EQ(counts(on_).stage_breaks, 1U);
  on_.finish();
  EXPECT_EQ(on_.take_failures().size(), 1U);
  EXPECT_EQ(buffer[0], 1U);
  EXPECT_FALSE(ran);
}

TEST_F(EngineNode, ContentThatNoHostNodeHadToDoWithIsCopiedInTheStage) {
  std::vector<std::uint32_t> buffer{1};
  const untyped_data other = on_.make_data(word);
  const untyped_data x = registered(on_, buffer, "x");
  std::vector<std::uint32_t> seen;
  for (std::uint32_t i = 0; i < 3; ++i) {
    run_declared(on_, {other.write()}, nothing);
    run(on_, device, {x.write()}, fill_words(i + 5));
    run_declared(on_, {x.read()},
                 [&](const body_call& call) { seen.push_back(first<std::uint32_t>(call)); });
  }
  on_.finalize();
  EXPECT_EQ(seen, (std::vector<std::uint32_t>{5, 6, 7}));
  EXPECT_EQ(buffer[0], 7U);
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
  EXPECT_EQ(counts(on_).stages, 1U);
}

TEST_F(EngineNode, AFailureOfAStageBeforeIsKnownWhenTheNextOneRuns) {
  std::vector<std::uint32_t> buffer{1};
  const untyped_data from = on_.make_data(word);
  const untyped_data to = registered(on_, buffer, "to");
  gate hold;
  run_declared(on_, {from.write()}, [wait = hold.waiter()](const body_call&) {
    wait();
    throw std::runtime_error("boom");
  });
  std::thread opens;
  {
    const std::uint64_t before = on_.stats().tasks;
    derive(from, to);
    EXPECT_EQ(on_.stats().tasks, before + 1);
    opens = std::thread([&] { hold.open(); });
    static_cast<void>(on_.fence());
  }
  opens.join();
  derive(to, from);
  on_.finish();
  ASSERT_EQ(on_.take_failures().size(), 1U);
  EXPECT_EQ(buffer[0], 1U);
}

TEST_F(EngineNode, ABufferThatIsDroppedIsWrittenWhenItsStageHasEnded) {
  std::vector<std::uint32_t> buffer{1};
  const untyped_data from = on_.make_data(word);
  untyped_data to = registered(on_, buffer, "to");
  run_declared(on_, {from.write()}, [](const body_call& call) { first<std::uint32_t>(call) = 21; });
  run(on_, device, {to.write(), from.read()}, doubled_into);
  to = {};
  const untyped_data again = registered(on_, buffer, "again");  // comes after that
  run_declared(on_, {again.rw()}, [](const body_call& call) { first<std::uint32_t>(call) += 1; });
  on_.finalize();
  EXPECT_EQ(buffer[0], 43U);
  EXPECT_EQ(counts(on_).stages, 2U);
}

TEST_F(EngineNode, CallsOfTheLibraryInItAreErrorsThatNameTheDeclaration) {
  const untyped_data x = on_.make_data(word);
  const untyped_data y = on_.make_data(word);
  std::vector<std::string> texts;
  std::vector<errc> codes;
  run_declared(
      on_, {x.write()},
      [&](const body_call&) {
        const auto attempt = [&](const std::function<void()>& call) {
          codes.push_back(thrown(call, &texts.emplace_back()));
        };
        attempt([&] { run(on_, device, {y.write()}, nothing); });
        attempt([&] { run(on_, exec_place::host(), {y.write()}, nothing); });
        attempt([&] { on_.fill(y.write(), std::array{std::byte{1}}); });
        attempt([&] { static_cast<void>(on_.fence()); });
        attempt([&] { static_cast<void>(content<std::uint32_t>(on_, y)); });
        attempt([&] { static_cast<void>(on_.make_data(8)); });
        attempt([&] { on_.finish(); });
        attempt([&] { on_.drain(); });
        attempt([&] { static_cast<void>(on_.to_graph()); });
        attempt([&] { untyped_task(on_).start(); });
        attempt([&] { static_cast<void>(open_cuda(nullptr, true).make_data(8)); });
        attempt([&] { synchronize(on_.where().hand_over_stream(0)); });
      },
      "wrongly declared");
  on_.finalize();
  EXPECT_EQ(codes, std::vector<errc>(codes.size(), errc::usage));
  ASSERT_EQ(texts.size(), 12U);
  for (const std::string& each : texts)
    EXPECT_TRUE(contains(each,
                         "inside task 'wrongly declared', which is declared not to use the "
                         "device (uses_device = false)"))
        << each;
}

TEST_F(EngineNode, WhatItRaisesThereIsItsFailure) {
  const untyped_data x = on_.make_data(word);
  run_declared(on_, {x.write()}, [&](const body_call&) { on_.drain(); }, "wrong");
  EXPECT_EQ(thrown([&] { static_cast<void>(content<std::uint32_t>(on_, x)); }), errc::poisoned);
  on_.finish();
  const std::vector<failure> failures = on_.take_failures();
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(thrown([&] { std::rethrow_exception(failures[0].cause); }), errc::usage);
}

// The host machine has no driver, so waits there are fine.
TEST_F(EngineNode, MayUseTheLibraryOnTheHostMachine) {
  const untyped_data x = on_.make_data(word);
  std::int64_t value = 0;
  run_declared(on_, {x.write()}, [&](const body_call&) {
    untyped_context there = open("host", 1);
    const untyped_data y = there.make_data(8);
    run(there, {}, {y.write()}, [](const body_call& call) { first<std::int64_t>(call) = 5; });
    value = content<std::int64_t>(there, y);
    there.finish();
  });
  on_.finalize();
  EXPECT_EQ(value, 5);
}

TEST_F(EngineNode, WhatItHoldsEndsOnceAndWhereTheDriverMayBeCalled) {
  std::vector<bool> ends;
  const untyped_data x = on_.make_data(word);
  for (int i = 0; i < 3; ++i) {
    run_declared(on_, {x.write()}, [kept = std::make_shared<held>(ends)](const body_call&) {});
    EXPECT_EQ(ends.size(), static_cast<std::size_t>(i));
    static_cast<void>(content<std::uint32_t>(on_, x));
    EXPECT_EQ(ends, std::vector<bool>(static_cast<std::size_t>(i) + 1, true));
  }
  on_.finalize();
  EXPECT_EQ(ends.size(), 3U);
}

TEST_F(EngineNode, AHandleThatIsDroppedInItIsLetGoElsewhere) {
  std::vector<std::uint32_t> buffer{1};
  const untyped_data x = on_.make_data(word);
  auto dropped = std::make_shared<untyped_data>(registered(on_, buffer, "dropped"));
  run(on_, device, {dropped->write()}, fill_words(9));
  run_declared(on_, {x.write()}, [&dropped](const body_call&) { dropped.reset(); });
  on_.finalize();
  EXPECT_EQ(buffer[0], 9U);
}

TEST_F(EngineNode, AStageThatCannotBeLaunchedCallsNobodyAndKeepsNothing) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  std::vector<bool> ends;
  bool ran = false;
  const untyped_data x = on_.make_data(word);
  run_declared(on_, {x.write()},
               [&ran, kept = std::make_shared<held>(ends)](const body_call&) { ran = true; });
  cuda_driver().control.fail("cuGraphLaunch", 1, static_cast<int>(abi::result::out_of_memory), 0);
  EXPECT_EQ(thrown([&] { static_cast<void>(content<std::uint32_t>(on_, x)); }), errc::poisoned);
  on_.finish();
  EXPECT_EQ(on_.take_failures().size(), 1U);
  EXPECT_FALSE(ran);
  EXPECT_EQ(ends, std::vector<bool>{true});
}

TEST_F(EngineNode, ANodeThatCannotBeAddedIsAFailureOfItsTask) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  std::vector<bool> ends;
  const untyped_data x = on_.make_data(word);
  cuda_driver().control.fail("cuGraphAddHostNode", 1, static_cast<int>(abi::result::out_of_memory),
                             0);
  std::string text;
  EXPECT_EQ(thrown(
                [&] {
                  run_declared(
                      on_, {x.write()}, [kept = std::make_shared<held>(ends)](const body_call&) {},
                      "refused");
                },
                &text),
            errc::out_of_memory);
  EXPECT_TRUE(contains(text, "task 'refused' could not be queued")) << text;
  run_declared(on_, {on_.make_data(word).write()}, nothing);
  on_.finish();
  EXPECT_EQ(ends, std::vector<bool>{true});
}

TEST_F(EngineNode, AContextThatIsGivenUpLetsItRunAndKeepsNothing) {
  std::vector<bool> ends;
  std::atomic<bool> ran{false};
  std::weak_ptr<void> last;
  {
    context_options options;
    options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
    options.use_graph = true;
    options.resources.emplace();
    last = options.resources->state();
    untyped_context on(options);
    options = {};
    const untyped_data x = on.make_data(word);
    run_declared(on, {x.write()},
                 [&ran, kept = std::make_shared<held>(ends)](const body_call&) { ran = true; });
    static_cast<void>(on.notify(std::make_unique<silent>()));
    run_declared(on, {x.write()}, [kept = std::make_shared<held>(ends)](const body_call&) {});
    on.abandon();
  }
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!last.expired() && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_TRUE(last.expired());
  EXPECT_TRUE(ran);
  EXPECT_EQ(ends, (std::vector<bool>{true, true}));
}

// It is let go when that stage was launched, and no other stage comes.
TEST_F(EngineNode, WhatIsDroppedBehindTheLastStageGoesWithTheContext) {
  for (const std::size_t words : {1U, 0U}) {
    std::vector<std::uint32_t> buffer{1};
    auto owner = std::make_shared<int>(0);
    const std::weak_ptr<int> kept = owner;
    untyped_context on = open_cuda(nullptr, /*recorded=*/true);
    const std::weak_ptr<core::context> context = on.state();
    registration what;
    what.block = buffer.data();
    what.bytes = words * word;
    what.owner = std::move(owner);
    untyped_data x = on.register_data(what);
    what.owner = nullptr;
    run_declared(on, {x.write()}, nothing);
    x = {};
    on.finish();
    EXPECT_TRUE(kept.expired()) << words;
    on = untyped_context(on_);
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!context.expired() && std::chrono::steady_clock::now() < limit)
      std::this_thread::yield();
    EXPECT_TRUE(context.expired()) << words;
  }
}

// The pages of the buffer were locked for the datum that was registered there before.
TEST_F(EngineNode, ABufferThatIsRegisteredAgainStaysLockedForWhatIsRecorded) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const std::int64_t locked = cuda_driver().control.live("registration");
  std::vector<std::uint32_t> buffer{5};
  std::vector<std::uint32_t> other{5};
  const untyped_data y = on_.make_data(word);
  const untyped_data z = on_.make_data(word);
  registration what;
  what.block = buffer.data();
  what.bytes = word;
  what.owner = std::make_shared<int>(0);
  untyped_data x = on_.register_data(what);
  busy_until_set busy;
  run(on_, device, {x.read(data_place::host()), y.write()}, busy.body());
  const std::uint64_t stream = on_.fence();
  x = {};
  x = on_.register_data(what);
  run(on_, device, {z.write(), x.read()}, doubled_into);
  busy.set();
  synchronize(stream);
  static_cast<void>(registered(on_, other));  // lets go of what has ended
  const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  while (cuda_driver().control.live("registration") > locked &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(content<std::uint32_t>(on_, z), 10U);
  on_.finalize();
}

/// What the look-alike driver allocates for a chain of that many host nodes.
std::uint64_t heap_of_a_raw_chain(int nodes) {
  const fake_cuda_test::entry_points& call = cuda_driver().call;
  const abi::host_node what{[](void*) {}, nullptr};
  const std::uint64_t before = heap_allocations();
  abi::graph graph = nullptr;
  must(call.cuGraphCreate(&graph, 0));
  abi::graph_node last = nullptr;
  for (int i = 0; i < nodes; ++i) {
    const abi::graph_node after = last;
    must(call.cuGraphAddHostNode(&last, graph, &after, i == 0 ? 0 : 1, &what));
  }
  const std::uint64_t taken = heap_allocations() - before;
  must(call.cuGraphDestroy(graph));
  return taken;
}

TEST_F(EngineNode, ASteadyStageAllocatesOnlyItsGraph) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const untyped_data x = on_.make_data(word);
  const std::vector<task_dep> deps{x.rw()};
  task_spec what;
  what.kind = task_kind::host_launch;
  what.place = exec_place::host();
  what.deps = deps;
  what.uses_device = false;
  run(on_, device, {x.write()}, fill_words(1));
  const auto record = [&](int tasks) {
    for (int i = 0; i < tasks; ++i)
      on_.submit(what, make_body(nothing));
  };
  for (const int tasks : {50, 500}) {
    static_cast<void>(heap_of_a_raw_chain(tasks));  // the driver's tables grow
    const std::uint64_t raw = heap_of_a_raw_chain(tasks);
    for (int stage = 0; stage < 20; ++stage) {
      record(tasks);
      static_cast<void>(content<std::uint32_t>(on_, x));
    }
    const std::vector<std::string> calls =
        fake_cuda_test::calls_of_this_thread([&] { record(tasks); });
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "cuGraphAddHostNode"), tasks);
    static_cast<void>(content<std::uint32_t>(on_, x));
    const std::uint64_t before = heap_allocations();
    record(tasks);
    const std::uint64_t taken = heap_allocations() - before;
    if (!pools_are_off) {
      EXPECT_EQ(taken - raw, 1U) << "the graph itself; for " << tasks << " tasks";
    }
    static_cast<void>(content<std::uint32_t>(on_, x));
  }
  on_.finalize();
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
}

TEST_F(EngineNode, AGraphThatIsGivenOutHasIt) {
  std::vector<std::uint32_t> buffer{1};
  recorded_graph graph;
  std::vector<bool> ends;
  std::atomic<bool> told{false};
  std::atomic<int> launches{0};
  {
    untyped_context on = open_cuda(nullptr, /*recorded=*/true);
    const untyped_data x = registered(on, buffer, "x");
    run(on, device, {x.rw()}, doubled);
    run_declared(
        on, {x.rw()},
        [&launches, kept = std::make_shared<held>(ends, &told)](const body_call& call) {
          first<std::uint32_t>(call) += 1;
          if (++launches == 2) throw std::runtime_error("boom");
        },
        "adds");
    run(on, device, {x.rw()}, doubled);
    graph = on.to_graph();
    EXPECT_EQ(counts(on).stage_breaks, 0U);
  }
  synchronize(graph.launch());
  EXPECT_EQ(buffer[0], 6U);
  EXPECT_EQ(thrown([&] { graph.check_errors(); }), errc::ok);
  synchronize(graph.launch());
  EXPECT_EQ(thrown([&] { graph.check_errors(); }), errc::task_failed);
  buffer[0] = 2;
  synchronize(graph.launch());
  EXPECT_EQ(buffer[0], 10U);
  EXPECT_EQ(thrown([&] { graph.check_errors(); }), errc::ok);
  EXPECT_FALSE(told);
  graph = {};
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!told && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(ends, std::vector<bool>{true});
}

TEST_F(EngineNode, AFailureInAGraphThatIsTakenInIsOneOfItsTask) {
  for (const bool recorded : {false, true}) {
    std::vector<std::uint32_t> buffer{1};
    std::atomic<bool> fails{false};
    recorded_graph graph;
    {
      untyped_context on = open_cuda(nullptr, /*recorded=*/true);
      const untyped_data x = registered(on, buffer, "x");
      run(on, device, {x.rw()}, doubled);
      run_declared(on, {x.rw()}, [&fails](const body_call& call) {
        first<std::uint32_t>(call) += 1;
        if (fails) throw std::runtime_error("boom");
      });
      graph = on.to_graph();
    }
    for (const bool now : {false, true, false}) {
      fails = now;
      untyped_context on = open_cuda(nullptr, recorded);
      std::vector<std::uint32_t> copy{7};
      const untyped_data x = registered(on, buffer, "x");
      const untyped_data y = registered(on, copy, "y");
      const std::vector<task_dep> deps{x.rw(data_place::host())};
      task_spec what;
      what.symbol = "taken in";
      what.place = device;
      what.deps = deps;
      on.add_graph(what, graph);
      run(on, device, {y.write(), x.read()}, doubled_into);
      on.finish();
      const std::vector<failure> failures = on.take_failures();
      ASSERT_EQ(failures.size(), now ? 1U : 0U) << recorded;
      if (now) {
        EXPECT_EQ(failures[0].task, "task 'taken in'");
      }
      EXPECT_EQ(copy[0], now ? 7U : 2 * buffer[0]);
    }
    EXPECT_EQ(buffer[0], 15U);
    EXPECT_EQ(graph.take_failures().size(), 1U);
  }
}

TEST_F(EngineNode, WithoutTheDeclarationNoGraphIsGivenOut) {
  const untyped_data x = on_.make_data(word);
  run(on_, exec_place::host(), {x.write()}, nothing, "undeclared", task_kind::host_launch);
  std::string text;
  EXPECT_EQ(thrown([&] { static_cast<void>(on_.to_graph()); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "task 'undeclared'")) << text;
  EXPECT_TRUE(contains(text, "uses_device = false")) << text;
  on_.finalize();
}

// In orders chosen by seed, and with a second thread that records.
TEST_F(EngineNode, StagesOfManyOnLockedPages) {
  const word_block locked(1);
  *locked.at(0) = 0;
  registration what;
  what.block = locked.at(0);
  what.bytes = word;
  const untyped_data x = on_.register_data(what);
  const untyped_data y = on_.make_data(word);
  for (int stage = 0; stage < 20; ++stage) {
    for (int i = 0; i < 5; ++i) {
      run_declared(on_, {x.rw()}, [](const body_call& call) { first<std::uint32_t>(call) += 1; });
      run(on_, device, {y.write(), x.read()}, doubled_into);
      run_declared(on_, {y.read(), x.rw()}, [](const body_call& call) {
        EXPECT_EQ(first<std::uint32_t>(call), 2 * first<std::uint32_t>(call, 1));
      });
    }
    static_cast<void>(on_.fence());
  }
  on_.finalize();
  EXPECT_EQ(*locked.at(0), 100U);
}

TEST_F(EngineNode, StagesOfManyOnMemoryOfOurs) {
  const untyped_data x = on_.make_data(word);
  const untyped_data y = on_.make_data(word);
  run_declared(on_, {x.write()}, [](const body_call& call) { first<std::uint32_t>(call) = 0; });
  for (int stage = 0; stage < 20; ++stage) {
    for (int i = 0; i < 5; ++i) {
      run_declared(on_, {x.rw()}, [](const body_call& call) { first<std::uint32_t>(call) += 1; });
      run(on_, device, {y.write(), x.read()}, doubled_into);
      run_declared(on_, {y.read(), x.rw()}, [](const body_call& call) {
        EXPECT_EQ(first<std::uint32_t>(call), 2 * first<std::uint32_t>(call, 1));
      });
    }
    static_cast<void>(on_.fence());
  }
  EXPECT_EQ(content<std::uint32_t>(on_, x), 100U);
  on_.finalize();
}

TEST_F(EngineNode, StagesOfManyFollowEachOther) {
  std::vector<std::uint32_t> buffer{0};
  const untyped_data x = registered(on_, buffer, "x");
  const untyped_data y = on_.make_data(word);
  for (int stage = 0; stage < 20; ++stage) {
    for (int i = 0; i < 5; ++i) {
      run_declared(on_, {x.rw()}, [](const body_call& call) { first<std::uint32_t>(call) += 1; });
      run(on_, device, {y.write(), x.read()}, doubled_into);
      run_declared(on_, {y.read(), x.rw()}, [](const body_call& call) {
        EXPECT_EQ(first<std::uint32_t>(call), 2 * first<std::uint32_t>(call, 1));
      });
    }
    static_cast<void>(on_.fence());
  }
  on_.finalize();
  EXPECT_EQ(buffer[0], 100U);
  EXPECT_EQ(counts(on_).stages, 20U);
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
  EXPECT_EQ(counts(on_).instantiations, 1U);
}

}  // namespace
}  // namespace millstream::test
