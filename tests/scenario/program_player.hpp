// SPDX-License-Identifier: Apache-2.0
/// Plays the statements of one program on the context of a session.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <millstream/untyped.hpp>

#include "tests/scenario/body.hpp"
#include "tests/scenario/session.hpp"

namespace millstream::scenario {

/// A registered datum that other programs use too.
struct lent_datum {
  untyped_data handle;
  const void* address = nullptr;
  int home = on_host;
};

/// Used by one thread at a time. Order of calls: run, end, then (once nobody uses the context any
/// more) finish_checks.
class program_player {
 public:
  program_player(session& in, const program& what, const forecast& plan,
                 std::map<std::string, lent_datum> lent = {});
  program_player(const program_player&) = delete;
  program_player& operator=(const program_player&) = delete;

  /// All statements.
  void run();
  /// Gives up tasks that are still open, lets go of all handles.
  void end();
  /// Buffers, bodies and owners, when the context was finished; `left` are the failures that it
  /// handed out at the end, those of other programs included.
  void finish_checks(const std::vector<failure>& left);

  [[nodiscard]] const program& what() const noexcept { return program_; }

 private:
  struct named_datum {
    untyped_data handle;
    const void* address = nullptr;
    std::size_t bytes = 0;
    int home = unplaced;
    bool lent = false;
  };
  struct user_buffer {
    std::vector<std::int64_t> words;
    std::shared_ptr<device_buffer> on_device;  ///< in use instead of `words` where there is one
    std::weak_ptr<void> owner;
  };
  struct opened {
    untyped_task task;
    task_record* record = nullptr;
  };

  void step(const data_statement& what);
  void step(const token_statement& what);
  void step(const task_statement& what);
  void step(const close_statement& what);
  void step(const fill_statement& what);
  void step(const drop_statement& what);
  void step(const wait_statement& what);
  void step(const action_statement& what);
  void step(const expect_copies& what);
  void step(const expect_count& what);
  template <class Static>
  void step(const Static& /*what*/) {}  // checked before or after the run

  /// Makes the call and compares what it throws with the forecast. True if it threw nothing.
  bool attempt(const std::function<void()>& call);
  void check_error(const error& thrown);
  void complain(const std::string& text);
  [[nodiscard]] source_site site() const;
  [[nodiscard]] const statement_forecast& now() const { return plan_.statements[index_]; }

  void register_buffer(const data_statement& what, named_datum& into);
  [[nodiscard]] std::vector<task_dep> deps_of(const std::vector<access>& accesses);
  task_record& new_record(const task_statement& what);
  void settle();
  void submit(const task_statement& what, task_record& record);
  void start(const task_statement& what, task_record& record);
  void finish(untyped_task& task, task_record& record, bool aborted);
  [[nodiscard]] bool ran_as_planned(const task_record& record) const;
  void fence();
  void finalize();
  void check_failures(const std::vector<failure>& left);
  void check_buffer(std::size_t index);
  void check_value(const expect_value& wanted);

  session& session_;
  const program& program_;
  const forecast& plan_;
  std::map<std::string, lent_datum> lent_;
  std::size_t index_ = 0;  // of the statement being played
  std::map<std::string, named_datum> data_;
  std::map<std::string, std::size_t> sources_;  // statement that made the buffer of a name
  std::map<std::size_t, user_buffer> buffers_;
  std::deque<task_record> records_;  // bodies point into it
  std::map<std::string, opened> opened_;
  std::size_t handed_out_ = 0;  // failures that were thrown
};

}  // namespace millstream::scenario
