// SPDX-License-Identifier: Apache-2.0
/// What the null machine promises beyond the contract.
#include "backend/null/machine.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
namespace millstream::backend::null {
namespace {

class flag_job final : public job {
 public:
  void run() noexcept override { ran = true; }
  void discard() noexcept override { discarded = true; }
  bool ran = false;
  bool discarded = false;
};

std::unique_ptr<machine> open_machine(const null_options& more = {}, int devices = 0) {
  auto opened = open_with({.devices = devices, .seed = {}}, more);
  if (!opened) throw std::runtime_error(opened.why().text());
  return std::move(opened.value());
}

TEST(NullMachine, HasOneDeviceUnlessAsked) {
  EXPECT_EQ(open_machine()->device_count(), 1);
  EXPECT_EQ(open_machine({}, 64)->device_count(), 64);
}

TEST(NullMachine, JobsAreDiscardedAtOnce) {
  const auto machine = open_machine();
  for (device* each : {&machine->at(0), &machine->host()}) {
    const auto queue = std::move(each->make_queue().value());
    flag_job job;
    EXPECT_TRUE(queue->run(job).ok());
    EXPECT_TRUE(job.discarded);
    EXPECT_FALSE(job.ran);
  }
}

TEST(NullMachine, WithoutTheBitOnlyHostQueuesTakeJobs) {
  const auto machine = open_machine({.runs_jobs = false});
  EXPECT_FALSE(machine->capabilities().has(capability::runs_jobs));
  flag_job job;
  EXPECT_EQ(machine->at(0).make_queue().value()->run(job).code(), errc::unsupported);
  EXPECT_FALSE(job.discarded);
  EXPECT_TRUE(machine->host().make_queue().value()->run(job).ok());
}

TEST(NullMachine, EveryCallIsCounted) {
  const auto machine = open_machine();
  const auto queue = std::move(machine->at(0).make_queue().value());
  const auto event = std::move(machine->at(0).make_event().value());
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(queue->record(*event).ok());
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(queue->wait(*event).ok());
  EXPECT_TRUE(queue->copy({}).ok());
  EXPECT_TRUE(queue->fill({}).ok());
  call_counts expected{};
  expected[static_cast<std::size_t>(call::make_queue)] = 1;
  expected[static_cast<std::size_t>(call::make_event)] = 1;
  expected[static_cast<std::size_t>(call::record)] = 3;
  expected[static_cast<std::size_t>(call::wait)] = 2;
  expected[static_cast<std::size_t>(call::copy)] = 1;
  expected[static_cast<std::size_t>(call::fill)] = 1;
  EXPECT_EQ(machine->calls(), expected);
}

TEST(NullMachine, EventsAreAlwaysDone) {
  const auto machine = open_machine();
  const auto event = std::move(machine->at(0).make_event().value());
  EXPECT_TRUE(event->is_done().value());
  EXPECT_TRUE(event->wait_for(std::chrono::milliseconds(0)).value());
}

TEST(NullMachine, MemoryMayBeTouched) {
  const auto machine = open_machine();
  const auto queue = std::move(machine->at(0).make_queue().value());
  auto* block = static_cast<std::byte*>(machine->at(0).allocate(1U << 30U, *queue).value());
  block[0] = std::byte{1};
  block[(1U << 30U) - 1] = std::byte{2};
  EXPECT_EQ(block[1U << 20U], std::byte{0});
  EXPECT_TRUE(machine->at(0).release(block, 1U << 30U, *queue).ok());
  EXPECT_EQ(machine->at(0).memory().used_bytes, 0U);
}

TEST(NullMachine, MemoryIsLimitedAsAsked) {
  const auto machine = open_machine({.memory_bytes = 1000});
  const auto queue = std::move(machine->at(0).make_queue().value());
  EXPECT_EQ(machine->at(0).allocate(1001, *queue).why().code(), errc::out_of_memory);
}

}  // namespace
}  // namespace millstream::backend::null
