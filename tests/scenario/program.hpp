// SPDX-License-Identifier: Apache-2.0
/// A scenario as data: what a `.flow` file says, and what the generator of random programs makes.
/// Plain values; the parser, the printer, the oracle and the player all work on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <millstream/access.hpp>
#include <millstream/error.hpp>

namespace millstream::scenario {

/// A place is a device number or one of these. `unplaced` means "no place given": the nearest one
/// for an access, the default one for a task, none at all for the home of a datum.
inline constexpr int on_host = -1;
inline constexpr int unplaced = -3;

/// One access of a task as written: `rw x@dev1`.
struct access {
  access_mode mode = access_mode::none;
  std::string data;
  int place = unplaced;
  friend bool operator==(const access&, const access&) = default;
};

/// What a body computes. Every body first reads all its inputs, then writes all its outputs.
///   mix    each output is a hash of the task's name, the inputs and the output's position
///   adds   each output is the sum of the inputs that are only read, of its own old value if it is
///          rw, and of `number`
///   sets   each output is `number`
///   fails  writes rubbish to the outputs, then throws
enum class effect : std::uint8_t { mix, adds, sets, fails };
struct work {
  effect what = effect::mix;
  std::int64_t number = 0;
  friend bool operator==(const work&, const work&) = default;
};

/// How a task is handed to the context. `task`, `submit` and `host_launch` run by themselves;
/// `with` is start, body and end at once in the submitting thread; `open` is only the start: the
/// body runs at `close`.
enum class form : std::uint8_t { task, submit, host_launch, with, open };

struct data_statement {
  std::string name;
  std::size_t bytes = 0;  ///< a multiple of 8
  int home = unplaced;
  bool readonly = false;
  std::optional<std::int64_t> value{};  ///< first content; 0 for registered data
  std::string over{};                   ///< registers part of this datum's buffer again; "" = no
  std::size_t offset = 0;               ///< where that part begins, in bytes
  friend bool operator==(const data_statement&, const data_statement&) = default;
};
struct token_statement {
  std::string name;
  friend bool operator==(const token_statement&, const token_statement&) = default;
};
struct task_statement {
  form how = form::task;
  std::string name;
  int place = unplaced;
  std::vector<access> accesses;
  work body;
  bool uses_device = true;  ///< false: a host function that is declared not to
  friend bool operator==(const task_statement&, const task_statement&) = default;
};
/// Ends a task that `open` started; `failed` ends it as failed.
struct close_statement {
  std::string task;
  bool failed = false;
  friend bool operator==(const close_statement&, const close_statement&) = default;
};
struct fill_statement {
  std::string name{};  ///< of the task; "" = unnamed
  std::string data;
  std::int64_t value = 0;
  int place = unplaced;
  friend bool operator==(const fill_statement&, const fill_statement&) = default;
};
struct drop_statement {
  std::string data;
  friend bool operator==(const drop_statement&, const drop_statement&) = default;
};
struct wait_statement {
  std::string data;
  std::optional<std::int64_t> value;
  friend bool operator==(const wait_statement&, const wait_statement&) = default;
};
enum class action : std::uint8_t { fence, check_errors, finalize };
struct action_statement {
  action what = action::fence;
  friend bool operator==(const action_statement&, const action_statement&) = default;
};

/// Names of tasks, or a direction of copies: `from->to`.
using edge = std::pair<std::string, std::string>;
struct expect_edges {
  enum class extent : std::uint8_t { exact, at_least, none_of } how = extent::exact;
  std::vector<edge> edges;
  friend bool operator==(const expect_edges&, const expect_edges&) = default;
};
/// Copies submitted so far, by direction; a direction that is not listed must not occur.
struct expect_copies {
  std::vector<std::pair<edge, std::uint64_t>> counts;
  friend bool operator==(const expect_copies&, const expect_copies&) = default;
};
/// Content of a registered buffer after the context was finalized.
struct expect_value {
  std::string data;
  std::int64_t value = 0;
  friend bool operator==(const expect_value&, const expect_value&) = default;
};
struct expect_ended {
  enum class manner : std::uint8_t { failed, skipped } how = manner::failed;
  std::vector<std::string> tasks;  ///< all of them
  friend bool operator==(const expect_ended&, const expect_ended&) = default;
};
/// About the statement before it, which then must change nothing.
struct expect_error {
  errc code = errc::ok;
  std::vector<std::string> words;  ///< each must occur in the text
  friend bool operator==(const expect_error&, const expect_error&) = default;
};
/// Each task ended before the next one began.
struct expect_order {
  std::vector<std::string> tasks;
  friend bool operator==(const expect_order&, const expect_order&) = default;
};
/// A counter of the context at this point.
struct expect_count {
  std::string what;
  std::uint64_t count = 0;
  friend bool operator==(const expect_count&, const expect_count&) = default;
};

struct statement {
  std::uint32_t line = 0;
  std::variant<data_statement, token_statement, task_statement, close_statement, fill_statement,
               drop_statement, wait_statement, action_statement, expect_edges, expect_copies,
               expect_value, expect_ended, expect_error, expect_order, expect_count>
      what;
};

/// Which runs a scenario asks for. Each backend is run once without a seed (real overlap) and
/// `seeds` times with a seed that chooses among legal orders.
struct run_plan {
  std::vector<std::string> modes{"immediate"};
  std::vector<std::string> backends{"host"};
  std::uint64_t seeds = 16;
  friend bool operator==(const run_plan&, const run_plan&) = default;
};

struct program {
  std::string file;  ///< for messages and as source file of every statement
  int devices = 1;
  std::vector<statement> statements;
  run_plan plan;
};

/// A fault of the text; what() reads "file:line: ...".
class parse_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws parse_error.
[[nodiscard]] program parse(const std::string& file, const std::string& text);
[[nodiscard]] program load(const std::string& file);

/// The text that parses to the same program.
[[nodiscard]] std::string print(const program& what);
[[nodiscard]] std::string print(const statement& what);
[[nodiscard]] std::string place_name(int place);

/// The error an `expect error` right behind statement `index` announces; null = none.
[[nodiscard]] const expect_error* announced_error(const program& in, std::size_t index);

template <class... Callables>
struct overloaded : Callables... {
  using Callables::operator()...;
};
template <class... Callables>
overloaded(Callables...) -> overloaded<Callables...>;

}  // namespace millstream::scenario
