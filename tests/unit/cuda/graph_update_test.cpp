// SPDX-License-Identifier: Apache-2.0
/// Executable graphs that take over another graph's parameters, and refusals of the driver.
#include "tests/unit/cuda/graph_test.hpp"

namespace cuda_test {
namespace {

class GraphUpdate : public GraphTest {
 protected:
  /// A fill of the first words, and one of the same words again after it.
  std::unique_ptr<backend::graph> two_fills(std::uint32_t first, std::uint32_t second) {
    auto made = value(device().make_graph());
    auto arguments = filling(block_, first, 10);
    const graph_node before = value(made->add_kernel(launch_of(fill_, arguments), {}));
    arguments = filling(word(5), second, 5);
    static_cast<void>(value(made->add_kernel(launch_of(fill_, arguments), {&before, 1})));
    return made;
  }
  void expect_words(std::byte first, std::byte second) {
    bytes wanted(20, first);
    wanted.insert(wanted.end(), 20, second);
    EXPECT_EQ(read(*queue_, block_, 40), wanted);
  }
  void expect_refused(backend::graph& by, backend::executable_graph& target,
                      const std::string& word) {
    const backend::status answer = by.update(target);
    EXPECT_EQ(answer.code(), errc::unsupported);
    EXPECT_NE(answer.text().find(word), std::string::npos) << answer.text();
  }
};

TEST_F(GraphUpdate, TheSameShapeTakesTheNewParameters) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const auto ready = value(two_fills(0x01010101, 0x02020202)->instantiate());
  control.clear_counts();
  ok(two_fills(0x03030303, 0x04040404)->update(*ready));
  EXPECT_EQ(control.count("cuGraphExecUpdate"), 1U);
  EXPECT_EQ(control.count("cuGraphInstantiateWithParams"), 0U);
  ok(ready->launch(*queue_));
  expect_words(std::byte{3}, std::byte{4});
}

TEST_F(GraphUpdate, ALaunchOnItsWayIsNotChanged) {
  const auto ready = value(two_fills(0x01010101, 0x02020202)->instantiate());
  {
    gate hold(machine(), *queue_);
    ok(ready->launch(*queue_));
    ok(two_fills(0x03030303, 0x04040404)->update(*ready));
  }
  expect_words(std::byte{1}, std::byte{2});
  ok(ready->launch(*queue_));
  expect_words(std::byte{3}, std::byte{4});
}

TEST_F(GraphUpdate, AnotherTopologyIsRefusedAndTheTargetGoesOn) {
  const auto ready = value(two_fills(0x01010101, 0x02020202)->instantiate());
  const auto other = value(device().make_graph());
  auto arguments = filling(block_, 7, 10);
  static_cast<void>(value(other->add_kernel(launch_of(fill_, arguments), {})));
  static_cast<void>(value(other->add_kernel(launch_of(fill_, arguments), {})));
  expect_refused(*other, *ready, "the nodes or their edges differ");
  static_cast<void>(value(other->add_kernel(launch_of(fill_, arguments), {})));
  expect_refused(*other, *ready, "the nodes or their edges differ");
  ok(ready->launch(*queue_));
  expect_words(std::byte{1}, std::byte{2});
  ok(two_fills(0x03030303, 0x04040404)->update(*ready));
  ok(ready->launch(*queue_));
  expect_words(std::byte{3}, std::byte{4});
}

TEST_F(GraphUpdate, ANodeOfAnotherKindIsRefused) {
  const auto ready = value(two_fills(0x01010101, 0x02020202)->instantiate());
  const auto other = value(device().make_graph());
  const graph_node first = value(other->add_fill(fill_of(block_, 40, 4), {}));
  static_cast<void>(value(other->add_fill(fill_of(block_, 40, 4), {&first, 1})));
  expect_refused(*other, *ready, "a node is of another kind");
}

TEST_F(GraphUpdate, AKernelOfAnotherDeviceIsRefused) {
  MILLSTREAM_NEEDS_DEVICES(2);
  const auto ready = value(two_fills(0x01010101, 0x02020202)->instantiate());
  const auto program = load(1);
  const auto other = value(device().make_graph());
  auto arguments = filling(block_, 7, 10);
  backend::kernel* const theirs = value(program->find("test_fill_u32"));
  const graph_node first = value(other->add_kernel(launch_of(theirs, arguments), {}));
  static_cast<void>(value(other->add_kernel(launch_of(theirs, arguments), {&first, 1})));
  expect_refused(*other, *ready, "the kernel of a node changed");
}

TEST_F(GraphUpdate, OtherAttributesAreRefused) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const auto plain = value(device().make_graph());
  auto arguments = filling(block_, 7, 10);
  backend::launch_request request = launch_of(fill_, arguments);
  static_cast<void>(value(plain->add_kernel(request, {})));
  const auto ready = value(plain->instantiate());
  const auto other = value(device().make_graph());
  request.cooperative = true;
  static_cast<void>(value(other->add_kernel(request, {})));
  expect_refused(*other, *ready, "attributes");
}

