// SPDX-License-Identifier: Apache-2.0
/// Broken rules: the right error with names and a way out, and the context goes on.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

class Misuse : public testing::Test {
 protected:
  /// Still works after whatever went wrong.
  ~Misuse() override {
    run(on_, {}, {x_.rw()}, [](const body_call& call) { first<int>(call) += 1; });
    EXPECT_EQ(content<int>(on_, x_), buffer_before_ + 1);
    on_.finalize();
  }

  untyped_context on_ = open("host", 2);
  std::vector<int> buffer_ = std::vector<int>(4, 10);
  const int buffer_before_ = 10;
  const untyped_data x_ = registered(on_, buffer_, "x");
  std::string text_;
};

TEST_F(Misuse, DataOfAnotherContext) {
  untyped_context other = open("host", 2);
  const untyped_data foreign = other.make_token("foreign");
  EXPECT_EQ(thrown([&] { run(on_, {}, {foreign.read()}, nothing, "t"); }, &text_),
            errc::invalid_value);
  EXPECT_TRUE(contains(text_, "'t'") && contains(text_, "'foreign'")) << text_;
  EXPECT_NE(thrown([&] { on_.read_back(foreign, nullptr); }, &text_), errc::ok);
  other.finalize();
}

TEST_F(Misuse, DependencyWithoutData) {
  EXPECT_EQ(thrown([&] { run(on_, {}, {task_dep{}}, nothing, "t"); }, &text_), errc::invalid_value);
  EXPECT_TRUE(contains(text_, "'t'")) << text_;
}

TEST_F(Misuse, HandleOfNothing) {
  const untyped_data none;
  EXPECT_FALSE(none);
  EXPECT_NE(thrown([&] { run(on_, {}, {none.read()}, nothing); }), errc::ok);
  EXPECT_NE(thrown([&] { run(on_, {}, {none.rw()}, nothing); }), errc::ok);
  EXPECT_NE(thrown([&] { run(on_, {}, {none.write()}, nothing); }), errc::ok);
  EXPECT_NE(thrown([&] { on_.read_back(none, nullptr); }), errc::ok);
}

TEST_F(Misuse, TaskWithoutABody) {
  task_spec what;
  what.symbol = "t";
  EXPECT_EQ(thrown([&] { on_.submit(what, body_ptr{}); }, &text_), errc::invalid_value);
  EXPECT_TRUE(contains(text_, "'t' has no body")) << text_;
  EXPECT_EQ(make_body(static_cast<void (*)(const body_call&)>(nullptr)), nullptr);
  EXPECT_EQ(make_body(std::function<void(const body_call&)>{}), nullptr);
}

TEST_F(Misuse, EmptyTask) {
  untyped_task made(on_);
  untyped_task none;
  for (untyped_task* task : {&none, &made}) {
    if (task == &made) const untyped_task taken = std::move(made);
    EXPECT_EQ(thrown([&] { task->start(); }, &text_), errc::usage);
    EXPECT_TRUE(contains(text_, "empty")) << text_;
    EXPECT_EQ(thrown([&] { task->end(); }), errc::usage);
    EXPECT_EQ(thrown([&] { task->add_dep(x_.read()); }), errc::usage);
    EXPECT_EQ(thrown([&] { task->set_symbol("s"); }), errc::usage);
    EXPECT_EQ(thrown([&] { static_cast<void>(task->name()); }), errc::usage);
    EXPECT_EQ(thrown([&] { static_cast<void>(task->pointer(0)); }), errc::usage);
    EXPECT_FALSE(task->is_open());
  }
}

TEST_F(Misuse, ContextThatWasMovedAway) {
  untyped_context first = open("host", 2);
  untyped_context second = std::move(first);
  EXPECT_EQ(thrown([&] { run(first, {}, {}, nothing); }, &text_), errc::usage);
  EXPECT_TRUE(contains(text_, "moved")) << text_;
  EXPECT_EQ(thrown([&] { first.finalize(); }), errc::usage);
  EXPECT_EQ(thrown([&] { static_cast<void>(first.fence()); }), errc::usage);
  EXPECT_EQ(thrown([&] { static_cast<void>(first.stats()); }), errc::usage);
  EXPECT_EQ(thrown([&] { static_cast<void>(first.make_token()); }), errc::usage);
  EXPECT_TRUE(first.is_finished());
  second.finalize();
}

TEST_F(Misuse, NullBufferWithBytes) {
  registration what;
  what.bytes = 8;
  what.symbol = "n";
  EXPECT_EQ(thrown([&] { (void)on_.register_data(what); }, &text_), errc::invalid_value);
  EXPECT_TRUE(contains(text_, "null")) << text_;
}

TEST_F(Misuse, OverlapNamesBothData) {
  registration what;
  what.block = buffer_.data() + 1;
  what.bytes = 2 * sizeof(int);
  what.symbol = "part";
  EXPECT_EQ(thrown([&] { (void)on_.register_data(what); }, &text_), errc::invalid_value);
  EXPECT_TRUE(contains(text_, "'part'") && contains(text_, "'x'")) << text_;
}

TEST_F(Misuse, FillWithAPatternThatDoesNotDivide) {
  const std::vector<std::byte> three(3);
  EXPECT_EQ(thrown([&] { on_.fill(x_.write(), three); }, &text_), errc::invalid_value);
  EXPECT_EQ(thrown([&] { on_.fill(x_.write(), {}); }), errc::invalid_value);
  EXPECT_EQ(thrown([&] { on_.fill(x_.write(), std::vector<std::byte>(32)); }), errc::invalid_value);
  EXPECT_EQ(thrown([&] { on_.fill(x_.read(), std::vector<std::byte>(4)); }), errc::invalid_value);
}

