// SPDX-License-Identifier: Apache-2.0
/// Failed tasks: what is handed out about them, once, and in which order.
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

const auto boom = [](const body_call&) { throw std::out_of_range("boom-42"); };

std::string cause_of(const failure& what) {
  try {
    std::rethrow_exception(what.cause);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

class Failures : public testing::Test {
 protected:
  void fail(const char* name, const untyped_data& output, exec_place place = {}) {
    run(on_, place, {output.rw()}, boom, name);
  }
  untyped_context on_ = open("host", 2);
  const untyped_data t_ = on_.make_token("t");
  const untyped_data u_ = on_.make_token("u");
};

TEST_F(Failures, CarriesWhoWhatWhereAndWhy) {
  task_spec what;
  what.symbol = "bad";
  what.site = source_site("user.py", 12);
  const std::vector<task_dep> deps{t_.rw(), u_.write()};
  what.deps = deps;
  on_.submit(what, make_body(boom));
  run(on_, {}, {t_.read()}, nothing, "lost");
  on_.finish();
  const std::vector<failure> all = on_.take_failures();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].task, "task 'bad'");
  EXPECT_EQ(all[0].data, "'t', 'u'");
  EXPECT_EQ(all[0].task_id, 1U);
  EXPECT_EQ(all[0].skipped, 1U);
  EXPECT_STREQ(all[0].site.file, "user.py");
  EXPECT_EQ(all[0].site.line, 12U);
  EXPECT_EQ(cause_of(all[0]), "boom-42");
}

TEST_F(Failures, TaskWithoutANameIsNumbered) {
  run(on_, {}, {t_.write()}, nothing);
  run(on_, {}, {t_.write()}, boom);
  on_.finish();
  EXPECT_EQ(on_.take_failures().at(0).task, "task 2");
}

TEST_F(Failures, AreHandedOutOnceInSubmissionOrder) {
  fail("a", t_);
  fail("b", u_, exec_place::device(1));
  fail("c", on_.make_token(), exec_place::host());
  on_.finish();
  EXPECT_EQ(on_.take_failures(1).at(0).task, "task 'a'");
  const std::vector<failure> rest = on_.take_failures();
  ASSERT_EQ(rest.size(), 2U);
  EXPECT_EQ(rest[0].task, "task 'b'");
  EXPECT_EQ(rest[1].task, "task 'c'");
  EXPECT_TRUE(on_.take_failures().empty());
}

TEST_F(Failures, RaiseNestsTheFirstCauseAndListsAll) {
  fail("a", t_);
  fail("b", u_);
  try {
    on_.finalize();
    FAIL() << "nothing was thrown";
  } catch (const error& thrown) {
    EXPECT_EQ(thrown.code(), errc::task_failed);
    EXPECT_TRUE(contains(thrown.what(), "'a'") && contains(thrown.what(), "'b'")) << thrown.what();
    EXPECT_THROW(std::rethrow_if_nested(thrown), std::out_of_range);
  }
  EXPECT_NO_THROW(on_.finalize());
  EXPECT_TRUE(on_.is_finished());
}

TEST_F(Failures, RaiseOfNothingThrowsNothing) {
  EXPECT_NO_THROW(raise({}));
}

TEST_F(Failures, ForeignExceptionTypesAreKept) {
  run(on_, {}, {t_.write()}, [](const body_call&) { throw 42; }, "odd");
  on_.finish();
  const std::vector<failure> all = on_.take_failures();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_THROW(std::rethrow_exception(all[0].cause), int);
  EXPECT_EQ(thrown([&] { raise(all); }), errc::task_failed);
}

TEST_F(Failures, WaitOnPoisonNestsTheCauseAndDoesNotUseItUp) {
  fail("a", t_);
  for (int i = 0; i < 2; ++i) {
    try {
      on_.read_back(t_, nullptr);
      FAIL() << "nothing was thrown";
    } catch (const error& thrown) {
      EXPECT_EQ(thrown.code(), errc::poisoned);
      EXPECT_TRUE(contains(thrown.what(), "'t'") && contains(thrown.what(), "'a'"))
          << thrown.what();
      EXPECT_THROW(std::rethrow_if_nested(thrown), std::out_of_range);
    }
  }
  EXPECT_EQ(on_.take_failures().size(), 1U);
}

TEST_F(Failures, TaskDroppedWhileOpenCountsAsFailed) {
  {
    untyped_task task(on_);
    task.set_symbol("dropped");
    task.add_dep(t_.write());
    task.start();
  }
  std::string text;
  EXPECT_EQ(thrown([&] { on_.read_back(t_, nullptr); }, &text), errc::poisoned);
  EXPECT_TRUE(contains(text, "dropped")) << text;
  EXPECT_EQ(on_.stats().failed, 1U);
  on_.finalize();
}

TEST_F(Failures, StartOnPoisonCountsAsSkippedAndPoisonsItsOutputs) {
  fail("a", t_);
  untyped_task task(on_);
  task.add_dep(t_.read());
  task.add_dep(u_.write());
  EXPECT_EQ(thrown([&] { task.start(); }), errc::poisoned);
  EXPECT_FALSE(task.is_open());
  EXPECT_EQ(thrown([&] { on_.read_back(u_, nullptr); }), errc::poisoned);
  EXPECT_EQ(on_.stats().failed, 1U);
  EXPECT_EQ(on_.stats().skipped, 1U);
}

TEST_F(Failures, AreCounted) {
  fail("a", t_);
  run(on_, {}, {t_.read(), u_.write()}, nothing);
  run(on_, {}, {u_.rw()}, nothing);
  run(on_, {}, {u_.write()}, nothing);
  on_.finish();
  const context_stats seen = on_.stats();
  EXPECT_EQ(seen.tasks, 4U);
  EXPECT_EQ(seen.failed, 1U);
  EXPECT_EQ(seen.skipped, 2U);
}

}  // namespace
}  // namespace millstream::test
