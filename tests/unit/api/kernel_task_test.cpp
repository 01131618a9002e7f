// SPDX-License-Identifier: Apache-2.0
// Kernel tasks on the host machine, where a launch calls a host function once.
#include "support.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using launcher = ms::kernel_launcher;

void axpy(double alpha, const double* x, double* y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    y[i] += alpha * x[i];
}
void add(double* y, std::size_t count, double what) {
  for (std::size_t i = 0; i < count; ++i)
    y[i] += what;
}
void scale(double* y, std::size_t count, double by) {
  for (std::size_t i = 0; i < count; ++i)
    y[i] *= by;
}

using KernelTask = Api;

TEST_F(KernelTask, CallsAHostFunctionOnceWithExactlyItsArguments) {
  const std::vector<double> x(100, 1.0);
  std::vector<double> y(100, 0.0);
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  ctx.kernel_task(lx.read(), ly.rw(), [](launcher& k, auto a, auto b) {
    k.launch(axpy, 4, 32, 0.5, a.data(), b.data(), b.size());
  });
  ctx.finalize();
  EXPECT_EQ(y, std::vector<double>(100, 0.5));
}

TEST_F(KernelTask, LaunchesOfATaskRunInOrder) {
  std::vector<double> y(10, 1.0);
  const auto ly = ctx.logical_data(y);
  ctx.kernel_task({.symbol = "chain"}, ly.rw(), [](launcher& k, ms::view<double> v) {
    k.launch(add, 1, 1, v.data(), v.size(), 2);
    k.launch(scale, 1, 1, v.data(), v.size(), 10);
    k.launch(add, 1, 1, v.data(), v.size(), 0.5);
  });
  ctx.finalize();
  EXPECT_EQ(y, std::vector<double>(10, 30.5));
}

// A03: each launch owns its arguments, also those that were temporaries.
TEST_F(KernelTask, EachLaunchKeepsItsOwnArgumentsA03) {
  std::vector<double> y(10, 0.0);
  const auto ly = ctx.logical_data(y);
  ctx.kernel_task(ly.rw(), [](launcher& k, ms::view<double> v) {
    double what = 1.0;
    for (int i = 0; i < 3; ++i, what *= 10.0)
      k.launch(add, 1, 1, v.data(), v.size(), what);
  });
  ctx.finalize();
  EXPECT_EQ(y, std::vector<double>(10, 111.0));
}

TEST_F(KernelTask, AccumulatesInSubmissionOrder) {
  std::vector<double> y(10, 0.0);
  const auto ly = ctx.logical_data(y);
  for (int i = 0; i < 50; ++i) {
    ctx.kernel_task(ms::exec_place::device(i % 2), ly.rw(),
                    [i](launcher& k, auto v) { k.launch(add, 1, 1, v.data(), v.size(), i); });
  }
  ctx.finalize();
  EXPECT_EQ(y, std::vector<double>(10, 50.0 * 49.0 / 2.0));
}

TEST_F(KernelTask, BodyIsCalledAtOnceAndItsKernelsWhenTheDataAreReady) {
  gate closed;
  open_at_exit opener(closed);
  const auto data = ctx.logical_data<double>(4);
  bool called = false;
  ctx.task(data.write(), [closed](ms::view<double> v) {
    closed.wait();
    for (double& each : v)
      each = 1.0;
  });
  ctx.kernel_task(data.rw(), [&](launcher& k, auto v) {
    called = true;
    k.launch(add, 1, 1, v.data(), v.size(), 1.0);
  });
  EXPECT_TRUE(called);
  opener.open();
  EXPECT_EQ(ctx.wait(data)(3), 2.0);
}

TEST_F(KernelTask, TokensOrderAndGiveNoView) {
  static std::atomic<int> calls{0};
  calls = 0;
  const auto token = ctx.token();
  const auto count = +[] { ++calls; };
  ctx.kernel_task(token.rw(), [&](launcher& k) { k.launch(count, {.grid = 2, .block = {2, 2}}); });
  ctx.kernel_task([&](launcher& k) { k.launch(count, 1, 1); });
  ctx.finalize();
  EXPECT_EQ(calls, 2);
}

TEST_F(KernelTask, ShapesMustBePositive) {
  std::vector<double> y(4, 1.0);
  const auto ly = ctx.logical_data(y).set_symbol("y");
  const auto with = [&](const ms::launch_config& how) {
    ctx.kernel_task({.symbol = "bad"}, ly.rw(),
                    [&](launcher& k, auto v) { k.launch(add, how, v.data(), v.size(), 1.0); });
  };
  EXPECT_ERROR(ms::errc::invalid_value, "with grid (0, 1, 1); give positive", with({.grid = 0}));
  EXPECT_ERROR(ms::errc::invalid_value, "with block (4, -1, 1); give positive",
               with({.block = {4, -1}}));
  EXPECT_ERROR(ms::errc::invalid_value, "task 'bad' (", with({.grid = std::int64_t{1} << 31}));
  EXPECT_ERROR(ms::errc::invalid_value, "do not divide its grid", with({.grid = 3, .cluster = 2}));
  EXPECT_ERROR(ms::errc::invalid_value, "less than 4 GiB",
               with({.shared_bytes = std::uint64_t{1} << 32}));
  // The data are as they were.
  with({.grid = 2, .block = 2});
  ctx.finalize();
  EXPECT_EQ(y, std::vector<double>(4, 2.0));
}

