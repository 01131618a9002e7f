// SPDX-License-Identifier: Apache-2.0
/// Tasks that run by themselves.
#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "core/context.hpp"
#include "core/open_body.hpp"
#include "core/task_job.hpp"

namespace millstream::core {

// Under the lock, in submission order. The names are only looked at during the
// call.
void context::report_to(trace_listener& told, const plan& of) {
  base::small_vector<dep_info, 6> deps;
  for (const access& each : of.accesses) {
    deps.push_back({each.what->id, each.mode, each.what->symbol, each.what->bytes});
  }
  const std::uint64_t queue = of.lane == no_lane ? 0 : lanes_.queue_number(of.lane);
  told.submitted(task_info{of.id, of.kind, of.symbol, of.site, of.exec, queue, deps});
}

void context::spoil(const lock& held, const plan& of, failed_task& because) {
  because.skipped.fetch_add(1, std::memory_order_relaxed);
  count_skipped();
  poison_outputs(held, of, because);
}

void context::skip(const lock& held, const plan& of, failed_task& because) {
  spoil(held, of, because);
  report(of);
  if (trace_listener* told = listener()) told->ended(of.id, base::now_ns(), outcome::skipped);
}

void context::run_on_lane(const lock& held, plan& of, body_ptr& work) {
  report(of);
  queue_body(held, of, work);
}

void context::queue_body(const lock& held, const plan& of, body_ptr& work) {
  const completion end{of.lane, lanes_.tail(of.lane).sequence + 1};
  task_job* const job = task_job::make(shared_from_this(), of, std::move(work), end,
                                       lanes_.finished_of(of.lane), lanes_.queue_number(of.lane));
  const bool is_node = is_host_node(of);
  if (is_node) job->be_node();
  const backend::status taken = lanes_.queue(of.lane).run(*job);
  if (!taken.ok()) {
    job->discard();
    if (is_node) job->let_go(/*locked=*/true);
    note_host_end(of.lane);
    const error named(taken.code(),
                      base::cat(of.full_name(), " could not be queued: ", taken.text()));
    fail(held, of, std::make_exception_ptr(named), /*known=*/true);
    throw named;
  }
  if (is_node) present_.jobs.add(*job);
  lanes_.advance(of.lane);
  note_host_end(of.lane);
  publish(held, of, end);
}

// The machine does not run bodies: this one queues work on the lane's stream,
// now.
void context::run_at_once(lock& held, plan& of, body_ptr& work) {
  base::small_vector<void*, 8> pointers;
  for (const std::uint16_t index : of.access_of_dep)
    pointers.push_back(of.accesses[index].address);
  open_body body(of, /*at_once=*/true);
  begin(held, body);
  const std::uint64_t queue = lanes_.queue_number(of.lane);
  if (trace_listener* told = listener()) told->began(of.id, base::now_ns());
  held.unlock();
  body_failure own;
  try {
    work->run(call_of(of, {pointers.data(), pointers.size()}, queue));
  } catch (...) {
    own.why = std::current_exception();
  }
  const bool keeps = is_recorded(of);
  if (!keeps) work.reset();
  held.lock();
  if (keeps && !is_stale(of)) keep_with_stage(held, std::move(work));
  end(held, body, of, /*in_caller=*/false, std::move(own));
}

body_call context::call_of(const plan& of, std::span<void* const> pointers,
                           std::uint64_t queue) const noexcept {
  // The number of a device's queue is its native stream where the machine has any.
  const bool has_stream = of.exec != host_place && !on().has(backend::capability::host_memory);
  void* const stream =
      has_stream ? reinterpret_cast<void*>(static_cast<std::uintptr_t>(queue)) : nullptr;
  return {pointers, stream, queue, of.exec};
}

void context::submit(const task_spec& what, body_ptr work) {
  check_process();
  check_outside_node(on(), to_string(what.kind));
  // The body may let go of the context's handle. Data keep the context, and the caller keeps those
  // of the task.
  const auto self = what.deps.empty() ? shared_from_this() : nullptr;
  plan of;
  make_plan(*this, what, of);
  if (work == nullptr) {
    throw error(errc::invalid_value, base::cat(of.full_name(), " has no body; pass a callable"));
  }
  {
    lock held(mutex_);
    try {
      start(held, of, /*in_caller=*/nullptr);
      if (of.exec == host_place || on().has(backend::capability::runs_jobs)) {
        run_on_lane(held, of, work);
      } else {
        run_at_once(held, of, work);
      }
    } catch (const poisoned_start& known) {
      skip(held, of, *known.because);
    }
  }
  // Bodies are destroyed without the lock: theirs is user code.
  drain_retired();
}

void context::fill(const task_spec& what, std::span<const std::byte> pattern) {
  check_process();
  check_outside_node(on(), "fill");
  plan of;
  make_plan(*this, what, of);
  if (of.accesses[0].mode != access_mode::write) {
    throw error(errc::invalid_value, base::cat(of.full_name(), " fills with access ",
                                               to_string(of.accesses[0].mode), "; use write()"));
  }
  backend::fill_request request;
  const data& target = *of.accesses[0].what;
  if (pattern.empty() || pattern.size() > request.pattern.size() ||
      target.bytes % pattern.size() != 0) {
    throw error(
        errc::invalid_value,
        base::cat(of.full_name(), " cannot fill ", base::bytes_text(target.bytes), " with ",
                  pattern.size(), "-byte elements; use 1 to 16 bytes that divide the size"));
  }
  std::copy(pattern.begin(), pattern.end(), request.pattern.begin());
  request.pattern_bytes = static_cast<std::uint32_t>(pattern.size());
  lock held(mutex_);
  start(held, of, /*in_caller=*/nullptr);
  report(of);
  request.to = of.accesses[0].address;
  request.home = home_of(of.accesses[0].place);
  request.bytes = target.bytes;
  stamp(of.lane, of.id, /*end=*/false);
  const backend::status queued =
      request.bytes == 0 ? backend::status{} : lanes_.queue(of.lane).fill(request);
  publish(held, of, lanes_.advance(of.lane));  // if it failed, a part of it may be in the lane
  if (queued.ok()) stamp(of.lane, of.id, /*end=*/true);
  note_host_end(of.lane);
  if (queued.ok()) return;
  const error named(queued.code(),
                    base::cat(of.full_name(), " could not be queued: ", queued.text()));
  fail(held, of, std::make_exception_ptr(named), /*known=*/true);
  throw named;
}

}  // namespace millstream::core
