// SPDX-License-Identifier: Apache-2.0
/// Random programs against the sequential oracle.
///
///   millstream_model [GoogleTest options]
///       [--first=S] [--programs=N]  programs with the seeds S, S+1, ... (1, 60)
///       [--schedules=N]             schedule seeds per program besides the run without one (64)
///       [--program=S]               this program only
///       [--schedule=T|free]         this schedule seed only, or only real overlap
///       [--repeat=N]                how often the run without a seed is made (1)
///       [--backend=NAME]            which machine (host)
///       [--devices=N]               of how many devices (3)
///       [--recorded]                contexts record their tasks
///       [--print]                   show the programs instead of playing them
///
/// MILLSTREAM_MODEL_PROGRAMS replaces the default of --programs.
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "tests/model/generator.hpp"
#include "tests/model/shrinker.hpp"
#include "tests/scenario/oracle.hpp"
#include "tests/scenario/player.hpp"
#include "tests/scenario/watchdog.hpp"

namespace millstream::model {
namespace {

using scenario::forecast;
using scenario::program;
using scenario::run_options;

constexpr unsigned patience_seconds = 60;
constexpr std::size_t most_plays_to_shrink = 2000;
constexpr std::size_t thread_count = 4;

struct settings {
  std::uint64_t first = 1;
  std::uint64_t programs = 60;
  std::uint64_t schedules = 64;
  std::uint64_t repeat = 1;
  std::optional<std::uint64_t> schedule;
  std::string backend = "host";
  int devices = usual_devices;
  bool only_free = false;
  bool recorded = false;
  bool print = false;
};

settings& how() {
  static settings all;
  return all;
}

std::string command(const std::string& test, std::uint64_t seed, const run_options& options) {
  return "millstream_model --backend=" + how().backend + (how().recorded ? " --recorded" : "") +
         " --devices=" + std::to_string(how().devices) + " --gtest_filter=" + test +
         " --program=" + std::to_string(seed) +
         " --schedule=" + (options.seed ? std::to_string(*options.seed) : "free --repeat=100");
}

std::vector<run_options> schedules() {
  std::vector<run_options> all;
  const settings& wanted = how();
  if (wanted.schedule) return {{wanted.backend, wanted.schedule, wanted.recorded}};
  all.resize(wanted.repeat, {wanted.backend, std::nullopt, wanted.recorded});
  for (std::uint64_t seed = 1; seed <= wanted.schedules && !wanted.only_free; ++seed) {
    all.push_back({wanted.backend, seed, wanted.recorded});
  }
  return all;
}

/// Makes `prepare(seed)` for each program, which gives a function that plays it, and calls that
/// with each schedule until something is wrong.
template <class Prepare>
void sweep(const std::string& test, const Prepare& prepare) {
  scenario::watchdog dog(patience_seconds);
  const settings& wanted = how();
  for (std::uint64_t seed = wanted.first; seed < wanted.first + wanted.programs; ++seed) {
    const auto play = prepare(seed);
    for (const run_options& options : schedules()) {
      const std::string again = command(test, seed, options);
      dog.guard(again);
      for (const std::string& problem : play(options))
        ADD_FAILURE() << problem;
      if (!testing::Test::HasFailure()) continue;
      std::cout << "\nagain: " << again << "\n"
                << "if that passes, leave out --program and say --first=" << wanted.first
                << " --programs=" << seed - wanted.first + 1
                << ": machines keep what earlier programs left in them\n";
      return;
    }
  }
}

forecast outcome_of(const program& what) {
  return scenario::predict(what, scenario::traits_of(how().backend));
}

bool fails_somehow(const program& what) {
  const std::string& backend = how().backend;
  const bool recorded = how().recorded;
  const forecast plan = outcome_of(what);
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    if (!scenario::play(what, plan, {backend, seed, recorded}).empty()) return true;
    if (!scenario::play(what, plan, {backend, std::nullopt, recorded}).empty()) return true;
  }
  return false;
}

void show_small(const program& failing) {
  if (!fails_somehow(failing)) {
    std::cout << "it did not happen again, so the whole program:\n" << scenario::print(failing);
    return;
  }
  std::cout << "a smaller program with a fault, as a scenario:\n"
            << scenario::print(shrink(failing, fails_somehow, most_plays_to_shrink));
}

// Tasks that stay open keep what is recorded from being launched where bodies are captured.
bool may_keep_open() {
  return !(how().recorded && how().backend == "cuda");
}

TEST(Model, RandomProgramsGiveTheResultOfSequentialExecution) {
  std::optional<program> failing;
  sweep("Model.Random*", [&](std::uint64_t seed) {
    const program what = generate(seed, how().devices, may_keep_open());
    if (how().print) std::cout << scenario::print(what) << "\n";
    return [&failing, what, plan = outcome_of(what)](const run_options& options) {
      if (how().print) return std::vector<std::string>{};
      std::vector<std::string> problems = scenario::play(what, plan, options);
      if (!problems.empty()) failing = what;
      return problems;
    };
  });
  if (failing) show_small(*failing);
}

TEST(Model, ThreadsThatShareAContextEachGetTheirOwnResult) {
  sweep("Model.Threads*", [](std::uint64_t seed) {
    std::vector<program> all = generate_together(seed, how().devices, thread_count);
    std::vector<forecast> plans;
    for (const program& one : all) {
      if (how().print) std::cout << scenario::print(one) << "\n";
      plans.push_back(outcome_of(one));
    }
    return [all = std::move(all), plans = std::move(plans)](const run_options& options) {
      if (how().print) return std::vector<std::string>{};
      return scenario::play_together(all, plans, {shared_name}, options);
    };
  });
}

std::optional<std::uint64_t> number_option(std::string_view argument, std::string_view name) {
  if (!argument.starts_with(name)) return std::nullopt;
  return std::stoull(std::string(argument.substr(name.size())));
}

void take_argument(std::string_view argument) {
  settings& wanted = how();
  if (const auto first = number_option(argument, "--first=")) {
    wanted.first = *first;
  } else if (const auto programs = number_option(argument, "--programs=")) {
    wanted.programs = *programs;
  } else if (const auto schedules = number_option(argument, "--schedules=")) {
    wanted.schedules = *schedules;
  } else if (const auto repeat = number_option(argument, "--repeat=")) {
    wanted.repeat = *repeat;
  } else if (const auto one = number_option(argument, "--program=")) {
    wanted.first = *one;
    wanted.programs = 1;
  } else if (const auto devices = number_option(argument, "--devices=")) {
    wanted.devices = static_cast<int>(*devices);
  } else if (argument.starts_with("--backend=")) {
    wanted.backend = argument.substr(argument.find('=') + 1);
  } else if (argument == "--schedule=free") {
    wanted.only_free = true;
  } else if (const auto seed = number_option(argument, "--schedule=")) {
    wanted.schedule = seed;
  } else if (argument == "--recorded") {
    wanted.recorded = true;
  } else if (argument == "--print") {
    wanted.print = true;
    wanted.only_free = true;
  } else {
    throw std::invalid_argument(std::string(argument));
  }
}

}  // namespace
}  // namespace millstream::model

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  try {
    if (const char* programs = std::getenv("MILLSTREAM_MODEL_PROGRAMS")) {
      millstream::model::how().programs = std::stoull(programs);
    }
    for (int i = 1; i < count; ++i)
      millstream::model::take_argument(arguments[i]);
  } catch (const std::exception& wrong) {
    std::cerr << "bad argument (" << wrong.what() << "); see the head of tests/model/main.cpp\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}
