// SPDX-License-Identifier: Apache-2.0
/// Tasks whose bodies are open: who waits for them, their begin and their end.
#include "core/open_body.hpp"

#include <vector>

#include "base/clock.hpp"
#include "base/text.hpp"
#include "core/blocking.hpp"
#include "core/context.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {
namespace {

bool is_in_the_way(const access& wanted) noexcept {
  return wanted.what->open_writers > 0 || (writes(wanted.mode) && wanted.what->open_readers > 0);
}

}  // namespace

void context::wait_for_open_tasks(lock& held, const plan& of) {
  while (!open_.empty()) {
    std::vector<std::thread::id> threads;
    for (const access& each : of.accesses) {
      if (!is_in_the_way(each)) continue;
      for (const open_body* open = open_.first(); open != nullptr; open = open->next()) {
        if (!open->conflicts_with(each)) continue;
        if (open->thread() == std::this_thread::get_id()) {
          throw error(
              errc::usage,
              base::cat(of.full_name(), " uses ", each.what->name(), ", which ", open->full_name(),
                        ", still open in this thread, uses too; end "
                        "that task first"),
              each.what->name());
        }
        threads.push_back(open->thread());
      }
    }
    if (threads.empty()) return;
    await_open_change(held, threads,
                      base::cat(of.full_name(),
                                " would wait for an open task that waits for this thread; end the "
                                "open task of this thread first"),
                      of.call());
  }
}

// Until one of the open tasks that there are has ended, or a thread does not finalize any more.
// `text` is the message if that will never be.
void context::await_change(lock& held, const std::vector<std::thread::id>& threads,
                           const std::string& text, const char* call) {
  const std::uint64_t seen = open_generation_;
  held.unlock();
  // The caller may go on after an exception, with the lock.
  try {
    const wait_registration registered({threads, &open_generation_, seen}, {}, text.c_str());
    const blocking_section blocking;
    for (bool changed = false; !changed;) {
      {
        lock again(mutex_);
        ++open_waiters_;
        changed =
            open_changed_.wait_for(again, wait_slice, [&] { return open_generation_ != seen; });
        --open_waiters_;
      }
      if (!changed && blocking.is_interrupted()) {
        throw error(errc::interrupted, base::cat(call, " was interrupted before it began"));
      }
    }
  } catch (...) {
    held.lock();
    throw;
  }
  held.lock();
}

void context::await_open_change(lock& held, const std::vector<std::thread::id>& threads,
                                const std::string& text, const char* call) {
  await_change(held, threads, text, call);
  check_live(held, call);
}

void context::begin(const lock& held, open_body& body) {
  const plan& of = body.started();
  const bool recorded = is_recorded(of);
  if (recorded) begin_recorded_body(held, of);
  const bool inside = current_job().owner == this;
  body.begin(inside);
  for (const access& each : of.accesses)
    ++each.what->open_count(each.mode);
  open_.add(body);
  if (recorded) {
    open_recorded_.push_back(&body);
  } else {
    ++lanes_.at(of.lane).open;
  }
  if (inside) ++open_in_bodies_;
  report(of);
}

// A failure, a listener or a recording.
void context::end_with(lock& held, open_body& body, bool in_caller, body_failure&& own) {
  const plan& of = body.started();
  unrecorded lost = end_body(held, of, own);
  if (lost.why) {
    if (!own.why) own.why = std::move(lost.why);
    own.known = own.known || lost.reported;
  }
  publish(held, of, in_caller ? completion{} : end_of(held, of));
  const outcome how = own.why ? outcome::failed : outcome::done;
  if (own.why) fail(held, of, std::move(own.why), own.known);
  remove_open(held, body);
  if (trace_listener* told = listener()) told->ended(of.id, base::now_ns(), how);
  if (lost.interrupted) {
    throw error(errc::interrupted,
                base::cat("the end of ", of.full_name(), " was interrupted; the task has failed"));
  }
}

void context::remove_open(const lock& held, open_body& body) noexcept {
  const plan& of = body.started();
  for (const access& each : of.accesses)
    --each.what->open_count(each.mode);
  if (is_recorded(of)) {
    std::erase(open_recorded_, &body);
  } else {
    --lanes_.at(of.lane).open;
  }
  forget_open(held, body);
}

void context::forget_open(const lock& held, open_body& body) noexcept {
  open_.remove(body);
  if (body.is_in_body()) --open_in_bodies_;
  note_open_change(held);
}

void context::note_open_change(const lock& held) noexcept {
  (void)held;
  // Nobody else changes it meanwhile.
  open_generation_.store(open_generation_.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
  if (open_waiters_ > 0) open_changed_.notify_all();
}

}  // namespace millstream::core