TEST_F(Misuse, TaskPartsOutOfOrder) {
  untyped_task task(on_);
  task.set_symbol("t");
  EXPECT_EQ(thrown([&] { task.end(); }, &text_), errc::usage);
  EXPECT_EQ(text_, "task 't' is not started yet; call start() before end()");
  EXPECT_EQ(thrown([&] { (void)task.call(); }), errc::usage);
  EXPECT_EQ(thrown([&] { (void)task.pointer(0); }), errc::usage);
  task.add_dep(x_.read());
  task.start();
  EXPECT_EQ(thrown([&] { task.start(); }, &text_), errc::usage);
  EXPECT_TRUE(contains(text_, "'t' was already started; start a task once")) << text_;
  EXPECT_EQ(thrown([&] { task.add_dep(x_.read()); }), errc::usage);
  EXPECT_EQ(thrown([&] { task.set_place(exec_place::host()); }), errc::usage);
  EXPECT_EQ(thrown([&] { task.set_symbol("u"); }), errc::usage);
  EXPECT_EQ(thrown([&] { (void)task.pointer(1); }), errc::out_of_range);
  EXPECT_EQ(thrown([&] { (void)task.dep(1); }), errc::out_of_range);
  task.end();
  EXPECT_EQ(thrown([&] { task.end(); }, &text_), errc::usage);
  EXPECT_EQ(text_, "task 't' has ended already; call end() once");
  EXPECT_EQ(thrown([&] { (void)task.pointer(0); }), errc::usage);
  EXPECT_TRUE(task.is_ended());
}

TEST_F(Misuse, DeviceThatDoesNotExistIsTheTasksError) {
  task_spec what;
  what.symbol = "t";
  what.site = {"flow.cpp", 12};
  what.place = exec_place::device(7);
  EXPECT_EQ(thrown([&] { on_.submit(what, make_body(nothing)); }, &text_), errc::invalid_value);
  EXPECT_TRUE(contains(text_, "task 't' (flow.cpp:12) ") && contains(text_, "device 7")) << text_;
  const task_dep far = x_.read(data_place::device(9));
  what.place = {};
  what.deps = {&far, 1};
  EXPECT_EQ(thrown([&] { on_.submit(what, make_body(nothing)); }, &text_), errc::invalid_value);
  EXPECT_TRUE(contains(text_, "task 't' (flow.cpp:12) ") && contains(text_, "device 9")) << text_;
}

TEST_F(Misuse, WaitForWhatNothingHasWrittenNamesTheDatum) {
  const untyped_data fresh = on_.make_data(8, "fresh");
  EXPECT_EQ(thrown([&] { on_.await_content(fresh); }, &text_), errc::not_written);
  EXPECT_EQ(text_,
            "wait reads 'fresh', which nothing has written; write it first or register it with a "
            "value");
}

TEST_F(Misuse, AddressOfAToken) {
  untyped_task task(on_);
  task.add_dep(on_.make_token("k").write());
  task.start();
  EXPECT_EQ(thrown([&] { (void)task.pointer(0); }, &text_), errc::usage);
  EXPECT_TRUE(contains(text_, "token")) << text_;
  task.end();
}

TEST_F(Misuse, StreamNumberThatIsNone) {
  EXPECT_EQ(thrown([&] { synchronize(0); }), errc::invalid_value);
  EXPECT_EQ(thrown([&] { synchronize(~std::uint64_t{0}); }), errc::invalid_value);
}

TEST_F(Misuse, FenceIsAStreamToWaitForOnEveryMachine) {
  for (const char* name : {"host", "null"}) {
    untyped_context other = open(name, 1);
    EXPECT_NO_THROW(synchronize(other.fence())) << name;
    other.finalize();
  }
}

TEST_F(Misuse, HandleAfterItsContext) {
  untyped_data left;
  {
    untyped_context other = open("host", 2);
    left = other.make_data(8, "left");
    other.finalize();
  }
  EXPECT_EQ(left.symbol(), "left");
  EXPECT_EQ(left.bytes(), 8U);
  EXPECT_NE(thrown([&] { run(on_, {}, {left.write()}, nothing); }), errc::ok);
}

machine machine_of(const char* name, int devices = 0) {
  return machine({.name = name, .devices = devices, .seed = {}});
}

TEST(Machines, BadOptionsAreRefused) {
  std::string text;
  EXPECT_EQ(thrown([] { (void)machine_of("abacus"); }, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text, "abacus") && contains(text, "host")) << text;
  EXPECT_EQ(thrown([] { (void)machine_of("host", -1); }), errc::invalid_value);
  EXPECT_EQ(thrown([] { (void)machine_of("host", 100000); }), errc::invalid_value);
}

TEST(Machines, EqualOptionsGiveOneMachine) {
  const machine a = machine_of("host", 2);
  const machine b = machine_of("host", 2);
  const machine c = machine_of("host", 3);
  EXPECT_EQ(a.state(), b.state());
  EXPECT_NE(a.state(), c.state());
  EXPECT_EQ(c.device_count(), 3);
  EXPECT_EQ(a.name(), "host");
  EXPECT_TRUE(a.call_counts().empty());
}

}  // namespace
}  // namespace millstream::test
