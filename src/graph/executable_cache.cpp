// SPDX-License-Identifier: Apache-2.0
#include "graph/executable_cache.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/text.hpp"
#include "core/lanes.hpp"

namespace millstream::graph {
namespace {

// Looked through at each launch, so there are not many.
constexpr std::size_t most_absences = 1024;

}  // namespace

std::unique_ptr<backend::executable_graph> executable_cache::take(const shape& like) {
  const std::scoped_lock hold(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const entry& each) { return each.like == like; });
  if (found == entries_.end()) return nullptr;
  auto taken = std::move(found->what);
  bytes_ -= found->bytes;
  entries_.erase(found);
  add_absence(like, &recording_misses::busy);
  return taken;
}

miss_reason executable_cache::why_missing(const shape& like) const {
  const std::scoped_lock hold(mutex_);
  const auto found = std::find_if(absences_.begin(), absences_.end(),
                                  [&](const absence& each) { return each.like == like; });
  return found == absences_.end() ? &recording_misses::new_shape : found->why;
}

void executable_cache::note_absence(const shape& like, miss_reason why) noexcept {
  const std::scoped_lock hold(mutex_);
  add_absence(like, why);
}

// What there is no memory for is not remembered.
void executable_cache::add_absence(const shape& like, miss_reason why) noexcept {
  std::erase_if(absences_, [&](const absence& each) { return each.like == like; });
  if (absences_.size() == most_absences) absences_.erase(absences_.begin());
  try {
    absences_.push_back({like, why});
  } catch (const std::bad_alloc&) {
    return;
  }
}

// Executables are destroyed without the lock: that calls the driver.
void executable_cache::give(const shape& like, std::unique_ptr<backend::executable_graph> used) {
  std::list<entry> gone;
  const std::size_t bytes = used->bytes();
  if (bytes > limit_) return note_absence(like, &recording_misses::too_large);
  if (!may_keep({like.nodes, bytes})) return note_absence(like, &recording_misses::policy);
  {
    const std::scoped_lock hold(mutex_);
    entries_.push_front({like, bytes, std::move(used)});
    bytes_ += bytes;
    std::erase_if(absences_, [&](const absence& each) { return each.like == like; });
    while (bytes_ > limit_) {
      bytes_ -= entries_.back().bytes;
      add_absence(entries_.back().like, &recording_misses::evicted);
      gone.splice(gone.begin(), entries_, std::prev(entries_.end()));
    }
  }
}

// What is given up by an update is destroyed before its place is taken, so that the two do not need
// memory at once.
std::unique_ptr<backend::executable_graph> executable_cache::prepare(backend::graph& what,
                                                                     const shape& like,
                                                                     recording_stats& counts) {
  if (auto used = take(like)) {
    backend::status updated = what.update(*used);
    if (updated.ok()) {
      ++counts.updates;
      return used;
    }
    if (updated.code() != errc::unsupported) throw error(updated.code(), updated.text());
    ++counts.refused_updates;
    ++counts.misses.refused;
    counts.last_miss = base::cat("the machine refused the update: ", updated.text());
  } else {
    ++(counts.misses.*why_missing(like));
    counts.last_miss = base::cat("no executable of this shape (", like.nodes, " nodes) was kept");
  }
  auto made = what.instantiate();
  if (!made) core::check(made.take_status());
  ++counts.instantiations;
  return std::move(made.value());
}

void executable_cache::launch(backend::graph& what, std::uint64_t hash, core::place_index device,
                              backend::queue& on, recording_stats& counts) {
  auto recorded = on.is_capturing();
  if (!recorded) core::check(recorded.take_status());
  if (recorded.value()) return core::check(what.record_into(on));
  const shape like{hash, what.node_count(), device};
  std::unique_ptr<backend::executable_graph> ready;
  try {
    ready = prepare(what, like, counts);
    note_absence(like, &recording_misses::busy);
    core::check(ready->launch(on));
  } catch (...) {
    note_absence(like, &recording_misses::lost);
    throw;
  }
  try {
    give(like, std::move(ready));
  } catch (...) {
    // A policy that throws, or no memory: the launch is on its way, so this is no failure of it.
    note_absence(like, &recording_misses::lost);
    counts.last_miss = "an executable could not be kept: its policy threw, or memory is short";
  }
}

// The policy is user code, so it is called without the lock.
bool executable_cache::may_keep(const executable_info& what) const {
  std::shared_ptr<const std::function<bool(const executable_info&)>> policy;
  {
    const std::scoped_lock hold(mutex_);
    policy = policy_;
  }
  return policy == nullptr || !*policy || (*policy)(what);
}

void executable_cache::set_policy(std::function<bool(const executable_info&)> keep) {
  auto fresh = std::make_shared<const std::function<bool(const executable_info&)>>(std::move(keep));
  const std::scoped_lock hold(mutex_);
  policy_.swap(fresh);
}

std::size_t executable_cache::bytes() const {
  const std::scoped_lock hold(mutex_);
  return bytes_;
}

std::size_t executable_cache::size() const {
  const std::scoped_lock hold(mutex_);
  return entries_.size();
}

}  // namespace millstream::graph