TEST_F(GraphUpdate, HostFunctionsAreReplaced) {
  repeated_job old;
  repeated_job fresh;
  static_cast<void>(value(graph_->add_host(old, -1, {})));
  const auto ready = value(graph_->instantiate());
  const auto other = value(device().make_graph());
  static_cast<void>(value(other->add_host(fresh, -1, {})));
  {
    gate hold(machine(), *queue_);
    ok(ready->launch(*queue_));
    ok(other->update(*ready));
    ok(ready->launch(*queue_));
    graph_.reset();
  }
  finish(*queue_);
  EXPECT_EQ(old.runs, 1);
  EXPECT_EQ(fresh.runs, 1);
}

TEST_F(GraphUpdate, OtherFailuresOfTheDriverAreToldAsTheyAre) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const auto ready = value(two_fills(1, 2)->instantiate());
  control.fail("cuGraphExecUpdate", 1, static_cast<int>(abi::result::out_of_memory), 0);
  EXPECT_EQ(two_fills(0x03030303, 0x04040404)->update(*ready).code(), errc::out_of_memory);
  ok(two_fills(0x03030303, 0x04040404)->update(*ready));
}

TEST_F(GraphUpdate, AFailedInstantiationIsTheOnlyErrorAndTheGraphGoesOn) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  auto arguments = filling(block_, 0x01010101, 10);
  static_cast<void>(value(graph_->add_kernel(launch_of(fill_, arguments), {})));
  control.fail("cuGraphInstantiateWithParams", 1, static_cast<int>(abi::result::not_supported), 0);
  control.clear_counts();
  const auto answer = graph_->instantiate();
  EXPECT_EQ(answer.why().code(), errc::unsupported);
  EXPECT_NE(answer.why().text().find("CUDA_ERROR_NOT_SUPPORTED"), std::string::npos)
      << answer.why().text();
  EXPECT_EQ(control.count("cuGraphExecDestroy"), 0U);
  EXPECT_EQ(control.live("executable_graph"), 0);
  run();
  EXPECT_EQ(read(*queue_, block_, 40), bytes(40, std::byte{1}));
}

TEST_F(GraphUpdate, ALaunchUnderACaptureOfTheCallerIsRefusedAndSpoilsNothing) {
  const auto ready = value(two_fills(0x01010101, 0x02020202)->instantiate());
  call.cuCtxSetCurrent(own_);
  abi::stream callers = nullptr;
  abi::graph captured = nullptr;
  call.cuStreamCreate(&callers, abi::stream_flags::non_blocking);
  {
    const queue_ptr adopted = value(device().adopt(reinterpret_cast<std::uint64_t>(callers)));
    ASSERT_EQ(call.cuStreamBeginCapture(callers, abi::capture_mode::relaxed), abi::result::success);
    EXPECT_EQ(ready->launch(*adopted).code(), errc::unsupported);
    ASSERT_EQ(call.cuStreamEndCapture(callers, &captured), abi::result::success);
    ok(ready->launch(*adopted));
  }
  call.cuStreamSynchronize(callers);
  call.cuGraphDestroy(captured);
  call.cuStreamDestroy(callers);
  call.cuCtxSetCurrent(nullptr);
  expect_words(std::byte{1}, std::byte{2});
}

TEST_F(GraphUpdate, AQueueOfTheHostSideLaunchesNoGraph) {
  const auto ready = value(two_fills(1, 2)->instantiate());
  EXPECT_EQ(ready->launch(*make_queue(-1)).code(), errc::unsupported);
}

TEST_F(GraphUpdate, EveryFailureOfTheDriverComesBackAndLeavesNothing) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  for (const char* row :
       {"cuGraphCreate", "cuGraphAddKernelNode", "cuGraphAddMemcpyNode", "cuGraphAddMemsetNode",
        "cuGraphAddHostNode", "cuGraphAddChildGraphNode", "cuGraphAddEmptyNode",
        "cuGraphInstantiateWithParams", "cuGraphLaunch", "cuGraphDebugDotPrint"}) {
    control.fail(row, 1, static_cast<int>(abi::result::out_of_memory), 0);
    repeated_job job;
    bytes source(8);
    backend::status answer;
    const auto note = [&](const backend::status& one) {
      if (!one && answer) answer = backend::status(one.code(), one.text());
    };
    auto made = device().make_graph();
    note(made.why());
    if (made) {
      auto arguments = filling(block_, 1, 10);
      note(made.value()->add_kernel(launch_of(fill_, arguments), {}).why());
      note(made.value()->add_copy(to_device(block_, source.data(), 8), {}).why());
      note(made.value()->add_copy(to_device(block_, source.data(), 0), {}).why());
      note(made.value()->add_fill(fill_of(block_, 8, 4), {}).why());
      note(made.value()->add_fill(fill_of(block_, 24, 12), {}).why());
      note(made.value()->add_host(job, -1, {}).why());
      note(made.value()->dot().why());
      auto ready = made.value()->instantiate();
      note(ready.why());
      if (ready) note(ready.value()->launch(*queue_));
      finish(*queue_);
    }
    EXPECT_EQ(answer.code(), errc::out_of_memory) << row;
    EXPECT_NE(answer.text().find("CUDA_ERROR_OUT_OF_MEMORY"), std::string::npos) << row;
    made = backend::status(errc::usage, "");
  }
  graph_.reset();
  EXPECT_EQ(control.live("graph"), 0);
  EXPECT_EQ(control.live("executable_graph"), 0);
}

}  // namespace
}  // namespace cuda_test
