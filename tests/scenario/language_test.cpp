// SPDX-License-Identifier: Apache-2.0
/// The text of scenarios: what is accepted, what is refused and how, and that printing and parsing
/// are inverse.
#include <gtest/gtest.h>

#include "tests/scenario/program.hpp"

namespace millstream::scenario {
namespace {

program parsed(const std::string& text) {
  return parse("a.flow", text);
}

template <class What>
const What& first(const program& in) {
  return std::get<What>(in.statements.at(0).what);
}

std::string fault_of(const std::string& text) {
  try {
    (void)parsed(text);
  } catch (const parse_error& fault) {
    return fault.what();
  }
  return "no fault";
}

void expect_fault(const std::string& text, const std::string& begin) {
  EXPECT_EQ(fault_of(text).substr(0, begin.size()), begin) << "whole: " << fault_of(text);
}

TEST(ScenarioText, DataHasSizeHomeAndValue) {
  const program what = parsed("data x 1KiB at dev1 readonly = -7\n");
  const data_statement wanted{.name = "x", .bytes = 1024, .home = 1, .readonly = true, .value = -7};
  EXPECT_EQ(first<data_statement>(what), wanted);
}

TEST(ScenarioText, PartOfABufferIsNamedByOffset) {
  const program what = parsed("data x 64B at host\ndata y 16B at host over x+32B\n");
  const auto& part = std::get<data_statement>(what.statements.at(1).what);
  EXPECT_EQ(part.over, "x");
  EXPECT_EQ(part.offset, 32U);
}

TEST(ScenarioText, TaskHasPlaceAccessesAndBody) {
  const program what = parsed(
      "data x 8B at host\ndata y 8B at nowhere\n"
      "task t dev3 read x@host write y rw x adds -2\n");
  const auto& task = std::get<task_statement>(what.statements.at(2).what);
  EXPECT_EQ(task.how, form::task);
  EXPECT_EQ(task.place, 3);
  ASSERT_EQ(task.accesses.size(), 3U);
  EXPECT_EQ(task.accesses[0], (access{access_mode::read, "x", on_host}));
  EXPECT_EQ(task.accesses[1], (access{access_mode::write, "y", unplaced}));
  EXPECT_EQ(task.body, (work{effect::adds, -2}));
}

TEST(ScenarioText, CommentsAndBlankLinesDoNotCount) {
  const program what = parsed("# head\n\n  \t\ntoken t  # tail\n");
  ASSERT_EQ(what.statements.size(), 1U);
  EXPECT_EQ(what.statements[0].line, 4U);
}

TEST(ScenarioText, LastLineSaysWhatToRun) {
  const program what = parsed("token t\nrun graph, immediate; seeds 3; backends host, cuda\n");
  EXPECT_EQ(what.plan.modes, (std::vector<std::string>{"graph", "immediate"}));
  EXPECT_EQ(what.plan.backends, (std::vector<std::string>{"host", "cuda"}));
  EXPECT_EQ(what.plan.seeds, 3U);
}

TEST(ScenarioText, MachineStandsForTheBackends) {
  EXPECT_EQ(parsed("machine null\ntoken t\n").plan.backends, (std::vector<std::string>{"null"}));
}

TEST(ScenarioText, ExpectedErrorBelongsToTheStatementBefore) {
  const program what = parsed("token t\nexpect error usage \"one two\" \"three\"\n");
  const expect_error* announced = announced_error(what, 0);
  ASSERT_NE(announced, nullptr);
  EXPECT_EQ(announced->code, errc::usage);
  EXPECT_EQ(announced->words, (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(announced_error(what, 1), nullptr);
}

TEST(ScenarioText, EachFaultNamesFileAndLineAndTheWayOut) {
  expect_fault("token t\nflush t\n", "a.flow:2: 'flush' is no statement; use one of devices");
  expect_fault("task t read x\n", "a.flow:1: 'x' is not declared or was dropped; declare it");
  expect_fault("token t\ndrop t\ntask a read t\n", "a.flow:3: 't' is not declared or was dropped;");
  expect_fault("token t\ntoken t\n", "a.flow:2: 't' exists already; drop it first");
  expect_fault("task a\ntask a\n", "a.flow:2: a task 'a' exists; rename this one");
  expect_fault("data x 7B at host\n", "a.flow:1: '7B' is no size; write a multiple of 8");
  expect_fault("data x 8 at host\n", "a.flow:1: '8' is no size;");
  expect_fault("data x 8B on host\n", "a.flow:1: 'at host', 'at dev<number>' or 'at nowhere'");
  expect_fault("data x 8B at nowhere = 1\n", "a.flow:1: data at nowhere has no content;");
  expect_fault("data x 8B at gpu0\n", "a.flow:1: 'gpu0' is no place; write host, dev0");
  expect_fault("token t\ntask a dev0 read\n", "a.flow:2: the line ends where a datum is expected;");
  expect_fault("task a dev0 sets x\n", "a.flow:1: 'x' is no integer;");
  expect_fault("task a dev0 spins\n", "a.flow:1: 'spins' is not understood here;");
  expect_fault("close a\n", "a.flow:1: 'a' is not open;");
  expect_fault("open a\n", "a.flow:1: 'a' is never ended;");
  expect_fault("with a host deviceless\n", "a.flow:1: a body of the submitting thread");
  expect_fault("task a\nexpect edges a->b\n", "a.flow:2: no task is named 'b';");
  expect_fault("task a\nexpect edges a-b\n", "a.flow:2: 'a-b' is no edge; write a->b");
  expect_fault("task a\nexpect edges\n", "a.flow:2: an edge is missing;");
  expect_fault("task a\nexpect error oops\n", "a.flow:2: 'oops' is no error code;");
  expect_fault("task a\nexpect error usage words\n", "a.flow:2: 'words' is not in quotes;");
  expect_fault("task a\nexpect error usage \"words\n", "a.flow:2: the quote is never closed;");
  expect_fault("task a\nexpect speed 3\n", "a.flow:2: 'speed' cannot be expected;");
  expect_fault("expect copies up->down 1\n", "a.flow:1: copies go from place to place;");
  expect_fault("token t\ndevices 2\n", "a.flow:2: 'devices' comes too late;");
  expect_fault("devices 0\n", "a.flow:1: a machine has 1 to 64 devices;");
  expect_fault("run immediate\ntoken t\n", "a.flow:2: nothing may follow the line 'run';");
  expect_fault("machine null\nrun immediate; backends host\n", "a.flow:2: 'machine' says already");
  expect_fault("run immediate; speed 3\n", "a.flow:1: 'seeds' or 'backends' is expected");
}

TEST(ScenarioText, MissingFileIsAFault) {
  try {
    (void)load("no/such.flow");
    FAIL();
  } catch (const parse_error& fault) {
    EXPECT_STREQ(fault.what(), "no/such.flow:1: the file cannot be read; check the path");
  }
}

TEST(ScenarioText, PrintingAndParsingAreInverse) {
  const std::string text =
      "devices 3\n"
      "data x 1KiB at host = 4\n"
      "data y 24B at nowhere\n"
      "data z 16B at dev1 over x+8B readonly\n"
      "data none 0B at host\n"
      "token t\n"
      "task a dev0 read x write y@dev2 adds 5\n"
      "submit b rw x fails\n"
      "expect error poisoned \"x y\" \"b\"\n"
      "host_launch c read t sets -1\n"
      "host_launch c2 deviceless read t rw x\n"
      "task c3 host deviceless rw x adds 2\n"
      "submit c4 host deviceless\n"
      "with d host rw x\n"
      "open e dev1 read x\n"
      "close e\n"
      "open f\n"
      "abort f\n"
      "fill y 7 on dev1 named g\n"
      "fill y 8\n"
      "wait y = 8\n"
      "wait t\n"
      "fence\n"
      "check_errors\n"
      "drop z\n"
      "expect edges a->b b->d\n"
      "expect edges at least a->b\n"
      "expect no edge b->a\n"
      "expect copies host->dev0 1 dev0->host 2\n"
      "expect copies none\n"
      "expect failed a b\n"
      "expect skipped none\n"
      "expect order a b c\n"
      "expect records 3\n"
      "finalize\n"
      "expect value x = 3\n"
      "run immediate, graph; seeds 5; backends host, null\n";
  EXPECT_EQ(print(parsed(text)), text);
}

}  // namespace
}  // namespace millstream::scenario
