// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <millstream/trace.hpp>

namespace ms = millstream;

namespace {

class Recorder : public testing::Test {
 protected:
  void task(std::uint64_t id, std::string_view name, std::vector<ms::dep_info> deps) {
    ms::task_info what;
    what.id = id;
    what.kind = ms::task_kind::submit;
    what.name = name;
    what.site = ms::source_site("flow.py", 12);
    what.place = 1;
    what.queue = 3;
    what.deps = deps;
    recorder_->submitted(what);
  }
  void copy(std::uint64_t id, std::uint64_t for_task) {
    ms::copy_info what;
    what.id = id;
    what.task = for_task;
    what.reason = ms::copy_reason::coherence;
    what.data = 5;
    what.name = "a";
    what.from = -1;
    what.to = 1;
    what.bytes = 64;
    what.queue = 9;
    recorder_->submitted(what);
  }

  std::shared_ptr<ms::trace_recorder> recorder_ = ms::make_trace_recorder();
};

ms::dep_info use(std::uint64_t data, ms::access_mode mode, std::string_view name = "",
                 std::size_t bytes = 0) {
  return {data, mode, name, bytes};
}

}  // namespace

TEST_F(Recorder, IsEmptyAtFirst) {
  const ms::trace_snapshot seen = recorder_->snapshot();
  EXPECT_TRUE(seen.nodes.empty());
  EXPECT_TRUE(seen.edges.empty());
  EXPECT_TRUE(seen.data.empty());
}

TEST_F(Recorder, KeepsEveryFieldOfATask) {
  task(1, "gemm", {use(5, ms::access_mode::read, "a", 64), use(6, ms::access_mode::rw, "b", 8)});
  const ms::trace_node node = recorder_->snapshot().nodes.at(0);
  EXPECT_EQ(node.id, 1U);
  EXPECT_FALSE(node.is_copy);
  EXPECT_EQ(node.kind, ms::task_kind::submit);
  EXPECT_EQ(node.name, "gemm");
  EXPECT_STREQ(node.site.file, "flow.py");
  EXPECT_EQ(node.site.line, 12U);
  EXPECT_EQ(node.place, 1);
  EXPECT_EQ(node.queue, 3U);
  EXPECT_EQ(node.data, (std::vector<std::uint64_t>{5, 6}));
  EXPECT_EQ(node.modes, (std::vector{ms::access_mode::read, ms::access_mode::rw}));
  EXPECT_GT(node.submitted_ns, 0U);
}

TEST_F(Recorder, KeepsEveryFieldOfACopy) {
  copy(2, 1);
  const ms::trace_node node = recorder_->snapshot().nodes.at(0);
  EXPECT_TRUE(node.is_copy);
  EXPECT_EQ(node.reason, ms::copy_reason::coherence);
  EXPECT_EQ(node.name, "a");
  EXPECT_EQ(node.from, -1);
  EXPECT_EQ(node.place, 1);
  EXPECT_EQ(node.task, 1U);
  EXPECT_EQ(node.bytes, 64U);
  EXPECT_EQ(node.queue, 9U);
  EXPECT_EQ(node.data, std::vector<std::uint64_t>{5});
}

TEST_F(Recorder, NamesNeedNotOutliveTheCall) {
  {
    std::string name = "a name that is too long to be kept in place";
    task(1, name, {use(1, ms::access_mode::write, name, 8)});
    name.assign(name.size(), '#');
  }
  const ms::trace_snapshot seen = recorder_->snapshot();
  EXPECT_EQ(seen.nodes.at(0).name, "a name that is too long to be kept in place");
  EXPECT_EQ(seen.data.at(0).name, "a name that is too long to be kept in place");
}

TEST_F(Recorder, NodesComeByIdWhateverTheOrderOfReports) {
  copy(2, 3);
  task(1, "first", {});
  task(3, "second", {});
  const ms::trace_snapshot seen = recorder_->snapshot();
  ASSERT_EQ(seen.nodes.size(), 3U);
  for (std::uint64_t i = 0; i < 3; ++i)
    EXPECT_EQ(seen.nodes[i].id, i + 1);
}

