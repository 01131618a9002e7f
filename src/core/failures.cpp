// SPDX-License-Identifier: Apache-2.0
#include "core/failures.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace millstream::core {
namespace {

std::string describe(const failure& what) {
  const std::string at = base::site_text(what.site);
  std::string text = base::cat(what.task, at.empty() ? "" : " (", at, at.empty() ? "" : ")",
                               " failed: ", text_of(what.cause));
  if (what.captured) text += " [its body ran while it was recorded]";
  if (what.skipped > 0) {
    text += base::cat(" [", what.skipped, what.skipped == 1 ? " task" : " tasks",
                      " skipped because of it]");
  }
  return text;
}

bool is_earlier(const failed_task* a, const failed_task* b) {
  return a->task_id < b->task_id;
}

std::vector<failure> to_failures(const std::vector<const failed_task*>& found) {
  std::vector<failure> made;
  made.reserve(found.size());
  for (const failed_task* each : found) {
    made.push_back({each->cause, each->task_id, each->task, each->data, each->site,
                    each->skipped.load(std::memory_order_relaxed), each->captured});
  }
  return made;
}

}  // namespace

failed_task* failure_list::add(failure what, bool known) {
  any_.store(true, std::memory_order_release);
  const std::scoped_lock hold(mutex_);
  failed_task& added = all_.emplace_back();
  added.cause = std::move(what.cause);
  added.task_id = what.task_id;
  added.task = std::move(what.task);
  added.data = std::move(what.data);
  added.site = what.site;
  added.captured = what.captured;
  added.handed_out = known;
  return &added;
}

std::vector<failure> failure_list::take(std::size_t most) {
  const std::scoped_lock hold(mutex_);
  std::vector<failed_task*> fresh;
  for (failed_task& each : all_) {
    if (!each.handed_out) fresh.push_back(&each);
  }
  std::sort(fresh.begin(), fresh.end(), is_earlier);
  if (fresh.size() > most) fresh.resize(most);
  for (failed_task* each : fresh)
    each->handed_out = true;
  return to_failures({fresh.begin(), fresh.end()});
}

std::vector<failure> failure_list::look(task_range of) const {
  const std::scoped_lock hold(mutex_);
  std::vector<const failed_task*> fresh;
  for (const failed_task& each : all_) {
    const bool meant = of.first <= each.task_id && each.task_id <= of.last;
    if (meant && !each.handed_out) fresh.push_back(&each);
  }
  std::sort(fresh.begin(), fresh.end(), is_earlier);
  return to_failures(fresh);
}

void failure_list::mark_seen(const std::vector<std::uint64_t>& task_ids) noexcept {
  const std::scoped_lock hold(mutex_);
  for (failed_task& each : all_) {
    if (std::find(task_ids.begin(), task_ids.end(), each.task_id) != task_ids.end()) {
      each.handed_out = true;
    }
  }
}

std::size_t failure_list::pending() const {
  const std::scoped_lock hold(mutex_);
  return static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [](const failed_task& f) { return !f.handed_out; }));
}

std::string text_of(const std::exception_ptr& cause) {
  if (!cause) return "unknown reason";
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

void throw_poisoned(const std::string& who, const std::string& data, const failed_task& because) {
  const std::string at = base::site_text(because.site);
  const error poisoned(
      errc::poisoned,
      base::cat(who, " needs ", data, ", which ", because.task, at.empty() ? "" : " (", at,
                at.empty() ? "" : ")", " failed to write: ", text_of(because.cause),
                "; write it again, which heals it"),
      data);
  if (!because.cause) throw poisoned;
  try {
    std::rethrow_exception(because.cause);
  } catch (...) {
    std::throw_with_nested(poisoned);
  }
}

}  // namespace millstream::core

namespace millstream::inline v1 {

void raise(const std::vector<failure>& failures) {
  if (failures.empty()) return;
  std::string text = core::describe(failures.front());
  for (std::size_t i = 1; i < failures.size(); ++i) {
    text += base::cat("; also ", core::describe(failures[i]));
  }
  const error found(errc::task_failed, text);
  try {
    std::rethrow_exception(failures.front().cause);
  } catch (...) {
    std::throw_with_nested(found);
  }
}

}  // namespace millstream::inline v1
