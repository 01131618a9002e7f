// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <sys/resource.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

using Errors = Api;

namespace {

std::string cause_of(const ms::error& outer) {
  try {
    std::rethrow_if_nested(outer);
  } catch (const std::exception& cause) {
    return cause.what();
  }
  return "";
}

}  // namespace

TEST_F(Errors, ExceptionOfABodyComesFromFinalizeWithTheTasksName) {
  const auto data = ctx.logical_data<int>();
  ctx.host_launch({.symbol = "callback"}, data.write(),
                  [](auto) { throw std::invalid_argument("boom-42"); });
  try {
    ctx.finalize();
    FAIL() << "finalize threw nothing";
  } catch (const ms::error& thrown) {
    EXPECT_EQ(thrown.code(), ms::errc::task_failed);
    EXPECT_NE(std::string(thrown.what()).find("callback"), std::string::npos) << thrown.what();
    EXPECT_EQ(cause_of(thrown), "boom-42");
  }
  EXPECT_NO_THROW(ctx.finalize());
  ms::context next(host_machine());
  EXPECT_NO_THROW(next.finalize());
}

TEST_F(Errors, WaitThrowsTheFailureThatLeftTheDatumWithoutAValue) {
  const auto data = ctx.logical_data<int>();
  ctx.task({.symbol = "producer"}, data.write(),
           [](auto) { throw std::runtime_error("no input"); });
  EXPECT_ERROR(ms::errc::task_failed, "no input", static_cast<void>(ctx.wait(data)));
  EXPECT_ERROR(ms::errc::poisoned, "producer", static_cast<void>(ctx.wait(data)));
  EXPECT_NO_THROW(ctx.finalize());
}

TEST_F(Errors, WaitOnHealthyDataThrowsAFailureNobodyHasSeen) {
  int value = 1;
  const auto healthy = ctx.logical_data(value);
  const auto order = ctx.token();
  ctx.task(order.rw(), [] { throw std::runtime_error("elsewhere"); });
  ctx.task(order.write(), healthy.rw(), [](auto v) { ++*v; });
  EXPECT_ERROR(ms::errc::task_failed, "elsewhere", static_cast<void>(ctx.wait(healthy)));
  EXPECT_EQ(ctx.wait(healthy), 2);
  ctx.finalize();
}

TEST_F(Errors, ReadersOfAFailedTaskAreSkippedAndOthersRun) {
  int x = 1;
  int y = 0;
  int copy = 5;
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  const auto l_copy = ctx.logical_data(copy);
  ctx.task(lx.write(), [](auto v) {
    *v = 99;
    throw std::runtime_error("half way");
  });
  ctx.task(lx.read(), l_copy.write(), [](auto from, auto to) { *to = *from; });
  ctx.task(ly.rw(), [](auto v) { *v = 7; });
  EXPECT_ERROR(ms::errc::task_failed, "half way", ctx.finalize());
  EXPECT_EQ(x, 1);     // not written back
  EXPECT_EQ(copy, 5);  // its task was skipped
  EXPECT_EQ(y, 7);
  EXPECT_EQ(ctx.stats().failed, 1U);
  EXPECT_EQ(ctx.stats().skipped, 1U);
}

TEST_F(Errors, WriteHealsPoisonedData) {
  const auto data = ctx.logical_data<int>();
  ctx.task(data.write(), [](auto) { throw std::runtime_error("first"); });
  ctx.task(data.write(), [](auto v) { *v = 4; });
  EXPECT_ERROR(ms::errc::task_failed, "first", ctx.wait(data));
  EXPECT_EQ(ctx.wait(data), 4);
}

TEST_F(Errors, SeveralFailuresAreThrownTogether) {
  for (const char* text : {"one", "two"}) {
    ctx.task([text] { throw std::runtime_error(text); });
  }
  const ms::error thrown = error_of([&] { ctx.finalize(); });
  EXPECT_NE(std::string(thrown.what()).find("one"), std::string::npos) << thrown.what();
  EXPECT_NE(std::string(thrown.what()).find("two"), std::string::npos) << thrown.what();
}

TEST_F(Errors, WhatIsNoExceptionClassFailsTheTaskToo) {
  ctx.task([] { throw 42; });  // NOLINT(hicpp-exception-baseclass)
  EXPECT_ERROR(ms::errc::task_failed, "", ctx.finalize());
}

