// SPDX-License-Identifier: Apache-2.0
/// What the null machine promises beyond the contract.
#include "backend/null/machine.hpp"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "tests/unit/core/heap_meter.hpp"

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

class NullGraphs : public testing::Test {
 protected:
  /// Of one kind, since the machine was opened.
  [[nodiscard]] std::uint64_t count(call kind) const {
    return machine_->calls()[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] std::unique_ptr<graph> new_graph() {
    return std::move(machine_->at(0).make_graph().value());
  }
  std::unique_ptr<machine> machine_ = open_machine({}, 2);
};

TEST_F(NullGraphs, NodesAreCountedByKind) {
  const auto graph = new_graph();
  const auto child = new_graph();
  flag_job job;
  EXPECT_TRUE(child->add_fill({}, {}).ok());
  const graph_node first = graph->add_kernel({}, {}).value();
  EXPECT_TRUE(graph->add_copy({}, std::array{first}).ok());
  EXPECT_TRUE(graph->add_host(job, 1, {}).ok());
  EXPECT_TRUE(graph->add_host(job, -1, {}).ok());
  EXPECT_TRUE(graph->add_child(*child, {}).ok());
  EXPECT_EQ(count(call::kernel_node), 1U);
  EXPECT_EQ(count(call::copy_node), 1U);
  EXPECT_EQ(count(call::fill_node), 1U);
  EXPECT_EQ(count(call::host_node), 2U);
  EXPECT_EQ(count(call::child_node), 1U);
  EXPECT_EQ(count(call::graph_add), 6U);
  EXPECT_EQ(count(call::make_graph), 2U);
  EXPECT_EQ(graph->node_count(), 5U);
}

TEST_F(NullGraphs, ARefusedNodeIsNotCounted) {
  const auto graph = new_graph();
  const auto other = new_graph();
  const graph_node foreign = other->add_fill({}, {}).value();
  EXPECT_EQ(graph->add_fill({}, std::array{foreign}).why().code(), errc::invalid_value);
  EXPECT_EQ(count(call::fill_node), 1U);
  EXPECT_EQ(count(call::graph_add), 2U);
}

TEST_F(NullGraphs, CallsOnARecordedQueueBecomeNodes) {
  const auto graph = new_graph();
  const auto queue = std::move(machine_->at(0).make_queue().value());
  EXPECT_TRUE(graph->begin_body(*queue, {}).ok());
  EXPECT_TRUE(queue->launch({}).ok());
  EXPECT_TRUE(queue->copy({}).ok());
  node_list last;
  EXPECT_TRUE(graph->end_body(*queue, last).ok());
  EXPECT_TRUE(queue->launch({}).ok());
  EXPECT_EQ(graph->node_count(), 2U);
  EXPECT_EQ(count(call::kernel_node), 1U);
  EXPECT_EQ(count(call::launch), 2U);
  EXPECT_EQ(count(call::graph_body), 2U);
  EXPECT_EQ(last.size(), 1U);
}

TEST_F(NullGraphs, ALaunchDiscardsTheJobsAtOnceThoseOfChildrenToo) {
  const auto graph = new_graph();
  const auto child = new_graph();
  flag_job own;
  flag_job inner;
  EXPECT_TRUE(child->add_host(inner, 0, {}).ok());
  EXPECT_TRUE(graph->add_host(own, 0, {}).ok());
  EXPECT_TRUE(graph->add_child(*child, {}).ok());
  const auto whole = std::move(graph->instantiate().value());
  const auto queue = std::move(machine_->at(0).make_queue().value());
  EXPECT_FALSE(own.discarded);
  EXPECT_TRUE(whole->launch(*queue).ok());
  EXPECT_TRUE(own.discarded && inner.discarded);
  EXPECT_FALSE(own.ran || inner.ran);
  EXPECT_EQ(count(call::graph_launch), 1U);
}

TEST_F(NullGraphs, WithoutJobsACopyIsLeftOutWhenItIsAdded) {
  const auto machine = open_machine({.runs_jobs = false});
  const auto graph = std::move(machine->at(0).make_graph().value());
  std::atomic<void*> word{&word};
  copy_request request;
  request.skip_when = &word;
  EXPECT_EQ(graph->add_copy(request, {}).value(), graph_node::none);
  word = nullptr;
  EXPECT_NE(graph->add_copy(request, std::array{graph_node::none}).value(), graph_node::none);
  EXPECT_EQ(graph->node_count(), 1U);
  flag_job job;
  EXPECT_EQ(graph->add_host(job, 0, {}).why().code(), errc::unsupported);
  EXPECT_TRUE(graph->add_host(job, -1, {}).ok());
}

TEST_F(NullGraphs, AStageThatWasBuiltBeforeAllocatesForItsGraphOnly) {
  constexpr int length = 1000;
  flag_job job;
  const auto queue = std::move(machine_->at(0).make_queue().value());
  std::unique_ptr<executable_graph> whole;
  const auto stage = [&](int nodes) {
    const std::uint64_t before = test::heap_allocations();
    const auto graph = new_graph();
    const std::uint64_t after_made = test::heap_allocations();
    graph_node last = graph->add_kernel({}, {}).value();
    for (int i = 1; i < nodes; ++i) {
      const std::array one{last};
      last = (i % 2 == 0 ? graph->add_kernel({}, one) : graph->add_host(job, 0, one)).value();
    }
    if (whole == nullptr) {
      whole = std::move(graph->instantiate().value());
    } else {
      EXPECT_TRUE(graph->update(*whole).ok());
    }
    EXPECT_TRUE(whole->launch(*queue).ok());
    EXPECT_LE(after_made - before, 3U);
    return test::heap_allocations() - after_made;
  };
  EXPECT_GT(stage(length), 0U);
  EXPECT_EQ(stage(length), 0U);
  EXPECT_EQ(stage(length), 0U);
}

TEST_F(NullGraphs, AnyKernelIsThere) {
  auto& device = machine_->at(0);
  const auto program = std::move(device.load({}).value());
  kernel* found = program->find("scale").value();
  EXPECT_EQ(found->name(), "scale");
  EXPECT_EQ(program->find("scale").value(), found);
  EXPECT_EQ(device.adopt_kernel(7).value(), device.adopt_kernel(7).value());
  EXPECT_NE(device.adopt_kernel(7).value(), device.adopt_kernel(8).value());
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
