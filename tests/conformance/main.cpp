// SPDX-License-Identifier: Apache-2.0
/// The conformance program:
///   millstream_conformance --backend=NAME [--devices=N] [--seed=N | --seeds=K]
/// With --seeds the promises about order are kept or broken K times, under the seeds 0 to K-1.
/// Exit code 77: the backend is not available here.
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tests/conformance/exit_scene.hpp"
#include "tests/conformance/promise.hpp"

namespace {

using conformance::options;

constexpr int not_available = 77;
constexpr int wrong_usage = 2;
// Of a run of one promise that is expected to fail.
constexpr int was_skipped = 3;
// What depends on the order of execution; the other suites say the same under every seed.
constexpr const char* order_suites =
    "memory*:queues.*:order.*:events.*:time_points.*:job*:host_jobs.*:transfer*:peer*:shutdown*:"
    "graph*";

struct arguments {
  std::string backend;
  int seeds = 0;
  bool expects_failure = false;
  bool exit_scene = false;
};

bool take(std::string_view argument, std::string_view name, std::string_view& value) {
  if (!argument.starts_with(name) || !argument.substr(name.size()).starts_with('=')) return false;
  value = argument.substr(name.size() + 1);
  return true;
}

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc{} && end == text.data() + text.size();
}

bool parse(int count, char** argument, arguments& into) {
  bool good = true;
  for (int i = 1; i < count; ++i) {
    std::string_view text;
    if (take(argument[i], "--backend", text)) {
      into.backend = text;
    } else if (take(argument[i], "--devices", text)) {
      good = good && parse(text, options().devices);
    } else if (take(argument[i], "--seed", text)) {
      good = good && parse(text, options().seed.emplace());
    } else if (take(argument[i], "--seeds", text)) {
      good = good && parse(text, into.seeds);
    } else if (argument[i] == std::string_view("--expect-failure")) {
      into.expects_failure = true;
    } else if (argument[i] == std::string_view("--exit-scene")) {
      into.exit_scene = true;
    } else {
      good = good && std::string_view(argument[i]).starts_with("--gtest_");
    }
  }
  options().with = conformance::joined::find(into.backend);
  return good && options().with != nullptr;
}

/// One round of all tests for each seed.
class seed_rounds final : public testing::EmptyTestEventListener {
  void OnTestIterationStart(const testing::UnitTest& /*all*/, int round) override {
    options().seed = static_cast<std::uint64_t>(round);
  }
};

/// Tells a skipped promise from a kept one.
class skip_watch final : public testing::EmptyTestEventListener {
 public:
  explicit skip_watch(bool& skipped) : skipped_(skipped) {}

 private:
  void OnTestEnd(const testing::TestInfo& test) override {
    skipped_ = skipped_ || test.result()->Skipped();
  }
  bool& skipped_;
};

void add_filter(const std::string& more) {
  GTEST_FLAG_SET(filter, GTEST_FLAG_GET(filter) + more);
}

/// Runs one promise of the not-yet list in a process of its own, so that even a crash is only its
/// failure.
bool still_fails(const std::string& promise) {
  const std::string filter = "--gtest_filter=" + promise;
  const std::string backend_argument = "--backend=" + options().with->name;
  const std::string devices_argument = "--devices=" + std::to_string(options().devices);
  const std::string seed_argument =
      options().seed ? "--seed=" + std::to_string(*options().seed) : "";
  const pid_t child = fork();
  if (child == 0) {
    // Without a seed the list ends one word earlier.
    execl("/proc/self/exe", "millstream_conformance", "--expect-failure", filter.c_str(),
          backend_argument.c_str(), devices_argument.c_str(),
          options().seed ? seed_argument.c_str() : nullptr, nullptr);
    _exit(127);
  }
  int ended = 0;
  waitpid(child, &ended, 0);
  const bool passed = WIFEXITED(ended) && WEXITSTATUS(ended) == 0;
  const bool skipped = WIFEXITED(ended) && WEXITSTATUS(ended) == was_skipped;
  return !passed && !skipped;
}

int check_not_yet_list() {
  int wrong = 0;
  for (const conformance::not_yet& line : options().with->not_yet_list) {
    if (still_fails(line.promise)) continue;
    std::printf("%s is kept or skipped, but in the not-yet list (issue %d); remove the line\n",
                line.promise.c_str(), line.issue);
    ++wrong;
  }
  return wrong;
}

int run_expected_failure() {
  bool skipped = false;
  testing::UnitTest::GetInstance()->listeners().Append(new skip_watch(skipped));
  const int failed = RUN_ALL_TESTS();
  return failed == 0 && skipped ? was_skipped : failed;
}

/// A list that names no promise has a typing error.
bool exists(const std::string& promise) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int n = 0; n < suite.total_test_count(); ++n) {
      if (std::string(suite.name()) + "." + suite.GetTestInfo(n)->name() == promise) return true;
    }
  }
  std::printf("%s is in a list of the join file, but there is no such promise; correct the name\n",
              promise.c_str());
  return false;
}

bool lists_are_right() {
  const conformance::join& with = *options().with;
  bool right = true;
  for (const auto& line : with.never_list)
    right = exists(line.promise) && right;
  for (const auto& line : with.never_seeded)
    right = exists(line.promise) && right;
  for (const auto& line : with.not_yet_list)
    right = exists(line.promise) && right;
  return right;
}

int run_all(const arguments& given) {
  std::string separator = GTEST_FLAG_GET(filter).find('-') == std::string::npos ? "-" : ":";
  for (const conformance::not_yet& line : options().with->not_yet_list) {
    add_filter(separator + line.promise);
    separator = ":";
  }
  if (given.seeds > 0) {
    testing::UnitTest::GetInstance()->listeners().Append(new seed_rounds);
  }
  const int failed = RUN_ALL_TESTS();
  return failed != 0 || check_not_yet_list() != 0 ? 1 : 0;
}

}  // namespace

int main(int count, char** argument) {
  arguments given;
  const bool good = parse(count, argument, given);
  if (given.seeds > 0) {
    // Before the other flags are read, so that the command line may say otherwise.
    GTEST_FLAG_SET(repeat, given.seeds);
    GTEST_FLAG_SET(brief, true);
    GTEST_FLAG_SET(filter, order_suites);
  }
  testing::InitGoogleTest(&count, argument);
  if (!good || !lists_are_right()) {
    std::fprintf(stderr, "usage: %s --backend=NAME [--devices=N] [--seed=N | --seeds=K]\n",
                 argument[0]);
    return wrong_usage;
  }
  auto opened = options().with->open({options().devices, options().seed});
  if (!opened && opened.why().code() == millstream::errc::unavailable) {
    std::printf("skipped: %s\n", opened.why().text().c_str());
    return not_available;
  }
  if (!opened) {
    std::printf("the machine cannot be opened: %s\n", opened.why().text().c_str());
    return 1;
  }
  if (given.exit_scene) return conformance::exit_with_work_in_flight(std::move(opened.value()));
  opened.value().reset();
  return given.expects_failure ? run_expected_failure() : run_all(given);
}
