// SPDX-License-Identifier: Apache-2.0
/// Injected faults: each call may fail; the error is right, nothing is lost, the machine goes on.
#include <array>

#include "tests/conformance/promise.hpp"

namespace conformance {
namespace {

using backend::call;
using backend::fault_plan;

fault_plan nth_of_any(std::uint64_t nth) {
  fault_plan plan;
  plan.any = true;
  plan.nth = nth;
  return plan;
}
fault_plan first_of(call kind) {
  fault_plan plan;
  plan.kind = kind;
  plan.nth = 1;
  return plan;
}

/// A small program that makes calls of every kind, stops at the first that fails, and gives
/// everything back once the faults are over.
class small_program {
 public:
  explicit small_program(backend::machine& on) : on_(on) {}
  ~small_program() { clean_up(); }
  small_program(const small_program&) = delete;
  small_program& operator=(const small_program&) = delete;

  backend::status run() {
    backend::status now = make_objects();
    if (now) now = queue_work();
    if (now) now = wait_for_it();
    return now;
  }
  [[nodiscard]] const bytes& got() const { return got_; }

 private:
  static constexpr std::size_t count = 1000;
  backend::device& last() { return on_.at(on_.device_count() - 1); }
  int last_index() { return on_.device_count() - 1; }

  backend::status make_objects() {
    for (queue_ptr* each : {&one_, &other_}) {
      auto made = (each == &one_ ? on_.at(0) : last()).make_queue();
      if (!made) return made.take_status();
      *each = std::move(made.value());
    }
    auto made = on_.at(0).make_event();
    if (!made) return made.take_status();
    event_ = std::move(made.value());
    if (backend::status failed = on_.register_memory(got_.data(), count); !failed) return failed;
    registered_ = true;
    auto first = on_.at(0).allocate(count, *one_);
    if (!first) return first.take_status();
    first_ = first.value();
    auto second = last().allocate(count, *other_);
    if (!second) return second.take_status();
    second_ = second.value();
    return {};
  }

  [[nodiscard]] backend::fill_request fill_first() const {
    backend::fill_request fill;
    fill.to = first_;
    fill.home = backend::device_memory(0);
    fill.bytes = count;
    fill.pattern[0] = std::byte{5};
    return fill;
  }

  backend::status run_graph() {
    auto made = on_.at(0).make_graph();
    if (!made) return made.take_status();
    graph_ = std::move(made.value());
    auto node = graph_->add_fill(fill_first(), {});
    if (!node) return node.take_status();
    if (on_.capabilities().has(capability::capture_to_graph)) {
      if (backend::status failed = record_body(node.value()); !failed) return failed;
    }
    auto whole = graph_->instantiate();
    if (!whole) return whole.take_status();
    executable_ = std::move(whole.value());
    if (backend::status failed = graph_->update(*executable_); !failed) return failed;
    return executable_->launch(*one_);
  }
  backend::status record_body(backend::graph_node after) {
    backend::status now = graph_->begin_body(*one_, std::array{after});
    if (!now) return now;
    now = one_->fill(fill_first());
    backend::node_list last;
    backend::status ended = graph_->end_body(*one_, last);
    return now ? std::move(ended) : std::move(now);
  }

  backend::status queue_work() {
    const memory_home there = backend::device_memory(last_index());
    backend::status now = one_->fill(fill_first());
    if (now && on_.capabilities().has(capability::graphs)) now = run_graph();
    if (now && on_.capabilities().has(capability::runs_jobs)) now = run_job(*one_, log_);
    if (now) now = one_->record(*event_);
    if (now) now = other_->wait(*event_);
    if (now) now = copy(second_, there, first_, backend::device_memory(0));
    if (now) now = copy(got_.data(), memory_home::host, second_, there);
    if (now) now = on_.at(0).release(first_, count, *other_);
    if (now) first_ = nullptr;
    return now;
  }
  backend::status copy(void* to, memory_home to_home, const void* from, memory_home from_home) {
    return other_->copy(backend::copy_request::contiguous(to, to_home, from, from_home, count));
  }

  backend::status wait_for_it() {
    backend::status now = other_->record(*event_);
    if (!now) return now;
    if (auto polled = event_->is_done(); !polled) return polled.take_status();
    if (auto waited = event_->wait_for(long_time); !waited) return waited.take_status();
    now = on_.unregister_memory(got_.data());
    if (now) registered_ = false;
    return now;
  }

  void clean_up() {
    on_.set_fault_plan({});
    if (one_ && other_) {
      const event_ptr joint = value(on_.at(0).make_event());
      ok(one_->record(*joint));
      ok(other_->wait(*joint));
      if (first_ != nullptr) ok(on_.at(0).release(first_, count, *other_));
      if (second_ != nullptr) ok(last().release(second_, count, *other_));
      ok(other_->record(*joint));
      EXPECT_TRUE(value(joint->wait_for(long_time)));
    }
    if (registered_) ok(on_.unregister_memory(got_.data()));
  }

  backend::machine& on_;
  job_log log_;
  bytes got_ = bytes(count);
  queue_ptr one_;
  queue_ptr other_;
  event_ptr event_;
  std::unique_ptr<backend::graph> graph_;
  std::unique_ptr<backend::executable_graph> executable_;
  void* first_ = nullptr;
  void* second_ = nullptr;
  bool registered_ = false;
};

class failure : public promise<> {
 protected:
  /// Whether the small program makes that call on this machine.
  [[nodiscard]] bool is_made(call kind) const {
    if (kind == call::launch) return false;
    if (kind == call::run) return has(capability::runs_jobs);
    if (kind == call::graph_body) {
      return has(capability::graphs) && has(capability::capture_to_graph);
    }
    return kind < call::make_graph || has(capability::graphs);
  }