TEST_F(Errors, DataOfAnotherContextIsRefused) {
  ms::context other(host_machine());
  int value = 1;
  const auto data = other.logical_data(value).set_symbol("foreign");
  EXPECT_ERROR(ms::errc::invalid_value, "foreign", ctx.task(data.read(), [](auto) {}));
}

TEST_F(Errors, UseAfterFinalizeIsRefused) {
  int value = 1;
  const auto data = ctx.logical_data(value);
  ctx.finalize();
  EXPECT_ERROR(ms::errc::usage, "task was called on a context that was finalized", ctx.task([] {}));
  EXPECT_ERROR(ms::errc::usage, "task was called", ctx.task().start());
  EXPECT_ERROR(ms::errc::usage, "host_launch was called", ctx.host_launch([] {}));
  EXPECT_ERROR(ms::errc::usage, "parallel_for was called", ctx.parallel_for(1, [](std::size_t) {}));
  EXPECT_ERROR(ms::errc::usage, "fill was called", ctx.fill(data, 1));
  EXPECT_ERROR(ms::errc::usage, "wait was called", static_cast<void>(ctx.wait(data)));
  EXPECT_ERROR(ms::errc::usage, "fence was called", static_cast<void>(ctx.fence()));
  EXPECT_ERROR(ms::errc::usage, "token was called", static_cast<void>(ctx.token()));
  EXPECT_ERROR(ms::errc::usage, "logical_data was called",
               static_cast<void>(ctx.logical_data(value)));
}

TEST_F(Errors, WaitInABodyForDataOfThatBodyIsRefused) {
  int value = 1;
  const auto data = ctx.logical_data(value);
  ms::context_ref ref = ctx;
  ctx.task(data.rw(), [ref, data](auto) mutable { ref.wait(data); });
  EXPECT_ERROR(ms::errc::task_failed, "wait", ctx.finalize());
}

TEST_F(Errors, FinalizeInABodyIsRefused) {
  ms::context_ref ref = ctx;
  ctx.task([ref]() mutable { ref.finalize(); });
  EXPECT_ERROR(ms::errc::task_failed, "finalize was called inside task ", ctx.finalize());
}

TEST_F(Errors, MessagesNameTheLineOfTheDependency) {
  const auto data = ctx.logical_data<double>(4).set_symbol("fresh");
  EXPECT_ERROR(ms::errc::not_written, "errors_test.cpp", ctx.task(data.read(), [](auto) {}));
}

TEST_F(Errors, HugeDataThatNothingHasWrittenSaySoBeforeThereIsMemoryForThem) {
  const auto data = ctx.logical_data<double>(std::size_t{1} << 45U).set_symbol("fresh");
  EXPECT_ERROR(ms::errc::not_written, "wait reads 'fresh'", static_cast<void>(ctx.wait(data)));
}

TEST(ErrorsOfNull, WaitWithoutMemoryForItsCopyNamesTheDatum) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer ends the process where operator new throws";
#else
  ms::context ctx(ms::machine({.name = "null", .devices = 1, .seed = {}}));
  const auto data = ctx.logical_data<double>(std::size_t{1} << 36U).set_symbol("huge");
  ms::dynamic_task writer = ctx.task();
  writer.add_deps(data.write());
  writer.start();
  writer.end();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit none{.rlim_cur = 1U << 20U, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  const ms::error thrown = error_of([&] { static_cast<void>(ctx.wait(data)); });
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(thrown.code(), ms::errc::out_of_memory);
  EXPECT_STREQ(
      thrown.what(),
      "wait has no memory for a copy of data 'huge' with 549755813888 bytes; free some, or "
      "use the data in a task");
  ctx.finalize();
#endif
}

TEST_F(Errors, OutOfBoundsIndexFailsTheTaskInCheckedBuilds) {
#if MILLSTREAM_BOUNDS_CHECK
  const auto data = ctx.logical_data<int>(3);
  ctx.task(data.write(), [](auto v) { v[3] = 1; });
  EXPECT_ERROR(ms::errc::task_failed, "index 3 is outside dimension 0 of extent 3", ctx.finalize());
#else
  GTEST_SKIP() << "built without MILLSTREAM_BOUNDS_CHECK";
#endif
}
