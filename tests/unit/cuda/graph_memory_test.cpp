// SPDX-License-Identifier: Apache-2.0
/// Bodies that allocate in stream order while they are recorded.
#include <utility>

#include "tests/unit/cuda/graph_test.hpp"

namespace cuda_test {
namespace {

struct recorded_scratch {
  std::unique_ptr<backend::graph> graph;
  abi::device_pointer scratch = 0;
};

class GraphMemory : public GraphTest {
 protected:
  void SetUp() override {
    GraphTest::SetUp();
    fill(*queue_, word(0), 4, 0);
  }
  /// A body that adds `with` to the first word by way of memory of its own.
  recorded_scratch add_by_way_of_memory(std::uint32_t with, bool is_freed) {
    recorded_scratch made{value(device().make_graph())};
    ok(made.graph->begin_body(*queue_, {}));
    call.cuCtxSetCurrent(own_);
    EXPECT_EQ(call.cuMemAllocAsync(&made.scratch, 4, stream()), abi::result::success);
    auto* const scratch = reinterpret_cast<void*>(made.scratch);
    auto filled = filling(scratch, with, 1);
    ok(queue_->launch(launch_of(fill_, filled)));
    auto added = adding(word(0), word(0), scratch, 1);
    ok(queue_->launch(launch_of(add_, added)));
    call.cuCtxSetCurrent(nullptr);
    if (is_freed) free(made.scratch);
    node_list last;
    ok(made.graph->end_body(*queue_, last));
    return made;
  }
  void free(abi::device_pointer gone) {
    call.cuCtxSetCurrent(own_);
    EXPECT_EQ(call.cuMemFreeAsync(gone, stream()), abi::result::success);
    call.cuCtxSetCurrent(nullptr);
  }
  [[nodiscard]] bool can_move() const {
    int version = 0;
    return call.cuDriverGetVersion(&version) == abi::result::success && version >= 12090;
  }
  [[nodiscard]] abi::stream stream() const { return stream_of(*queue_); }
  unsigned first_word() { return static_cast<unsigned>(read(*queue_, word(0), 4)[0]); }
  std::uint64_t reserved() {
    std::uint64_t bytes = 0;
    EXPECT_EQ(
        call.cuDeviceGetGraphMemAttribute(0, abi::graph_memory_attribute::reserved_now, &bytes),
        abi::result::success);
    return bytes;
  }
};

TEST_F(GraphMemory, AnExecutableWithMemoryIsNotUpdatedAndGoesOn) {
  const recorded_scratch first = add_by_way_of_memory(5, true);
  const auto ready = value(first.graph->instantiate());
  ok(ready->launch(*queue_));
  const recorded_scratch second = add_by_way_of_memory(6, true);
  const backend::status answer = second.graph->update(*ready);
  EXPECT_EQ(answer.code(), errc::unsupported);
  EXPECT_NE(answer.text().find("bodies allocate memory"), std::string::npos) << answer.text();
  ok(value(second.graph->instantiate())->launch(*queue_));
  ok(ready->launch(*queue_));
  EXPECT_EQ(first_word(), 16U);
}

TEST_F(GraphMemory, TheDriverKeepsNothingOfAnExecutableThatIsGone) {
  const recorded_scratch body = add_by_way_of_memory(5, true);
  {
    const auto ready = value(body.graph->instantiate());
    ok(ready->launch(*queue_));
    finish(*queue_);
    EXPECT_NE(reserved(), 0U);
  }
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(GraphMemory, MemoryThatIsNotFreedIsToldAtTheNextLaunch) {
  const recorded_scratch body = add_by_way_of_memory(7, false);
  const auto ready = value(body.graph->instantiate());
  ok(ready->launch(*queue_));
  const backend::status again = ready->launch(*queue_);
  EXPECT_EQ(again.code(), errc::usage);
  EXPECT_NE(again.text().find("did not free"), std::string::npos) << again.text();
  free(body.scratch);
  ok(ready->launch(*queue_));
  free(body.scratch);
  EXPECT_EQ(first_word(), 14U);
}

TEST_F(GraphMemory, ABodyThatOnlyLaunchesIsStillUpdated) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const auto body_of = [&](std::uint32_t with) {
    auto made = value(device().make_graph());
    ok(made->begin_body(*queue_, {}));
    auto filled = filling(word(0), with, 1);
    ok(queue_->launch(launch_of(fill_, filled)));
    node_list last;
    ok(made->end_body(*queue_, last));
    return made;
  };
  const auto ready = value(body_of(1)->instantiate());
  control.clear_counts();
  ok(body_of(2)->update(*ready));
  EXPECT_EQ(control.count("cuGraphNodeGetType"), 0U);  // looked at once, when it was made
  ok(ready->launch(*queue_));
  EXPECT_EQ(first_word(), 2U);
}

// --- as parts of other graphs

TEST_F(GraphMemory, OnesThatBecomePartsBringTheirMemory) {
  if (!can_move()) GTEST_SKIP() << "needs a driver for CUDA 12.9";
  recorded_scratch first = add_by_way_of_memory(5, true);
  recorded_scratch second = add_by_way_of_memory(6, true);
  const graph_node begin = value(graph_->take_child(std::move(first.graph), {}));
  static_cast<void>(value(graph_->take_child(std::move(second.graph), {&begin, 1})));
  EXPECT_EQ(graph_->node_count(), 2U);
  EXPECT_EQ(graph_->may_be_part().code(), errc::unsupported);
  {
    const auto ready = value(graph_->instantiate());
    ok(ready->launch(*queue_));
    ok(ready->launch(*queue_));
    EXPECT_EQ(first_word(), 22U);
    recorded_scratch third = add_by_way_of_memory(7, true);
    const auto other = value(device().make_graph());
    static_cast<void>(value(other->take_child(std::move(third.graph), {})));
    const backend::status answer = other->update(*ready);
    EXPECT_EQ(answer.code(), errc::unsupported);
    EXPECT_NE(answer.text().find("bodies allocate memory"), std::string::npos) << answer.text();
    const auto parent = value(device().make_graph());
    const auto copied = parent->add_child(*other, {});
    EXPECT_NE(copied.why().text().find("allocate before the recording"), std::string::npos)
        << copied.why().text();
    finish(*queue_);
  }
  graph_.reset();
  EXPECT_EQ(reserved(), 0U);
}

TEST_F(GraphMemory, AGraphMayTakeOneWhileItIsRecordedInto) {
  if (!can_move()) GTEST_SKIP() << "needs a driver for CUDA 12.9";
  recorded_scratch part = add_by_way_of_memory(5, true);
  graph_->keep_queues();
  const queue_ptr other = make_queue();
  ok(graph_->begin_body(*other, {}));
  auto filled = filling(word(1), 3, 1);
  ok(other->launch(launch_of(fill_, filled)));
  node_list last;
  ok(graph_->end_body(*other, last));
  static_cast<void>(value(graph_->take_child(std::move(part.graph), {last.begin(), last.size()})));
  ok(graph_->release_queues());
  run();
  EXPECT_EQ(first_word(), 5U);
}

TEST_F(GraphMemory, PartsWithoutMemoryAreUpdatedWhetherTheyWereCopiedOrMoved) {
  const auto part_of = [&](std::uint32_t with) {
    auto made = value(device().make_graph());
    auto filled = filling(word(0), with, 1);
    static_cast<void>(value(made->add_kernel(launch_of(fill_, filled), {})));
    return made;
  };
  static_cast<void>(value(graph_->take_child(part_of(1), {})));
  const auto ready = value(graph_->instantiate());
  const auto moved = value(device().make_graph());
  static_cast<void>(value(moved->take_child(part_of(2), {})));
  ok(moved->update(*ready));
  ok(ready->launch(*queue_));
  EXPECT_EQ(first_word(), 2U);
  const auto copied = value(device().make_graph());
  static_cast<void>(value(copied->add_child(*part_of(3), {})));
  ok(copied->update(*ready));
  ok(ready->launch(*queue_));
  EXPECT_EQ(first_word(), 3U);
}

TEST_F(GraphMemory, AFailureLeavesTheGraphAsItWasAndNothingOfThePart) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  recorded_scratch part = add_by_way_of_memory(5, true);
  control.fail("cuGraphAddNode", 1, static_cast<int>(abi::result::out_of_memory), 0);
  EXPECT_FALSE(graph_->take_child(std::move(part.graph), {}));
  EXPECT_EQ(graph_->node_count(), 0U);
  ok(graph_->may_be_part());
  run();
}

TEST_F(GraphMemory, AnOlderDriverRefusesIt) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.pose(12080);
  {
    const auto older = value(backend::cuda::open_with({1, {}}, library_path()));
    const auto queue = value(older->at(0).make_queue());
    auto part = value(older->at(0).make_graph());
    ok(part->begin_body(*queue, {}));
    abi::device_pointer scratch = 0;
    call.cuCtxSetCurrent(own_);
    EXPECT_EQ(call.cuMemAllocAsync(&scratch, 4, stream_of(*queue)), abi::result::success);
    EXPECT_EQ(call.cuMemFreeAsync(scratch, stream_of(*queue)), abi::result::success);
    call.cuCtxSetCurrent(nullptr);
    node_list last;
    ok(part->end_body(*queue, last));
    const auto whole = value(older->at(0).make_graph());
    const auto answer = whole->take_child(std::move(part), {});
    EXPECT_EQ(answer.why().code(), errc::unsupported);
    EXPECT_NE(answer.why().text().find("allocate before the recording"), std::string::npos)
        << answer.why().text();
  }
  control.pose(13000);
}

}  // namespace
}  // namespace cuda_test