  /// The program works, and with values it gives the right ones.
  void expect_usable() {
    small_program again(machine());
    ok(again.run());
    if (has(capability::values)) {
      EXPECT_EQ(again.got(), bytes(1000, std::byte{5}));
    }
  }
};

TEST_F(failure, WithoutAPlanNothingFails) {
  expect_usable();
}

TEST_F(failure, EveryCallOfAProgramMayFail) {
  std::uint64_t nth = 1;
  for (bool fired = true; fired; ++nth) {
    ASSERT_LT(nth, 200U) << "the faults never end";
    SCOPED_TRACE("call " + std::to_string(nth));
    {
      small_program program(machine());
      machine().set_fault_plan(nth_of_any(nth));
      const backend::status answer = program.run();
      fired = !answer.ok();
      if (fired) {
        EXPECT_NE(answer.text().find("injected"), std::string::npos) << answer.text();
      }
    }
    EXPECT_EQ(machine().live_objects(), 0);
    expect_usable();
  }
  EXPECT_GT(nth, 15U);
}

TEST_F(failure, TheCodeFitsTheCall) {
  for (std::size_t i = 0; i < backend::first_node_count; ++i) {
    const auto kind = static_cast<call>(i);
    if (!is_made(kind)) continue;
    small_program program(machine());
    machine().set_fault_plan(first_of(kind));
    const errc right = kind == call::allocate ? errc::out_of_memory : errc::device;
    EXPECT_EQ(program.run().code(), right) << backend::call_names[i];
  }
  expect_usable();
}

TEST_F(failure, TheTextNamesCallAndDevice) {
  machine().set_fault_plan(first_of(call::make_queue));
  const auto answer = device(0).make_queue();
  ASSERT_FALSE(answer.ok());
  EXPECT_NE(answer.why().text().find("make_queue"), std::string::npos);
  EXPECT_NE(answer.why().text().find(device(0).name()), std::string::npos);
}

TEST_F(failure, AJobIsNotTakenWhenItsCallFails) {
  job_log log;
  backend::queue& queue = queue_on(-1);
  machine().set_fault_plan(first_of(call::run));
  EXPECT_FALSE(run_job(queue, log).ok());
  EXPECT_EQ(log.runs + log.discards, 0);
  ok(run_job(queue, log));
  finish(queue);
  EXPECT_EQ(log.runs + log.discards, 1);
}

TEST_F(failure, ABlockStaysWhenItsReleaseFails) {
  backend::queue& queue = queue_on(0);
  void* block = value(device(0).allocate(1000, queue));
  machine().set_fault_plan(first_of(call::release));
  EXPECT_FALSE(device(0).release(block, 1000, queue).ok());
  finish(queue);
  EXPECT_EQ(device(0).memory().used_bytes, 1000U);
  ok(device(0).release(block, 1000, queue));
}

TEST_F(failure, OnlyTheNthCallOfItsKindFails) {
  backend::queue& queue = queue_on(0);
  fault_plan plan = first_of(call::allocate);
  plan.nth = 3;
  machine().set_fault_plan(plan);
  static_cast<void>(take(0, 10, queue));
  finish(queue);  // calls of other kinds do not count
  static_cast<void>(take(0, 10, queue));
  EXPECT_EQ(device(0).allocate(10, queue).why().code(), errc::out_of_memory);
  static_cast<void>(take(0, 10, queue));
}

TEST_F(failure, ARateDrawsTheSameCallsFromTheSameSeed) {
  const auto drawn = [&](std::uint64_t seed) {
    fault_plan plan = first_of(call::make_event);
    plan.nth = 0;
    plan.rate = 0.25;
    plan.seed = seed;
    machine().set_fault_plan(plan);
    std::vector<bool> failed;
    for (int i = 0; i < 200; ++i)
      failed.push_back(!device(0).make_event().ok());
    return failed;
  };
  const std::vector<bool> first = drawn(1);
  EXPECT_EQ(first, drawn(1));
  EXPECT_NE(first, drawn(2));
  const auto failures = std::count(first.begin(), first.end(), true);
  EXPECT_GT(failures, 20);
  EXPECT_LT(failures, 90);
}

TEST_F(failure, CallsAreCountedOnceAPlanWasSet) {
  machine().set_fault_plan({});
  const auto before = machine().calls();
  small_program program(machine());
  ok(program.run());
  const auto after = machine().calls();
  const auto made = [&](call kind) {
    return after[static_cast<std::size_t>(kind)] - before[static_cast<std::size_t>(kind)];
  };
  EXPECT_EQ(made(call::make_queue), 2U);
  EXPECT_EQ(made(call::make_event), 1U);
  EXPECT_EQ(made(call::allocate), 2U);
  EXPECT_EQ(made(call::copy), 2U);
  EXPECT_EQ(made(call::record), 2U);
  EXPECT_EQ(made(call::wait), 1U);
  EXPECT_EQ(made(call::query), 1U);
  EXPECT_EQ(made(call::host_wait), 1U);
}

TEST_F(failure, ReleasingWhatWasNotHandedOutIsRefused) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 1000, queue);
  EXPECT_FALSE(device(0).release(block + 8, 1000, queue).ok());
  EXPECT_FALSE(device(0).release(block, 999, queue).ok());
  EXPECT_EQ(device(0).memory().used_bytes, 1000U);
}

}  // namespace
}  // namespace conformance
