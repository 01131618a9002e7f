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
