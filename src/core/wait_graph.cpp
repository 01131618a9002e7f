// SPDX-License-Identifier: Apache-2.0
#include "core/wait_graph.hpp"

#include <algorithm>
#include <mutex>

#include <millstream/error.hpp>

namespace millstream::core {
namespace {

struct waiter {
  std::thread::id thread;
  running_job job;  // what the thread executes while it waits
  std::vector<std::thread::id> threads;
  const std::atomic<std::uint64_t>* generation;  // of the waiting thread's context
  std::uint64_t seen;
  std::vector<awaited_position> positions;

  [[nodiscard]] bool still_waits_for_threads() const noexcept {
    return generation != nullptr && *generation == seen;
  }
};

struct registry {
  std::mutex mutex;  // guards `waiters`; innermost
  std::vector<waiter> waiters;
};

// Never destroyed: a queue's thread may unregister while static destructors
// run.
registry& waits() {
  static auto* const all = new registry;
  return *all;
}

// A job at `position` of a lane holds up everything at or behind that position.
bool holds_up(const running_job& job, const awaited_position& what) noexcept {
  return job.owner != nullptr && job.owner == what.owner &&
         job.position.lane == what.position.lane && job.position.sequence <= what.position.sequence;
}

bool waits_for(const waiter& from, const waiter& on) {
  const auto is_thread = [&](std::thread::id id) { return id == on.thread; };
  const auto is_position = [&](const awaited_position& what) { return holds_up(on.job, what); };
  return (from.still_waits_for_threads() &&
          std::any_of(from.threads.begin(), from.threads.end(), is_thread)) ||
         std::any_of(from.positions.begin(), from.positions.end(), is_position);
}

// Depth-first walk over the threads that wait; they are few.
bool reaches(const std::vector<waiter>& all, const waiter& from, const waiter& target,
             std::vector<bool>& seen) {
  if (waits_for(from, target)) return true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (seen[i] || !waits_for(from, all[i])) continue;
    seen[i] = true;
    if (reaches(all, all[i], target, seen)) return true;
  }
  return false;
}

}  // namespace

constinit thread_local running_job detail::job_of_thread;

job_scope::job_scope(const running_job& now) noexcept : before_(detail::job_of_thread) {
  detail::job_of_thread = now;
}

job_scope::~job_scope() {
  detail::job_of_thread = before_;
}

wait_registration::wait_registration(const awaited_threads& threads,
                                     std::span<const awaited_position> positions,
                                     const char* text) {
  waiter self{
      std::this_thread::get_id(), detail::job_of_thread, {threads.all.begin(), threads.all.end()},
      threads.generation,         threads.seen,          {positions.begin(), positions.end()}};
  const std::scoped_lock hold(waits().mutex);
  std::vector<waiter>& all = waits().waiters;
  std::vector<bool> seen(all.size(), false);
  if (reaches(all, self, self, seen)) throw error(errc::deadlock, text);
  all.push_back(std::move(self));
}

wait_registration::~wait_registration() {
  const std::scoped_lock hold(waits().mutex);
  std::vector<waiter>& all = waits().waiters;
  // The latest one: a job executed while its thread waits (seeded order) may
  // wait itself.
  const auto self = std::this_thread::get_id();
  const auto found = std::find_if(all.rbegin(), all.rend(),
                                  [&](const waiter& each) { return each.thread == self; });
  if (found != all.rend()) all.erase(std::next(found).base());
}

}  // namespace millstream::core