TEST_F(Recorder, EdgesComeByTargetThenSource) {
  task(1, "", {use(1, ms::access_mode::write)});
  task(2, "", {use(2, ms::access_mode::write)});
  task(4, "", {use(2, ms::access_mode::read), use(1, ms::access_mode::read)});
  const ms::trace_snapshot seen = recorder_->snapshot();
  ASSERT_EQ(seen.edges.size(), 2U);
  EXPECT_EQ(seen.edges[0].from, 1U);
  EXPECT_EQ(seen.edges[0].data, 1U);
  EXPECT_EQ(seen.edges[1].from, 2U);
  EXPECT_EQ(seen.edges[1].to, 4U);
}

TEST_F(Recorder, CopiesMakeNoEdges) {
  task(1, "", {use(5, ms::access_mode::write)});
  copy(3, 2);
  task(2, "", {use(5, ms::access_mode::read)});
  EXPECT_EQ(recorder_->snapshot().edges.size(), 1U);
}

TEST_F(Recorder, DataAreListedOnceById) {
  task(1, "", {use(7, ms::access_mode::write, "late", 16), use(2, ms::access_mode::write, "", 8)});
  task(2, "", {use(7, ms::access_mode::read, "late", 16)});
  const ms::trace_snapshot seen = recorder_->snapshot();
  ASSERT_EQ(seen.data.size(), 2U);
  EXPECT_EQ(seen.data[0].id, 2U);
  EXPECT_EQ(seen.data[1].id, 7U);
  EXPECT_EQ(seen.data[1].name, "late");
  EXPECT_EQ(seen.data[1].bytes, 16U);
}

TEST_F(Recorder, LastSymbolGivenNamesTheDatum) {
  task(1, "", {use(1, ms::access_mode::write, "")});
  task(2, "", {use(1, ms::access_mode::rw, "old")});
  task(3, "", {use(1, ms::access_mode::rw, "new")});
  task(4, "", {use(1, ms::access_mode::rw, "")});
  EXPECT_EQ(recorder_->snapshot().data.at(0).name, "new");
}

TEST_F(Recorder, TimesAndOutcomesReachTheirNode) {
  task(1, "", {});
  copy(2, 1);
  recorder_->began(1, 1000);
  recorder_->ended(1, 1500, ms::outcome::failed);
  recorder_->ended(2, 900, ms::outcome::skipped);
  const ms::trace_snapshot seen = recorder_->snapshot();
  EXPECT_EQ(seen.nodes[0].began_ns, 1000U);
  EXPECT_EQ(seen.nodes[0].ended_ns, 1500U);
  EXPECT_EQ(seen.nodes[0].how, ms::outcome::failed);
  EXPECT_EQ(seen.nodes[1].began_ns, 0U);
  EXPECT_EQ(seen.nodes[1].how, ms::outcome::skipped);
}

TEST_F(Recorder, TimesReportedBeforeTheSubmissionAreKept) {
  recorder_->began(1, 10);
  recorder_->ended(1, 20, ms::outcome::done);
  task(1, "", {});
  EXPECT_EQ(recorder_->snapshot().nodes.at(0).ended_ns, 20U);
}

TEST_F(Recorder, SnapshotsAreCopies) {
  task(1, "one", {});
  const ms::trace_snapshot before = recorder_->snapshot();
  task(2, "two", {});
  EXPECT_EQ(before.nodes.size(), 1U);
  EXPECT_EQ(recorder_->snapshot().nodes.size(), 2U);
}

TEST_F(Recorder, TakesEventsAndSnapshotsFromManyThreadsAtOnce) {
  constexpr std::uint64_t count = 3000;
  std::thread submitter([this] {
    for (std::uint64_t id = 1; id <= count; ++id)
      task(id, "t", {use(1, ms::access_mode::rw)});
  });
  std::thread runner([this] {
    for (std::uint64_t id = 1; id <= count; ++id) {
      recorder_->began(id, id);
      recorder_->ended(id, id + 1, ms::outcome::done);
    }
  });
  for (int i = 0; i < 10; ++i)
    EXPECT_LE(recorder_->snapshot().edges.size(), count);
  submitter.join();
  runner.join();
  const ms::trace_snapshot seen = recorder_->snapshot();
  EXPECT_EQ(seen.edges.size(), count - 1);
  for (const ms::trace_node& node : seen.nodes)
    ASSERT_EQ(node.ended_ns, node.id + 1);
}
