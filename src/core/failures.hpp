// SPDX-License-Identifier: Apache-2.0
/// Tasks that failed: kept by their context until it dies, so that poisoned
/// data can name them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <vector>

#include <millstream/untyped.hpp>

namespace millstream::core {

/// One failed task. Only `skipped` changes after it was added.
struct failed_task {
  std::exception_ptr cause;
  std::uint64_t task_id = 0;
  std::string task;  ///< "'name'" or "task 12"
  std::string data;  ///< "'a', 'b'"
  source_site site;
  std::atomic<std::uint64_t> skipped{0};
  bool captured = false;    ///< its body ran while a device's queue was recorded
  bool handed_out = false;  ///< guarded by the list's mutex
};

/// Any thread. The mutex is innermost; no cause is destroyed under it.
class failure_list {
 public:
  /// `any` is set with the first failure, before that can poison anything.
  explicit failure_list(std::atomic<bool>& any) noexcept : any_(any) {}
  /// The result stays valid as long as the list. `known` = the caller has the
  /// exception already, it is not handed out again.
  failed_task* add(failure what, bool known);
  [[nodiscard]] std::vector<failure> take(std::size_t most);
  /// The same for tasks of that range, and they may be handed out again.
  [[nodiscard]] std::vector<failure> look(task_range of) const;
  /// Those are not handed out any more.
  void mark_seen(const std::vector<std::uint64_t>& task_ids) noexcept;
  [[nodiscard]] std::size_t pending() const;

 private:
  std::atomic<bool>& any_;
  mutable std::mutex mutex_;  // guards all below
  std::deque<failed_task> all_;
};

/// The text of an exception, for messages.
[[nodiscard]] std::string text_of(const std::exception_ptr& cause);

/// Throws error(poisoned) naming the datum and the failed task, with the cause
/// nested.
[[noreturn]] void throw_poisoned(const std::string& who, const std::string& data,
                                 const failed_task& because);

}  // namespace millstream::core
