// SPDX-License-Identifier: Apache-2.0
/// A task whose body runs in the caller's thread, between start and end.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <millstream/kernel.hpp>
#include <millstream/untyped.hpp>

#include "core/checker.hpp"
#include "core/context.hpp"
#include "core/launches.hpp"
#include "core/open_body.hpp"
#include "core/plan.hpp"

namespace millstream::core {

/// State behind untyped_task. Used by one thread at a time; other threads see its `open_body`.
/// While that thread waits in `start` or `end`, another one may come, and is refused.
class open_task {
 public:
  explicit open_task(std::shared_ptr<context> in, source_site site);
  /// Not open any more: untyped_task fails open ones first.
  ~open_task();
  open_task(const open_task&) = delete;
  open_task& operator=(const open_task&) = delete;

  // As in untyped_task.
  void add_dep(task_dep&& dep);
  void set_place(exec_place place);
  void set_symbol(std::string_view name);
  void set_kind(task_kind kind);
  void start();
  void end();
  void fail(std::exception_ptr cause) noexcept;
  void launch(kernel_launch&& what);
  void abandon() noexcept;
  /// An ended task keeps no data alive.
  void drop_deps() noexcept {
    if (!is_ended()) return;
    for (task_dep& each : deps_)
      const untyped_data dropped(std::move(each.data));
  }
  [[nodiscard]] bool is_skipped() const noexcept { return is_open() && skipped_; }
  [[nodiscard]] bool is_open() const noexcept { return phase_ == phase::open; }
  [[nodiscard]] bool is_ended() const noexcept { return phase_ == phase::ended; }
  [[nodiscard]] std::size_t dep_count() const noexcept { return deps_.size(); }
  [[nodiscard]] const task_dep& dep(std::size_t index) const;
  [[nodiscard]] void* pointer(std::size_t index) const;
  [[nodiscard]] body_call call();
  [[nodiscard]] std::string name() const;

  [[nodiscard]] std::string full_name() const { return plan_.full_name(); }

 private:
  // It is `starting` until it counts as open to others, then `entering` while it waits for its
  // data.
  enum class phase : std::uint8_t { setup, starting, entering, open, ending, ended };
  class attempt;    // to start it
  class last_step;  // of its end
  [[nodiscard]] bool runs_in_caller() const noexcept;
  /// Its work is described to us, not issued by a body.
  [[nodiscard]] bool is_described() const noexcept { return kind_ == task_kind::cuda_kernel; }
  void check_setup(const char* what) const;
  void check_open(const char* what) const;
  [[nodiscard]] task_spec spec() const noexcept;
  void begin(const context::lock& held);
  [[nodiscard]] failed_task* await_inputs(context::lock& held, const completion_set& ready);
  void give_up(const context::lock& held, outcome how) noexcept;
  [[nodiscard]] std::string poisoned_name() const;
  void end_checked();
  void finish(context::lock& held, std::exception_ptr failed, bool known);
  [[nodiscard]] body_call call_on(std::uint64_t queue);
  void note_begin();
  void begin_check();
  void open_skipped();

  // launches.cpp
  void check_described() const;
  [[nodiscard]] bool launches_kernels() const noexcept;
  void end_described();
  void end_described_once();
  void take_back(const context::lock& held) noexcept;
  [[nodiscard]] std::exception_ptr issue(context::lock& held, launch_list* launches);
  [[nodiscard]] std::exception_ptr queue_calls(context::lock& held, body_ptr& calls);

  const std::shared_ptr<context> in_;
  phase phase_ = phase::setup;
  bool in_caller_ = false;
  bool skipped_ = false;  // a described task with a poisoned input
  task_kind kind_ = task_kind::task;
  exec_place place_;
  std::string symbol_;
  base::small_vector<task_dep, 8> deps_;
  plan plan_;
  open_body body_{plan_};
  base::small_vector<void*, 8> pointers_;  // for `call`, filled when that is first asked
  std::unique_ptr<access_check> check_;
  std::unique_ptr<launch_list> launches_;
};

/// Why a task that was dropped while it was open counts as failed.
[[nodiscard]] std::string abandoned_text(const open_task& task);

}  // namespace millstream::core
