// SPDX-License-Identifier: Apache-2.0
/// Capabilities the other way round: without the bit the operation answers `unsupported`, with a
/// text that names the capability, and leaves no trace.
#include "tests/conformance/promise.hpp"

namespace conformance {
namespace {

class absent : public promise<> {
 protected:
  void expect_unsupported(const backend::status& answer, capability bit) {
    EXPECT_EQ(answer.code(), errc::unsupported);
    const char* name = backend::capability_names[static_cast<std::size_t>(bit)];
    EXPECT_NE(answer.text().find(name), std::string::npos) << answer.text();
  }
};

TEST_F(absent, KernelsAreNotLaunched) {
  if (has(capability::kernels)) GTEST_SKIP() << "the machine has them";
  for (const int place : places()) {
    expect_unsupported(queue_on(place).launch({}), capability::kernels);
  }
}

TEST_F(absent, DeviceCodeIsNotLoaded) {
  if (has(capability::kernels)) GTEST_SKIP() << "the machine has it";
  const bytes image(100);
  for (const int place : places()) {
    expect_unsupported(device(place).load(image).why(), capability::kernels);
  }
}

TEST_F(absent, GraphsAreNotMade) {
  if (has(capability::graphs) || has(capability::capture_to_graph)) {
    GTEST_SKIP() << "the machine has them";
  }
  for (const int place : places()) {
    expect_unsupported(device(place).make_graph().why(), capability::graphs);
  }
}

TEST_F(absent, KernelsAreNoNodes) {
  if (has(capability::kernels)) GTEST_SKIP() << "the machine has them";
  if (!has(capability::graphs)) GTEST_SKIP() << "needs graphs";
  for (const int place : places()) {
    const auto graph = value(device(place).make_graph());
    expect_unsupported(graph->add_kernel({}, {}).why(), capability::kernels);
    EXPECT_EQ(graph->node_count(), 0U);
  }
}

TEST_F(absent, ForeignWorkIsNotRecorded) {
  if (has(capability::capture_to_graph)) GTEST_SKIP() << "the machine can";
  if (!has(capability::graphs)) GTEST_SKIP() << "needs graphs";
  const auto graph = value(device(0).make_graph());
  backend::node_list last;
  backend::queue& queue = queue_on(0);
  expect_unsupported(graph->begin_body(queue, {}), capability::capture_to_graph);
  expect_unsupported(graph->end_body(queue, last), capability::capture_to_graph);
  expect_unsupported(graph->record_into(queue), capability::capture_to_graph);
  EXPECT_TRUE(last.empty());
  EXPECT_FALSE(value(queue.is_capturing()));
}

TEST_F(absent, JobsOfDevicesAreNoNodes) {
  if (has(capability::runs_jobs)) GTEST_SKIP() << "the machine runs them";
  if (!has(capability::graphs)) GTEST_SKIP() << "needs graphs";
  static_job job;
  const auto graph = value(device(0).make_graph());
  expect_unsupported(graph->add_host(job, 0, {}).why(), capability::runs_jobs);
  EXPECT_EQ(graph->node_count(), 0U);
}

TEST_F(absent, JobsAreNotRunByDeviceQueues) {
  if (has(capability::runs_jobs)) GTEST_SKIP() << "the machine runs them";
  job_log log;
  expect_unsupported(run_job(queue_on(0), log), capability::runs_jobs);
  EXPECT_EQ(log.runs + log.discards, 0);
}

TEST_F(absent, ARefusalLeavesTheQueueUsable) {
  backend::queue& queue = queue_on(0);
  if (!has(capability::kernels)) {
    EXPECT_FALSE(queue.launch({}).ok());
  }
  fill(queue, 0, take(0, 64, queue), 64, 1);
  finish(queue);
}

}  // namespace
}  // namespace conformance
