// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "backend/call_gate.hpp"
#include "backend/guarded.hpp"
#include "backend/missing.hpp"
#include "backend/queue_number.hpp"

namespace millstream::backend {
namespace {

std::uint64_t count(const call_gate& gate, call kind) {
  return gate.counts()[static_cast<std::size_t>(kind)];
}

TEST(CallGate, CountsOnDemandOrAlways) {
  call_gate quiet(call_gate::counting::on_demand);
  call_gate counting(call_gate::counting::always);
  for (call_gate* each : {&quiet, &counting})
    EXPECT_TRUE(each->pass(call::copy, "x").ok());
  EXPECT_EQ(count(quiet, call::copy), 0U);
  EXPECT_EQ(count(counting, call::copy), 1U);
  quiet.set_plan({});
  EXPECT_TRUE(quiet.pass(call::copy, "x").ok());
  EXPECT_EQ(count(quiet, call::copy), 1U);
}

TEST(CallGate, ThePlansCountStartsWhenItIsSet) {
  call_gate gate(call_gate::counting::always);
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(gate.pass(call::fill, "x").ok());
  gate.set_plan({.kind = call::fill, .any = false, .nth = 2, .rate = 0.0, .seed = 0});
  EXPECT_TRUE(gate.pass(call::fill, "x").ok());
  EXPECT_TRUE(gate.pass(call::copy, "x").ok());
  EXPECT_EQ(gate.pass(call::fill, "x").text(),
            "x failed 'fill' by an injected fault; clear the fault plan");
  EXPECT_TRUE(gate.pass(call::fill, "x").ok());
}

TEST(CallGate, ThreadsCountTogether) {
  call_gate gate(call_gate::counting::always);
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&] {
      for (int i = 0; i < 1000; ++i)
        static_cast<void>(gate.pass(call::record, "x"));
    });
  }
  for (std::thread& each : users)
    each.join();
  EXPECT_EQ(count(gate, call::record), 4000U);
}

TEST(CallGate, ExactlyOneOfManyThreadsMeetsTheNthCall) {
  call_gate gate(call_gate::counting::on_demand);
  gate.set_plan({.kind = call::wait, .any = false, .nth = 1500, .rate = 0.0, .seed = 0});
  std::atomic<int> failures{0};
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        if (!gate.pass(call::wait, "x")) failures.fetch_add(1);
      }
    });
  }
  for (std::thread& each : users)
    each.join();
  EXPECT_EQ(failures, 1);
}

TEST(Guarded, ExceptionsBecomeStatuses) {
  const status memory = guarded("x", []() -> status { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code(), errc::out_of_memory);
  const result<int> other = guarded("x", []() -> result<int> { throw std::runtime_error("odd"); });
  EXPECT_EQ(other.why().code(), errc::internal);
  EXPECT_EQ(other.why().text(), "x odd");
  EXPECT_TRUE(guarded("x", [] { return status(); }).ok());
}

TEST(Missing, NamesTheCapability) {
  const status answer = missing("device 'x'", "build graphs", capability::graphs);
  EXPECT_EQ(answer.code(), errc::unsupported);
  EXPECT_EQ(answer.text(),
            "device 'x' cannot build graphs; choose a machine with the capability 'graphs'");
}

TEST(QueueNumber, NeverZeroAndNeverTheSame) {
  std::set<std::uint64_t> numbers;
  for (int i = 0; i < 1000; ++i)
    EXPECT_TRUE(numbers.insert(next_queue_number()).second);
  EXPECT_GE(*numbers.begin(), 16U);
}

}  // namespace
}  // namespace millstream::backend
