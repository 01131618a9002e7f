// SPDX-License-Identifier: Apache-2.0
/// The oracle alone: what it takes for the result of sequential execution.
#include <algorithm>

#include <gtest/gtest.h>

#include "tests/scenario/oracle.hpp"
#include "tests/scenario/program.hpp"

namespace millstream::scenario {
namespace {

class Oracle : public testing::Test {
 protected:
  void play(const std::string& text) {
    what_ = parse("a.flow", text);
    plan_ = predict(what_);
  }
  [[nodiscard]] known_value waited(std::size_t statement) const {
    return plan_.statements.at(statement).value;
  }
  [[nodiscard]] errc error(std::size_t statement) const {
    return plan_.statements.at(statement).error;
  }
  [[nodiscard]] known_value buffer(std::size_t statement, std::size_t element = 0) const {
    return plan_.buffers.at(statement).at(element);
  }

  program what_;
  forecast plan_;
};

TEST_F(Oracle, BodiesAddSetAndMix) {
  play(
      "data x 16B at host = 3\ndata y 8B at nowhere\n"
      "task a read x write y adds 4\nwait y\ntask b rw x read y adds 1\nwait x\n"
      "task c rw x\nwait x\ntask d write x sets 9\nwait x\n");
  EXPECT_EQ(waited(3), 7);
  EXPECT_EQ(waited(5), 11);
  EXPECT_EQ(waited(7), mix(mix(name_hash("c"), 11), 0));
  EXPECT_EQ(waited(9), 9);
}

TEST_F(Oracle, MixDependsOnNameInputsAndOrder) {
  EXPECT_NE(name_hash("ab"), name_hash("ba"));
  EXPECT_NE(mix(1, 2), mix(2, 1));
  EXPECT_NE(mix(0, 0), 0);
}

TEST_F(Oracle, EdgesAreThoseOfReadersAndWriters) {
  play(
      "data x 8B at host\ntask a write x\ntask b read x\ntask c read x\ntask d rw x\ntask e write "
      "x\n");
  const std::vector<edge> wanted{{"a", "b"}, {"a", "c"}, {"b", "d"}, {"c", "d"}, {"d", "e"}};
  EXPECT_EQ(plan_.edges, wanted);
}

TEST_F(Oracle, FailurePoisonsSkipsAndHeals) {
  play(
      "data x 8B at host = 3\ndata y 8B at host\ntask bad rw x fails\ntask lost read x write y\n"
      "wait y\ntask heal write y sets 2\nwait y\nfinalize\n");
  EXPECT_EQ(plan_.failed, std::vector<std::string>{"bad"});
  EXPECT_EQ(plan_.reported, std::vector<std::string>{"bad"});
  EXPECT_EQ(plan_.skipped, std::vector<std::string>{"lost"});
  EXPECT_EQ(error(4), errc::poisoned);
  EXPECT_EQ(waited(6), 2);
  EXPECT_EQ(error(7), errc::task_failed);
  EXPECT_EQ(buffer(0), std::nullopt);
  EXPECT_EQ(buffer(1), 2);
}

TEST_F(Oracle, BodiesOfTheCallerReportTheirFailureThemselves) {
  play("data x 8B at host\nwith a rw x fails\nwith b read x\nopen c write x\nabort c\nfinalize\n");
  EXPECT_EQ(plan_.failed, (std::vector<std::string>{"a", "c"}));
  EXPECT_TRUE(plan_.reported.empty());
  EXPECT_EQ(error(2), errc::poisoned);
  EXPECT_EQ(error(5), errc::ok);
}

TEST_F(Oracle, BrokenRulesChangeNothing) {
  play(
      "data x 8B at nowhere\ndata r 8B at host readonly = 5\ntask a read x write r\ntask b read x\n"
      "task c dev4 write x\ntask d read r@host read r@dev0\nwait x\nopen e write x sets 1\nwait x\n"
      "finalize\ntask f read x\nclose e\nwait x\n");
  EXPECT_EQ(error(2), errc::invalid_value);
  EXPECT_EQ(error(3), errc::not_written);
  EXPECT_EQ(error(4), errc::invalid_value);
  EXPECT_EQ(error(5), errc::invalid_value);
  EXPECT_EQ(error(6), errc::not_written);
  EXPECT_EQ(error(8), errc::usage);
  EXPECT_EQ(error(9), errc::usage);
  EXPECT_EQ(error(10), errc::usage);
  EXPECT_EQ(waited(12), 1);
  EXPECT_TRUE(plan_.edges.empty());
}

TEST_F(Oracle, CopiesFollowReadsAndWrites) {
  play(
      "devices 2\ndata x 8B at host\ntask a dev0 read x\ntask b dev1 rw x\ntask c dev0 read x\n"
      "task d dev0 write x\n");
  const std::map<copy_key, std::uint64_t> wanted{
      {{false, "x", 0}, 2}, {{false, "x", 1}, 1}, {{true, "x", on_host}, 1}};
  ASSERT_TRUE(plan_.copies.has_value());
  EXPECT_EQ(*plan_.copies, wanted);
}

TEST_F(Oracle, DeviceBuffersHaveTheirHomeWhereTheMachineSays) {
  const program what = parse("a.flow", "data x 8B at dev0\ntask a dev0 rw x\n");
  EXPECT_EQ(predict(what, traits_of("host")).copies->size(), 2U);
  EXPECT_EQ(predict(what, traits_of("null")).copies->size(), 0U);
}

TEST_F(Oracle, OverlapIsAnErrorUnlessBothAreReadOnlyOrTheSame) {
  play(
      "data h 32B at host = 1\ndrop h\ndata a 16B at host over h\ndata b 16B at host over h+8B\n"
      "data same 16B at host over h\ndata c 16B at host over h+16B readonly\n"
      "data d 8B at host over h+16B readonly\n");
  EXPECT_EQ(error(3), errc::invalid_value);
  EXPECT_EQ(error(4), errc::ok);
  EXPECT_EQ(error(5), errc::ok);
  EXPECT_EQ(error(6), errc::ok);
}

TEST_F(Oracle, PartsOfABufferKeepTheirOwnValues) {
  play(
      "data h 24B at host = 1\ndrop h\ndata a 8B at host over h+8B\ntask t rw a adds 4\ndrop a\n"
      "data b 8B at host over h+8B\nwait b\n");
  EXPECT_EQ(waited(6), 5);
  EXPECT_EQ(buffer(0, 0), 1);
  EXPECT_EQ(buffer(0, 1), 5);
  EXPECT_EQ(buffer(0, 2), 1);
}

TEST_F(Oracle, TextAndOracleAreCompared) {
  play(
      "data x 8B at host = 1\ntask a rw x adds 1\nwait x = 3\nexpect edges a->a\nexpect failed "
      "a\n");
  EXPECT_EQ(check_text(what_, plan_).size(), 3U);
  play("data x 8B at nowhere\ntask a read x\ntask b write x\nexpect error usage\n");
  const std::vector<std::string> problems = check_text(what_, plan_);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_NE(problems[0].find("a.flow:2: the statement throws not_written"), std::string::npos);
}

}  // namespace
}  // namespace millstream::scenario
