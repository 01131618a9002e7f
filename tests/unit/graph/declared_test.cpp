// SPDX-License-Identifier: Apache-2.0
/// Host functions that are declared not to use the device, where the declaration changes nothing:
/// on the machine that counts and runs nothing, and on the host machine in orders chosen by seed.
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/graph/engine.hpp"

namespace millstream::test {
namespace {

constexpr int stages = 3;

/// What can be seen of a context from outside.
struct outcome {
  std::map<std::string, std::uint64_t> calls;  ///< of the null machine
  std::vector<std::uint64_t> counts;
  std::string drawn;               ///< the last stage; "" in an immediate context
  std::vector<std::string> order;  ///< of the bodies that have one
  std::vector<std::int64_t> buffer;
  std::int64_t seen = 0;
  std::vector<std::string> failed;
  friend bool operator==(const outcome&, const outcome&) = default;
};

/// Runs one program, in which each host function is declared or none is.
class player {
 public:
  player(untyped_context on, bool declared) : on_(std::move(on)), declared_(declared) {}

  outcome play(bool fails) {
    const call_meter meter(on_.where());
    result_.buffer.assign(4, 1);
    const untyped_data x = registered(on_, result_.buffer, "x");
    const untyped_data y = on_.make_data(8, "y");
    const untyped_data order = on_.make_token("order");
    for (int i = 0; i < stages; ++i) {
      on_device("writes", 0, {y.write(), x.read()},
                [](const body_call& call) { value(call, 0) = value(call, 1) * 2; });
      by_host("reads", {y.read(), order.write()},
              [this](const body_call& call) { result_.seen = value(call, 0); });
      by_host("changes", {x.rw(), y.read(), order.read()}, [fails](const body_call& call) {
        if (fails) throw std::runtime_error("boom");
        value(call, 0) += value(call, 1);
      });
      on_device("adds", 1, {x.rw()}, [](const body_call& call) { value(call, 0) += 1; });
      by_host("", {}, nothing);  // alone
      static_cast<void>(on_.fence());
    }
    if (on_.stats().recording.stages > 0) result_.drawn = on_.native_dot();
    on_.finish();
    for (const failure& each : on_.take_failures())
      result_.failed.push_back(each.task);
    result_.calls = meter.calls();
    count();
    return result_;
  }

 private:
  static std::int64_t& value(const body_call& call, std::size_t index) {
    return first<std::int64_t>(call, index);
  }

  template <class Body>
  void by_host(const char* name, std::initializer_list<task_dep> deps, const Body& body) {
    submit(name, exec_place::host(), task_kind::host_launch, !declared_, deps, body);
  }
  template <class Body>
  void on_device(const char* name, int device, std::initializer_list<task_dep> deps,
                 const Body& body) {
    submit(name, exec_place::device(device), task_kind::task, true, deps, body);
  }
  template <class Body>
  void submit(const char* name, exec_place place, task_kind kind, bool uses_device,
              std::initializer_list<task_dep> deps, const Body& body) {
    task_spec what;
    what.symbol = name;
    what.place = place;
    what.kind = kind;
    what.uses_device = uses_device;
    what.deps = {deps.begin(), deps.size()};
    on_.submit(what, make_body([this, name, body](const body_call& call) {
                 note(name);
                 body(call);
               }));
  }

  void note(std::string name) {
    if (name.empty()) return;
    const std::scoped_lock hold(mutex_);
    result_.order.push_back(std::move(name));
  }

  void count() {
    const context_stats now = on_.stats();
    const recording_stats& of = now.recording;
    result_.counts = {now.tasks,         now.skipped,     now.failed,        now.copies,
                      now.copied_bytes,  now.records,     now.waits,         now.allocations,
                      now.reused_blocks, now.queues,      of.stages,         of.stage_breaks,
                      of.nodes,          of.child_graphs, of.instantiations, of.updates,
                      of.refused_updates};
  }

