// SPDX-License-Identifier: Apache-2.0
// The typed layer and the engine below it together allocate nothing per task in steady state.
#include "support.hpp"

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "base/sanitizer.hpp"

namespace {
std::atomic<long> allocation_count{0};
}  // namespace

// Not inlined, or the compiler sees `free` given what `new` gave, and warns.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* block = std::malloc(bytes == 0 ? 1 : bytes)) return block;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* block) noexcept {
  std::free(block);
}
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}

namespace {

/// Heap allocations during 1,000 calls, after 1,000 calls that fill the pools.
template <class Submit>
long allocations_per_thousand(const Submit& submit) {
  for (int i = 0; i < 1000; ++i)
    submit();
  const long before = allocation_count.load();
  for (int i = 0; i < 1000; ++i)
    submit();
  return allocation_count.load() - before;
}

class Allocations : public ::testing::Test {
 protected:
  void SetUp() override {
    if (millstream::base::address_sanitizer || millstream::base::thread_sanitizer) {
      GTEST_SKIP() << "the pools hand everything to the heap under sanitizers";
    }
  }
  ms::context ctx{ms::machine({.name = "null", .devices = 1, .seed = {}})};
  std::vector<double> x = std::vector<double>(64, 1.0);
  std::vector<double> y = std::vector<double>(64, 1.0);
  ms::logical_data<double, 1> lx = ctx.logical_data(x);
  ms::logical_data<double, 1> ly = ctx.logical_data(y);
};

}  // namespace

TEST_F(Allocations, ChainOfTasksAllocatesNothing) {
  EXPECT_EQ(allocations_per_thousand([&] {
              ctx.task(lx.read(), ly.rw(), [a = 2.0](auto u, auto v) { v[0] += a * u[0]; });
            }),
            0);
}

TEST_F(Allocations, NamedTasksAllocateNothing) {
  EXPECT_EQ(allocations_per_thousand([&] { ctx.task({.symbol = "t"}, ly.rw(), [](auto) {}); }), 0);
}

TEST_F(Allocations, StartedTasksOfEightDependenciesAllocateNothing) {
  std::vector<ms::logical_data<double>> inputs;
  for (int i = 0; i < 7; ++i) {
    inputs.push_back(ctx.logical_data<double>(8));
    ctx.task(inputs.back().write(), [](auto) {});
  }
  EXPECT_EQ(allocations_per_thousand([&] {
              auto t = ctx.task();
              t.add_deps(ly.rw());
              for (const auto& input : inputs)
                t.add_deps(input.read());
              t.start();
              t.end();
            }),
            0);
}

TEST_F(Allocations, TokenChainAllocatesNothing) {
  const auto order = ctx.token();
  EXPECT_EQ(allocations_per_thousand([&] { ctx.task(order.rw(), [] {}); }), 0);
}

TEST_F(Allocations, LoopsAllocateNothing) {
  const auto sum = ctx.logical_data<double>();
  EXPECT_EQ(allocations_per_thousand([&] {
              ctx.parallel_for(lx.shape(), lx.read(), sum.reduce(ms::reducer::sum<double>{}),
                               [](auto i, auto v, double& partial) { partial += v[i]; });
            }),
            0);
}
