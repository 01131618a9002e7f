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

}  // namespace
}  // namespace cuda_test
