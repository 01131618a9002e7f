// SPDX-License-Identifier: Apache-2.0
/// A submitted task as its queue sees it: the body with everything it needs
/// when its turn comes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <millstream/untyped.hpp>

#include "backend/job.hpp"
#include "core/completion.hpp"
#include "core/lanes.hpp"
#include "core/plan.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {

struct failed_task;

/// One block of the pool: the object, then its accesses, its addresses and its
/// name. It keeps the context and the data alive. At its turn it is skipped if
/// an input is poisoned, else the body runs; what the body throws becomes the
/// failure of the task.
///
/// One that a graph calls on a thread of the driver's (`be_node`) waits for no lock there under
/// which somebody may wait for the driver, the context's among them, and is disposed of elsewhere.
class task_job final : public backend::job {
 public:
  /// `end` is the position the job will have in its lane. Under the context's
  /// lock.
  [[nodiscard]] static task_job* make(std::shared_ptr<context> in, const plan& of, body_ptr work,
                                      completion end, std::atomic<std::uint64_t>& finished,
                                      std::uint64_t queue);
  void run() noexcept override;
  /// Only notes the fact: the caller may hold locks. `drain_retired` does the
  /// rest.
  void discard() noexcept override;
  /// Before it is queued: a graph calls it on a thread of the driver's, once. It is disposed of
  /// when that was done, or it was discarded, and `let_go` was called.
  void be_node() noexcept { in_node_ = calls_no_driver = true; }
  /// The stage it is a node of is over, or given up. `locked`: the caller may hold locks.
  void let_go(bool locked) noexcept;
  /// From now on it may run any number of times, one after the other; it tells the listener
  /// nothing, no longer keeps the context, and is disposed of by the caller.
  void keep() noexcept;
  /// Without any lock of the library.
  void dispose() noexcept;
  /// Why a kept one failed since it was told to forget that, or null. Under the context's lock.
  [[nodiscard]] const std::exception_ptr& last_failure() const noexcept { return last_failure_; }
  void forget_failure() noexcept { last_failure_ = nullptr; }
  /// "task 'x' (file:12)", for messages.
  [[nodiscard]] std::string full_name() { return as_plan().full_name(); }

 private:
  struct used {
    data* what;
    std::uint64_t version;
    void* address;
    access_mode mode;
    bool shared;
    bool inherited;
  };

  task_job(std::shared_ptr<context> in, const plan& of, body_ptr work, completion end,
           std::atomic<std::uint64_t>& finished, std::uint64_t queue);
  ~task_job() = default;

  [[nodiscard]] static std::size_t size_for(const plan& of) noexcept;
  // Behind this object, in the same block.
  [[nodiscard]] used* accesses() noexcept {
    return reinterpret_cast<used*>(reinterpret_cast<std::byte*>(this) + sizeof(task_job));
  }
  [[nodiscard]] void** addresses() noexcept {
    return reinterpret_cast<void**>(accesses() + access_count_);
  }
  [[nodiscard]] char* name() noexcept { return reinterpret_cast<char*>(addresses() + dep_count_); }

  enum party : std::uint8_t { called = 1, left = 2, both = 3 };
  void retire() noexcept;
  [[nodiscard]] failed_task* poisoned_input() noexcept;
  void carry_poison();
  void execute() noexcept;
  void skip(failed_task& because) noexcept;
  void call_body();
  void fail(std::exception_ptr cause) noexcept;
  void report_broken_contract(const std::string& names);
  [[nodiscard]] plan as_plan();
  void poison_outputs(failed_task& because);

  std::shared_ptr<context> in_;
  body_ptr work_;
  std::uint64_t id_;
  completion end_;
  std::atomic<std::uint64_t>& finished_;  // lives as long as the context
  std::uint64_t queue_;
  source_site site_;
  std::uint32_t block_bytes_;
  std::uint32_t name_bytes_;
  std::uint16_t access_count_;
  std::uint16_t dep_count_;
  place_index exec_;
  task_kind kind_;
  bool has_shared_;
  bool kept_ = false;
  bool in_node_ = false;
  std::atomic<std::uint8_t> ends_{0};  // of a node that is not kept: who is done with it
  std::exception_ptr last_failure_;    // only of a kept one; the list of failures has it, too
};

namespace detail {
extern std::atomic<backend::job*> retired_jobs;
void dispose_retired() noexcept;
}  // namespace detail

/// Disposes of jobs that were discarded. Any thread, without any lock of the
/// library.
inline void drain_retired() noexcept {
  if (detail::retired_jobs.load(std::memory_order_relaxed) != nullptr) detail::dispose_retired();
}
/// The task whose body the calling thread runs, for messages; "" outside of bodies.
[[nodiscard]] std::string running_task_name();
/// How many jobs are being executed right now in the process.
[[nodiscard]] std::uint64_t running_jobs() noexcept;

/// Whether this thread is in a host function that a graph of a machine like that calls on a thread
/// of the driver's: it is declared to need no driver.
[[nodiscard]] inline bool is_in_node(const machine& of) noexcept {
  return current_job().in_node && !of.has(backend::capability::runs_jobs);
}
[[noreturn]] void refuse_in_node(const char* call);
/// Throws error(usage), naming the task, in such a function.
inline void check_outside_node(const machine& on, const char* call) {
  if (is_in_node(on)) refuse_in_node(call);
}

}  // namespace millstream::core
