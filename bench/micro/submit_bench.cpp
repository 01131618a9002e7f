// SPDX-License-Identifier: Apache-2.0
// The library's own cost per task, on the machine that runs nothing, in processor time of the
// submitting thread. Times are for information; `vs_lookups` compares with the yardstick, an
// ordered list of hash look-ups of the same length (one per task) measured in the same run, and
// carries over between computers.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <unordered_map>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

namespace {

constexpr std::size_t list_length = 10000;

/// Tasks per iteration, so that reading the clock costs nothing per task.
constexpr int tasks_per_batch = 1000;

/// Processor time of this thread, so that other programs on the computer count less.
double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// A list in a hash table: each entry says the key of the next one.
class lookup_list {
 public:
  lookup_list() {
    for (std::uint64_t i = 0; i < list_length; ++i)
      next_.emplace(key(i), key(i + 1));
  }
  /// Walks the whole list.
  [[nodiscard]] std::uint64_t walk() const {
    std::uint64_t at = key(0);
    for (std::size_t i = 0; i < list_length; ++i)
      at = next_.find(at)->second;
    return at;
  }

 private:
  [[nodiscard]] static std::uint64_t key(std::uint64_t i) { return i * 0x9E3779B97F4A7C15U; }
  std::unordered_map<std::uint64_t, std::uint64_t> next_;
};

/// Nanoseconds per look-up, the best of several walks, once per run.
double yardstick_ns() {
  static const double best = [] {
    const lookup_list list;
    double least = 1e30;
    for (int i = 0; i < 50; ++i) {
      const double begin = cpu_ns();
      benchmark::DoNotOptimize(list.walk());
      least = std::min(least, (cpu_ns() - begin) / static_cast<double>(list_length));
    }
    return least;
  }();
  return best;
}

ms::context null_context() {
  return ms::context(ms::machine({.name = "null", .devices = 1, .seed = {}}));
}

/// Runs `submit` for batches of tasks and reports per task.
template <class Submit>
void per_task(benchmark::State& state, ms::context& ctx, const Submit& submit) {
  const double yardstick = yardstick_ns();
  double took = 0;
  for (auto _ : state) {
    const double begin = cpu_ns();
    for (int i = 0; i < tasks_per_batch; ++i)
      submit();
    took += cpu_ns() - begin;
  }
  ctx.finalize();
  const double tasks = static_cast<double>(state.iterations()) * tasks_per_batch;
  const double per = took / tasks;
  state.SetItemsProcessed(state.iterations() * tasks_per_batch);
  state.counters["ns_per_task"] = per;
  state.counters["vs_lookups"] = per / yardstick;
}

void yardstick(benchmark::State& state) {
  const lookup_list list;
  for (auto _ : state)
    benchmark::DoNotOptimize(list.walk());
  state.counters["ns_per_lookup"] = yardstick_ns();
}
BENCHMARK(yardstick);

void empty_task_read_rw(benchmark::State& state) {
  std::vector<double> x(64);
  std::vector<double> y(64);
  ms::context ctx = null_context();
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  per_task(state, ctx, [&] { ctx.task(lx.read(), ly.rw(), [](auto, auto) {}); });
}
BENCHMARK(empty_task_read_rw);

void empty_task_three_deps(benchmark::State& state) {
  std::vector<double> x(64);
  std::vector<double> y(64);
  std::vector<double> z(64);
  ms::context ctx = null_context();
  const auto lx = ctx.logical_data(x);
  const auto ly = ctx.logical_data(y);
  const auto lz = ctx.logical_data(z);
  per_task(state, ctx, [&] { ctx.task(lx.read(), ly.read(), lz.rw(), [](auto, auto, auto) {}); });
}
BENCHMARK(empty_task_three_deps);

void token_chain(benchmark::State& state) {
  ms::context ctx = null_context();
  const auto order = ctx.token();
  per_task(state, ctx, [&] { ctx.task(order.rw(), [] {}); });
}
BENCHMARK(token_chain);

void no_dependency(benchmark::State& state) {
  ms::context ctx = null_context();
  per_task(state, ctx, [&] { ctx.task([] {}); });
}
BENCHMARK(no_dependency);

void fresh_temporary(benchmark::State& state) {
  ms::context ctx = null_context();
  per_task(state, ctx, [&] {
    const auto temporary = ctx.logical_data<double>(64);
    ctx.task(temporary.write(), [](auto) {});
  });
}
BENCHMARK(fresh_temporary);

void loop_with_reduction(benchmark::State& state) {
  std::vector<double> x(64);
  ms::context ctx = null_context();
  const auto lx = ctx.logical_data(x);
  const auto sum = ctx.logical_data<double>();
  per_task(state, ctx, [&] {
    ctx.parallel_for(lx.shape(), lx.read(), sum.reduce(ms::reducer::sum<double>{}),
                     [](auto i, auto v, double& partial) { partial += v[i]; });
  });
}
BENCHMARK(loop_with_reduction);

/// What the typed layer adds: the same task as empty_task_read_rw, written without types.
void untyped_submit_read_rw(benchmark::State& state) {
  std::vector<double> x(64);
  std::vector<double> y(64);
  ms::context ctx = null_context();
  const ms::untyped_data lx = ctx.logical_data(x);
  const ms::untyped_data ly = ctx.logical_data(y);
  per_task(state, ctx, [&] {
    const std::array<ms::task_dep, 2> deps{lx.read(), ly.rw()};
    ms::task_spec spec;
    spec.deps = deps;
    ctx.submit(spec, ms::make_body([](const ms::body_call&) {}));
  });
}
BENCHMARK(untyped_submit_read_rw);

}  // namespace
