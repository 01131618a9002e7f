// SPDX-License-Identifier: Apache-2.0
/// What a program must do, found by running it one statement after the other without an engine.
/// The rules are those of the promise: the result is the one of sequential execution; a failed
/// task poisons what it was to write; a task that reads poison is skipped and poisons its outputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <millstream/error.hpp>

#include "tests/scenario/program.hpp"

namespace millstream::scenario {

/// Every element of a datum has the same value. Nothing: not known, so not checked; what is
/// computed from it is not known either.
using known_value = std::optional<std::int64_t>;

/// What one access of a body sees and leaves, duplicates of a datum merged.
struct access_forecast {
  std::size_t elements = 0;  ///< 0 for tokens and data of no size
  bool is_token = false;
  bool reads = false;
  bool writes = false;
  std::size_t first = 0;  ///< index of the first access to the same datum
  int place = on_host;    ///< where the instance is
  known_value input;
  known_value output;
};

struct task_forecast {
  std::string name;
  bool runs = false;     ///< its body is called
  bool fails = false;    ///< its body throws
  bool skipped = false;  ///< an input is poisoned
  /// Skipped if the failure is known when it is submitted; else it runs with whatever is there.
  bool may_run = false;
  int place = on_host;
  std::vector<access_forecast> accesses;
};

struct statement_forecast {
  errc error = errc::ok;              ///< what the statement throws
  bool needs_settling = false;        ///< `error` only once everything before has ended
  std::optional<task_forecast> task;  ///< of task and fill statements that are accepted
  known_value value;                  ///< what `wait` gives
};

/// Why, which datum (its first name), where to.
using copy_key = std::tuple<bool /*write-back*/, std::string, int>;

struct forecast {
  std::vector<statement_forecast> statements;  ///< one per statement of the program
  std::vector<edge> edges;                     ///< between tasks that have a name, sorted
  std::vector<std::string> failed;             ///< in submission order, all forms
  std::vector<std::string> reported;           ///< failures a context hands out, all of them
  std::vector<std::string> skipped;
  std::vector<std::string> maybe_skipped;  ///< those of `skipped` that may run as well
  /// Content of each buffer of the user's at the end, by element; the key is the index of the
  /// statement that made the buffer.
  std::map<std::size_t, std::vector<known_value>> buffers;
  /// Coherence copies and write-backs. Empty where failures make the numbers a matter of time.
  std::optional<std::map<copy_key, std::uint64_t>> copies;
};

/// In what the right outcome depends on the machine.
struct machine_traits {
  /// A buffer of the user's is host memory, whatever device it is registered at.
  bool devices_use_host_memory = true;
  /// Bodies for devices are called when they are submitted, before the host functions whose output
  /// they use have run: failures of those are discovered late.
  bool bodies_run_at_once = false;
};
[[nodiscard]] machine_traits traits_of(const std::string& backend);

/// `expect error` wins over the oracle's opinion: the statement before it changes nothing. Errors
/// that the oracle sees itself are in `statements`.
[[nodiscard]] forecast predict(const program& what, const machine_traits& on = {});

/// Faults of the text that only show when it is compared with the oracle: an error that is not
/// announced, or announced with another code. Each entry reads "file:line: ...".
[[nodiscard]] std::vector<std::string> check_text(const program& what, const forecast& plan);

/// The arithmetic of bodies, shared with those that really run.
[[nodiscard]] std::int64_t name_hash(const std::string& name) noexcept;
[[nodiscard]] std::int64_t mix(std::int64_t left, std::int64_t right) noexcept;
inline constexpr std::int64_t rubbish = -0x0BAD0BAD0BAD0BAD;

}  // namespace millstream::scenario
