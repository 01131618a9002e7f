// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>

#include "base/settings.hpp"
#include "base/text.hpp"

namespace millstream::base {
namespace {

constexpr std::array<std::string_view, 5> level_names{"debug", "info", "warning", "error", "off"};

void write_to_standard_error(log_level level, std::string_view text, void* /*user*/) noexcept {
  try {
    // One write, so that the lines of several threads do not mix.
    const std::string line =
        cat("millstream: ", level_names[static_cast<std::size_t>(level)], ": ", text, '\n');
    std::fwrite(line.data(), 1, line.size(), stderr);
  } catch (const std::exception&) {
    // Out of memory while reporting: there is nobody left to tell.
  }
}

struct chosen_sink {
  log_sink call = write_to_standard_error;
  void* user = nullptr;
};

std::mutex sink_mutex;  // guards sink; innermost
constinit chosen_sink sink;
constexpr int not_read = -1;
constinit std::atomic<int> wanted{not_read};

int level_of_environment() noexcept {
  try {
    const settings& set = environment();
    const auto* found = std::find(level_names.begin(), level_names.end(), set.log_level);
    return static_cast<int>(found - level_names.begin());
  } catch (const std::exception&) {
    return static_cast<int>(log_level::warning);
  }
}

/// A wrong MILLSTREAM_LOG concerns nobody but the log, so it is the log that says so, once.
void report_problem_once() noexcept {
  static const bool reported = [] {
    try {
      const std::string problem = environment().problem_with("MILLSTREAM_LOG");
      if (!problem.empty()) write_to_standard_error(log_level::warning, problem, nullptr);
    } catch (const std::exception&) {
      // As above.
    }
    return true;
  }();
  static_cast<void>(reported);
}

}  // namespace

bool log_enabled(log_level level) noexcept {
  int least = wanted.load(std::memory_order_relaxed);
  if (least == not_read) {
    least = level_of_environment();
    int expected = not_read;
    // Left alone if set_log_level came in between.
    if (!wanted.compare_exchange_strong(expected, least)) least = expected;
    report_problem_once();
  }
  return level != log_level::off && static_cast<int>(level) >= least;
}

void log(log_level level, std::string_view text) noexcept {
  if (!log_enabled(level)) return;
  chosen_sink to;
  {
    const std::scoped_lock hold(sink_mutex);
    to = sink;
  }
  to.call(level, text, to.user);  // outside the lock: a sink may log or be replaced
}

void set_log_sink(log_sink new_sink, void* user) noexcept {
  const std::scoped_lock hold(sink_mutex);
  sink = new_sink == nullptr ? chosen_sink{} : chosen_sink{new_sink, user};
}

void set_log_level(log_level level) noexcept {
  wanted.store(static_cast<int>(level), std::memory_order_relaxed);
}

}  // namespace millstream::base