  untyped_context on_;
  const bool declared_;
  std::mutex mutex_;  // guards the order
  outcome result_;
};

outcome outcome_on(const char* machine_name, bool recorded, bool declared, bool fails,
                   std::optional<std::uint64_t> seed = {}) {
  untyped_context on =
      recorded ? open_recorded(machine_name, 2, seed) : open(machine_name, 2, seed);
  return player(std::move(on), declared).play(fails);
}

/// The machine keeps queues and marks that were made once, so the first one may make more calls.
void expect_no_difference_on_null(bool recorded) {
  static_cast<void>(outcome_on("null", recorded, /*declared=*/false, /*fails=*/false));
  const outcome declared = outcome_on("null", recorded, /*declared=*/true, /*fails=*/false);
  const outcome plain = outcome_on("null", recorded, /*declared=*/false, /*fails=*/false);
  EXPECT_EQ(declared.calls, plain.calls);
  EXPECT_EQ(declared.counts, plain.counts);
  EXPECT_TRUE(declared == plain);
}

TEST(DeclaredHostFunctions, OnTheNullMachineTheyAreWhatOthersAre) {
  expect_no_difference_on_null(/*recorded=*/true);
}

TEST(DeclaredHostFunctions, OnTheNullMachineImmediateContextsIgnoreTheDeclaration) {
  expect_no_difference_on_null(/*recorded=*/false);
}

TEST(DeclaredHostFunctions, OnTheNullMachineEachIsANodeAndNoneABreak) {
  for (const bool declared : {true, false}) {
    untyped_context on = open_recorded("null", 1);
    const untyped_data x = on.make_data(64);
    run(on, exec_place::device(0), {x.write()}, nothing);
    task_spec what;
    what.place = exec_place::host();
    what.kind = task_kind::host_launch;
    what.uses_device = !declared;
    const std::vector<task_dep> deps{x.rw()};
    what.deps = deps;
    for (int i = 0; i < 10; ++i)
      on.submit(what, make_body(nothing));
    run(on, exec_place::device(0), {x.rw()}, nothing);
    static_cast<void>(on.fence());
    EXPECT_EQ(recorded(on).nodes, 14U) << declared;  // two tasks, ten functions, there and back
    EXPECT_EQ(recorded(on).stages, 1U) << declared;
    EXPECT_EQ(recorded(on).stage_breaks, 0U) << declared;
    on.finish();
  }
}

class DeclaredOnTheHost : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, DeclaredOnTheHost, testing::Range<std::uint64_t>(0, 8));

TEST_P(DeclaredOnTheHost, OrderValuesAndCountsAreThoseOfOthers) {
  for (const bool recorded : {true, false}) {
    const outcome declared = outcome_on("host", recorded, /*declared=*/true, false, GetParam());
    const outcome plain = outcome_on("host", recorded, /*declared=*/false, false, GetParam());
    EXPECT_EQ(declared.order, plain.order);
    EXPECT_EQ(declared.counts, plain.counts);
    EXPECT_TRUE(declared == plain) << recorded;
    std::int64_t x = 1;
    std::int64_t y = 0;
    for (int i = 0; i < stages; ++i) {
      y = 2 * x;
      x += y + 1;
    }
    EXPECT_EQ(declared.buffer, (std::vector<std::int64_t>{x, 1, 1, 1}));
    EXPECT_EQ(declared.seen, y);
    EXPECT_EQ(declared.counts[11], 0U);  // stage breaks
  }
}

TEST_P(DeclaredOnTheHost, FailuresAreThoseOfOthers) {
  for (const bool recorded : {true, false}) {
    const outcome declared = outcome_on("host", recorded, /*declared=*/true, true, GetParam());
    const outcome plain = outcome_on("host", recorded, /*declared=*/false, true, GetParam());
    EXPECT_TRUE(declared == plain) << recorded;
    EXPECT_EQ(declared.failed, std::vector<std::string>{"task 'changes'"});
    EXPECT_EQ(declared.buffer, (std::vector<std::int64_t>{1, 1, 1, 1}));
  }
}

}  // namespace
}  // namespace millstream::test
