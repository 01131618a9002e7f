// SPDX-License-Identifier: Apache-2.0
/// Who may still use a context while a thread finalizes it, and whom that thread waits for.
#include "core/closing.hpp"

#include <string>
#include <vector>

#include "base/text.hpp"
#include "core/notifier.hpp"
#include "core/open_body.hpp"
#include "core/wait_graph.hpp"

namespace millstream::core {

// Of the thread that finalizes, of bodies and of listeners: all of these end before the context
// does, with what they add.
bool context::is_waited_for() const noexcept {
  const std::thread::id self = std::this_thread::get_id();
  return closer_ == self || current_job().owner == this || is_told_for(*this) ||
         calls_body_at_once(self);
}

bool context::calls_body_at_once(std::thread::id in) const noexcept {
  for (const open_body* each = open_.first(); each != nullptr; each = each->next()) {
    if (each->is_at_once() && each->thread() == in) return true;
  }
  return false;
}

// Until no other thread finalizes it: that one has done so, or has given up.
void context::await_closer(lock& held) {
  while (closing_ && closer_ != std::this_thread::get_id()) {
    check_no_open_task_of_callers();
    check_may_await_notices();
    await_change(held, {closer_},
                 "finalize would wait for another thread that finalizes the context and waits for "
                 "this thread; call it after this body has ended",
                 "finalize");
  }
}

// Other threads add none, so that these are all. False if there were none.
bool context::await_bodies_at_once(lock& held) {
  std::vector<std::thread::id> threads;
  for (const open_body* each = open_.first(); each != nullptr; each = each->next()) {
    if (each->is_at_once()) threads.push_back(each->thread());
  }
  if (threads.empty()) return false;
  await_change(held, threads,
               "finalize would wait for a function that another thread submits and that waits for "
               "this thread; call it after that has ended",
               "finalize");
  return true;
}

void context::check_no_open_task(const char* call) const {
  if (open_.empty()) return;
  throw error(errc::usage, base::cat(call, " was called while ", open_.first()->full_name(),
                                     " is open; end it first"));
}

// Those that a body has open end with it, so they are waited for.
void context::check_no_open_task_of_callers() const {
  if (open_.size() == open_in_bodies_) return;
  const std::thread::id self = std::this_thread::get_id();
  for (const open_body* each = open_.first(); each != nullptr; each = each->next()) {
    const bool ends_with_a_body =
        each->is_in_body() || (each->thread() != self && calls_body_at_once(each->thread()));
    if (ends_with_a_body) continue;
    throw error(errc::usage, base::cat("finalize was called while ", each->full_name(),
                                       " is open; end it first"));
  }
}

}  // namespace millstream::core
