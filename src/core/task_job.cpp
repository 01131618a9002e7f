// SPDX-License-Identifier: Apache-2.0
#include "core/task_job.hpp"

#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "base/block_pool.hpp"
#include "base/clock.hpp"
#include "base/fork_guard.hpp"
#include "base/text.hpp"
#include "core/checker.hpp"
#include "core/context.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {
namespace {

std::atomic<std::uint64_t> g_running{0};

}  // namespace

constinit std::atomic<backend::job*> detail::retired_jobs{nullptr};

std::size_t task_job::size_for(const plan& of) noexcept {
  return sizeof(task_job) + of.accesses.size() * sizeof(used) +
         of.access_of_dep.size() * sizeof(void*) + of.symbol.size();
}

task_job* task_job::make(std::shared_ptr<context> in, const plan& of, body_ptr work, completion end,
                         std::atomic<std::uint64_t>& finished, std::uint64_t queue) {
  static_assert(alignof(used) <= alignof(task_job));
  static_assert(sizeof(task_job) % alignof(used) == 0);
  return new (base::take_block(size_for(of)))
      task_job(std::move(in), of, std::move(work), end, finished, queue);
}

task_job::task_job(std::shared_ptr<context> in, const plan& of, body_ptr work, completion end,
                   std::atomic<std::uint64_t>& finished, std::uint64_t queue)
    : in_(std::move(in)),
      work_(std::move(work)),
      id_(of.id),
      end_(end),
      finished_(finished),
      queue_(queue),
      site_(of.site),
      block_bytes_(static_cast<std::uint32_t>(size_for(of))),
      name_bytes_(static_cast<std::uint32_t>(of.symbol.size())),
      access_count_(static_cast<std::uint16_t>(of.accesses.size())),
      dep_count_(static_cast<std::uint16_t>(of.access_of_dep.size())),
      exec_(of.exec),
      kind_(of.kind),
      has_shared_(!of.shared.empty()) {
  for (std::size_t i = 0; i < access_count_; ++i) {
    const access& from = of.accesses[i];
    from.what->add_reference();
    new (accesses() + i)
        used{from.what, from.version, from.address, from.mode, from.shared, from.inherited};
  }
  for (std::size_t i = 0; i < dep_count_; ++i) {
    new (static_cast<void*>(addresses() + i)) void*(of.accesses[of.access_of_dep[i]].address);
  }
  if (name_bytes_ > 0) std::memcpy(name(), of.symbol.data(), name_bytes_);
}

void task_job::dispose() noexcept {
  work_.reset();
  for (std::size_t i = 0; i < access_count_; ++i)
    accesses()[i].what->drop_reference();
  const std::size_t bytes = block_bytes_;
  this->~task_job();
  base::give_block(this, bytes);
}

void task_job::keep() noexcept {
  kept_ = true;
  in_ = std::shared_ptr<context>(std::shared_ptr<void>(), in_.get());
  work_->keep();
}

void task_job::discard() noexcept {
  if (kept_) return;
  const bool is_last = !in_node_ || (ends_.fetch_or(called) | called) == both;
  if (is_last) retire();
}

void task_job::let_go(bool locked) noexcept {
  if ((ends_.fetch_or(left) | left) != both) return;  // whoever calls or discards it is to come
  if (locked) {
    retire();
  } else {
    dispose();
  }
}

void task_job::retire() noexcept {
  next = detail::retired_jobs.load(std::memory_order_relaxed);
  while (!detail::retired_jobs.compare_exchange_weak(next, this, std::memory_order_release,
                                                     std::memory_order_relaxed)) {
  }
}

void task_job::run() noexcept {
  g_running.fetch_add(1);
  if (!base::is_shut_down()) {
    const job_scope running(
        {in_.get(), in_node_ ? completion{} : in_->position_of(end_), this, in_node_});
    execute();
    // What a body holds is the user's, and its destruction belongs to the task.
    if (!kept_ && !in_node_) work_.reset();
  }
  if (in_node_) {
    discard();  // it is disposed of elsewhere, unless it is kept
  } else if (!kept_) {
    work_.reset();  // where it did not run; before the end is seen
    finished_.store(end_.sequence, std::memory_order_release);
    dispose();
  }
  g_running.fetch_sub(1);
}

