// SPDX-License-Identifier: Apache-2.0
/// The runner: one GoogleTest case per scenario file.
///
///   millstream_scenario [GoogleTest options] [--seeds=N] [--seed=S] [--backend=NAME]... PATH...
///
/// A path is a `.flow` file or a folder that is searched for them. `--seeds` replaces the number of
/// seeds that a file asks for (never raises 0), `--seed` runs this one only, `--backend` only these
/// backends.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <millstream/error.hpp>
#include <millstream/machine.hpp>

#include "tests/scenario/oracle.hpp"
#include "tests/scenario/player.hpp"
#include "tests/scenario/program.hpp"
#include "tests/scenario/watchdog.hpp"

namespace millstream::scenario {
namespace {

constexpr unsigned patience_seconds = 60;

struct settings {
  std::optional<std::uint64_t> seeds;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> backends;  // empty = all
  std::vector<std::string> paths;
};

class scenario_test : public testing::Test {
 public:
  scenario_test(std::string file, const settings& how) : file_(std::move(file)), how_(how) {}

  void TestBody() override {
    program what;
    try {
      what = load(file_);
    } catch (const parse_error& fault) {
      FAIL() << fault.what();
    }
    run(what);
  }

 private:
  void run(const program& what) {
    bool ran = false;
    for (const std::string& mode : what.plan.modes) {
      if (mode != "immediate" && mode != "graph") {
        std::cout << "  not run in mode '" << mode << "': this build has no such mode\n";
        continue;
      }
      for (const std::string& backend : what.plan.backends) {
        if (!is_wanted(backend)) continue;
        const bool recorded = mode == "graph";
        if (const std::string why = why_not_here(backend, what.devices, recorded); !why.empty()) {
          std::cout << "  not run on '" << backend << "': " << why << "\n";
          continue;
        }
        const forecast plan = predict(what, traits_of(backend));
        for (const std::string& problem : check_text(what, plan))
          ADD_FAILURE() << problem;
        if (!HasFailure()) run_seeds(what, plan, {backend, std::nullopt, recorded});
        ran = true;
      }
    }
    if (!ran) GTEST_SKIP() << "nothing of what this scenario asks for is available here";
  }

  [[nodiscard]] bool is_wanted(const std::string& backend) const {
    const std::vector<std::string>& all = how_.backends;
    return all.empty() || std::find(all.begin(), all.end(), backend) != all.end();
  }

  static std::string why_not_here(const std::string& backend, int devices, bool recorded) {
    const std::vector<std::string> here = machine_names();
    if (std::find(here.begin(), here.end(), backend) == here.end())
      return "this build has no such machine";
    try {
      context_options wanted;
      wanted.on = machine({backend, devices, {}});
      wanted.use_graph = recorded;
      untyped_context(wanted).finish();
    } catch (const error& thrown) {
      if (thrown.code() == errc::unavailable || thrown.code() == errc::unsupported) {
        return thrown.what();
      }
      throw;
    }
    return {};
  }

  void run_seeds(const program& what, const forecast& plan, run_options options) {
    options.seed = how_.seed;
    run_once(what, plan, options);
    if (how_.seed || options.backend == "null")
      return;  // nothing runs, so there is no order to choose
    const std::uint64_t seeds = std::min(what.plan.seeds, how_.seeds.value_or(what.plan.seeds));
    for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
      options.seed = seed;
      run_once(what, plan, options);
    }
  }

  void run_once(const program& what, const forecast& plan, const run_options& options) {
    watchdog dog(patience_seconds);
    dog.guard(file_ + " (" + options.text() + ")");
    for (const std::string& problem : play(what, plan, options)) {
      ADD_FAILURE() << problem << " (" << options.text() << ")";
    }
  }

  const std::string file_;
  const settings& how_;
};

std::optional<std::uint64_t> number_option(std::string_view argument, std::string_view name) {
  if (!argument.starts_with(name)) return std::nullopt;
  return std::stoull(std::string(argument.substr(name.size())));
}

settings parse_arguments(int count, char** arguments) {
  settings result;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    constexpr std::string_view backend = "--backend=";
    if (const auto seeds = number_option(argument, "--seeds=")) {
      result.seeds = seeds;
    } else if (const auto seed = number_option(argument, "--seed=")) {
      result.seed = seed;
    } else if (argument.starts_with(backend)) {
      result.backends.emplace_back(argument.substr(backend.size()));
    } else {
      result.paths.emplace_back(argument);
    }
  }
  return result;
}

std::set<std::string> find_files(const std::vector<std::string>& paths) {
  std::set<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.insert(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
      if (entry.path().extension() == ".flow") files.insert(entry.path().string());
    }
  }
  return files;
}

}  // namespace
}  // namespace millstream::scenario

int main(int count, char** arguments) {
  using namespace millstream::scenario;
  testing::InitGoogleTest(&count, arguments);
  static settings how;
  try {
    how = parse_arguments(count, arguments);
  } catch (const std::exception&) {
    std::cerr << "bad arguments; use [--seeds=N] [--seed=S] [--backend=NAME]... PATH...\n";
    return 2;
  }
  const std::set<std::string> files = find_files(how.paths);
  if (files.empty()) {
    std::cerr << "no scenario was found; name .flow files or a folder that has some\n";
    return 2;
  }
  for (const std::string& file : files) {
    const std::filesystem::path path(file);
    testing::RegisterTest(path.parent_path().filename().c_str(), path.stem().c_str(), nullptr,
                          nullptr, file.c_str(), 1,
                          [file]() -> testing::Test* { return new scenario_test(file, how); });
  }
  return RUN_ALL_TESTS();
}