TEST_F(KernelTask, RefusedLaunchTakesTheOnesBeforeWithIt) {
  const auto data = ctx.logical_data<double>(4).set_symbol("x");
  EXPECT_ERROR(ms::errc::invalid_value, "positive",
               ctx.kernel_task(data.write(), [](launcher& k, auto v) {
                 k.launch(add, 1, 1, v.data(), v.size(), 1.0);
                 k.launch(add, 0, 1, v.data(), v.size(), 1.0);
               }));
  EXPECT_ERROR(ms::errc::not_written, "'x'", ctx.wait(data));
  ctx.finalize();
}

TEST_F(KernelTask, BodyThatThrowsFailsTheTask) {
  const auto data = ctx.logical_data<double>(4).set_symbol("x");
  EXPECT_THROW(ctx.kernel_task({.symbol = "maker"}, data.write(),
                               [](launcher&, auto) { throw std::runtime_error("no kernel"); }),
               std::runtime_error);
  EXPECT_ERROR(ms::errc::poisoned, "'maker'", ctx.wait(data));
  ctx.finalize();  // it was thrown already
}

TEST_F(KernelTask, PoisonedInputSkipsTheTask) {
  const auto x = ctx.logical_data<double>(4).set_symbol("x");
  const auto y = ctx.logical_data<double>(4).set_symbol("y");
  int calls = 0;
  ctx.task({.symbol = "broken"}, x.write(),
           [](ms::view<double>) { throw std::runtime_error("boom"); });
  ctx.kernel_task(x.rw(), [](launcher& k, auto v) { k.launch(add, 1, 1, v.data(), v.size(), 1); });
  EXPECT_ERROR(ms::errc::task_failed, "boom", ctx.wait(x));
  ctx.kernel_task(x.read(), y.write(), [&](launcher&, auto, auto) { ++calls; });
  EXPECT_EQ(calls, 0);
  EXPECT_ERROR(ms::errc::poisoned, "'broken'", ctx.wait(y));
  EXPECT_EQ(ctx.stats().skipped, 2U);
  ctx.finalize();
}

TEST_F(KernelTask, ExceptionOfAHostFunctionBelongsToTheTask) {
  const auto x = ctx.logical_data<double>(4);
  const auto fail = +[](double*) { throw std::runtime_error("in a kernel"); };
  ctx.kernel_task({.symbol = "thrower"}, x.write(),
                  [&](launcher& k, auto v) { k.launch(fail, 1, 1, v.data()); });
  EXPECT_ERROR(ms::errc::task_failed, "'thrower'", ctx.wait(x));
}

TEST_F(KernelTask, DeviceCodeAndTheHostPlaceAreRefusedHere) {
  const auto x = ctx.logical_data<double>(4).set_symbol("x");
  const ms::device_kernel native(std::uint64_t{4096});
  EXPECT_ERROR(
      ms::errc::unsupported, "machine 'host' cannot run; give a host function",
      ctx.kernel_task(x.write(), [&](launcher& k, auto v) { k.launch(native, 1, 1, v.data()); }));
  EXPECT_ERROR(ms::errc::invalid_value, "leave the host place out",
               ctx.kernel_task(ms::exec_place::host(), x.write(), [](launcher&, auto) {}));
  // A kernel with both runs the one that fits.
  const ms::kernel both(native, +[](double* to) { *to = 7.0; });
  ctx.kernel_task(x.write(), [&](launcher& k, auto v) { k.launch(both, 1, 1, v.data()); });
  EXPECT_EQ(ctx.wait(x)(0), 7.0);
  ctx.finalize();
}

TEST_F(KernelTask, RecordsItsKind) {
  const auto recorder = ms::make_trace_recorder();
  ms::context_options options;
  options.on = host_machine();
  options.listener = recorder;
  ms::context traced(options);
  const auto x = traced.logical_data<double>(4);
  traced.kernel_task({.symbol = "set"}, x.write(), [](launcher& k, auto v) {
    k.launch(+[](double* to) { *to = 1.0; }, 1, 1, v.data());
  });
  traced.finalize();
  const ms::trace_snapshot seen = recorder->snapshot();
  ASSERT_EQ(seen.nodes.size(), 1U);
  EXPECT_EQ(seen.nodes[0].kind, ms::task_kind::cuda_kernel);
  EXPECT_EQ(seen.nodes[0].name, "set");
  EXPECT_GE(seen.nodes[0].ended_ns, seen.nodes[0].began_ns);
  EXPECT_GT(seen.nodes[0].began_ns, 0U);
}

TEST_F(KernelTask, MovedFromTaskOrOtherKindCannotLaunch) {
  ms::untyped_task task(ctx);
  task.start();
  ms::device_kernel none;
  EXPECT_ERROR(ms::errc::usage, "is no kernel task", task.launch({&none, {}, {}, nullptr}));
  task.end();
}

}  // namespace
