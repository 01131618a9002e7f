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
  if (has(capability::graphs)) GTEST_SKIP() << "the machine has them";
  for (const int place : places()) {
    expect_unsupported(device(place).make_graph().why(), capability::graphs);
  }
}

/// Stands for a graph where the machine cannot make one; nothing may be called on it.
class no_graph final : public backend::graph {
 public:
  using nodes = std::span<backend::graph_node* const>;
  using node_result = backend::result<backend::graph_node*>;
  node_result add_kernel(const backend::launch_request&, nodes) override { return used(); }
  node_result add_copy(const backend::copy_request&, nodes) override { return used(); }
  node_result add_fill(const backend::fill_request&, nodes) override { return used(); }
  node_result add_host(backend::job&, nodes) override { return used(); }
  node_result add_child(backend::graph&, nodes) override { return used(); }
  backend::result<std::unique_ptr<backend::executable_graph>> instantiate() override {
    return used();
  }
  backend::status update(backend::executable_graph&) override { return used(); }

 private:
  static backend::status used() {
    ADD_FAILURE() << "a graph was used that the machine cannot have";
    return {errc::internal, "used"};
  }
};

TEST_F(absent, ForeignWorkIsNotCaptured) {
  if (has(capability::capture_to_graph)) GTEST_SKIP() << "the machine can";
  no_graph target;
  backend::graph_node* last = nullptr;
  backend::queue& queue = queue_on(0);
  expect_unsupported(queue.begin_capture(target, {}), capability::capture_to_graph);
  expect_unsupported(queue.end_capture(target, &last), capability::capture_to_graph);
  EXPECT_EQ(last, nullptr);
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