failed_task* task_job::poisoned_input() noexcept {
  for (std::size_t i = 0; i < access_count_; ++i) {
    const used& each = accesses()[i];
    if (!reads(each.mode) || (each.shared && !each.inherited)) continue;
    if (failed_task* because = each.what->poison.find(each.version)) return because;
  }
  return nullptr;
}

void task_job::execute() noexcept {
  trace_listener* const listener = kept_ ? nullptr : in_->listener();
  if (failed_task* because = poisoned_input()) {
    skip(*because);
    if (listener != nullptr) listener->ended(id_, base::now_ns(), outcome::skipped);
    return;
  }
  if (listener != nullptr) listener->began(id_, base::now_ns());
  carry_poison();
  outcome how = outcome::done;
  try {
    call_body();
  } catch (...) {
    how = outcome::failed;
    fail(std::current_exception());
  }
  if (listener != nullptr) listener->ended(id_, base::now_ns(), how);
}

// What became known since the task was submitted.
void task_job::carry_poison() {
  if (!has_shared_) return;
  for (const access& each : as_plan().accesses)
    context::carry_poison(each);
}

void task_job::call_body() {
  const body_call call{{addresses(), dep_count_}, nullptr, queue_, exec_};
  if (!in_->options().check || !in_->on().has(backend::capability::host_memory)) {
    work_->run(call);
    return;
  }
  base::small_vector<checked_access, 6> seen;
  for (std::size_t i = 0; i < access_count_; ++i) {
    if (accesses()[i].shared) continue;
    seen.push_back({accesses()[i].what, accesses()[i].mode, accesses()[i].address});
  }
  const access_check check(seen);
  work_->run(call);
  if (const std::string names = check.changed(); !names.empty()) report_broken_contract(names);
}

void task_job::skip(failed_task& because) noexcept {
  because.skipped.fetch_add(1, std::memory_order_relaxed);
  in_->count_skipped();
  poison_outputs(because);
}

// The plan this job was made from, as far as messages need it.
plan task_job::as_plan() {
  plan of;
  of.id = id_;
  of.symbol = {name(), name_bytes_};
  of.site = site_;
  for (std::size_t i = 0; i < access_count_; ++i) {
    access each;
    each.what = accesses()[i].what;
    each.mode = accesses()[i].mode;
    each.version = accesses()[i].version;
    each.shared = accesses()[i].shared;
    of.accesses.push_back(each);
  }
  return of;
}

void task_job::fail(std::exception_ptr cause) noexcept {
  in_->count_failed();
  const plan of = as_plan();
  std::string names;
  if (in_node_) {
    const std::scoped_lock hold(names_mutex());
    names = of.written_names();
  } else {
    const context::lock held(in_->mutex());
    names = of.written_names();
  }
  if (kept_) {  // then nobody waits for the driver under the context's lock
    const context::lock held(in_->mutex());
    last_failure_ = cause;
  }
  poison_outputs(*in_->failures().add({std::move(cause), id_, of.name(), std::move(names), site_},
                                      /*known=*/false));
}

void task_job::report_broken_contract(const std::string& names) {
  const plan of = as_plan();
  const error broken(errc::usage, base::cat(of.full_name(), " changed ", names,
                                            ", which it declared read; declare rw()"));
  in_->failures().add({std::make_exception_ptr(broken), id_, of.name(), names, site_},
                      /*known=*/false);
}

void task_job::poison_outputs(failed_task& because) {
  for (std::size_t i = 0; i < access_count_; ++i) {
    const used& each = accesses()[i];
    if (writes(each.mode)) each.what->poison.add(each.version + 1, &because);
  }
  in_->spread_poison();
}

void detail::dispose_retired() noexcept {
  backend::job* each = retired_jobs.exchange(nullptr, std::memory_order_acquire);
  while (each != nullptr) {
    // Only task jobs retire themselves here.
    auto* const retired = static_cast<task_job*>(each);
    each = each->next;
    retired->dispose();
  }
}

std::string running_task_name() {
  task_job* const running = current_job().job;
  return running == nullptr ? std::string() : running->full_name();
}

void refuse_in_node(const char* call) {
  throw error(
      errc::usage,
      base::cat(call, " was called inside ", running_task_name(),
                ", which is declared not to use the device (uses_device = false), so that a graph "
                "calls it where no call of the driver is allowed; leave the declaration out, or "
                "make the call outside of it"));
}

std::uint64_t running_jobs() noexcept {
  return g_running.load();
}

}  // namespace millstream::core
