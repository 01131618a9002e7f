// SPDX-License-Identifier: Apache-2.0
#include "graph/executable_cache.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "core/lanes.hpp"

namespace millstream::graph {
namespace {

constexpr std::size_t most_absences = 1024;
// Of one shape. Where the machine refuses an update for a reason that does not go away, no more
// than these are tried at a launch, and kept.
constexpr std::size_t most_refusals = 4;
constexpr std::size_t most_alike = 8;

constexpr unsigned bits_of_id = 32;

}  // namespace

bool known_trails::has(std::uint64_t trail) const noexcept {
  const auto* const end = trails_.begin() + count_;
  return std::find(trails_.begin(), end, trail) != end;
}

void known_trails::add(std::uint64_t trail) noexcept {
  if (has(trail)) return;
  if (count_ == trails_.size()) remove(trails_[0]);
  trails_[count_++] = trail;
}

void known_trails::remove(std::uint64_t trail) noexcept {
  auto* const end = trails_.begin() + count_;
  auto* const left = std::remove(trails_.begin(), end, trail);
  count_ = static_cast<std::size_t>(left - trails_.begin());
}

executable_cache::taken executable_cache::take(const shape& like, std::uint64_t trail) {
  const std::scoped_lock hold(mutex_);
  const auto known = shapes_.find(like);
  if (known == shapes_.end()) return {};
  const auto& all = known->second.all;
  auto chosen = std::find_if(all.rbegin(), all.rend(), [&](entry_list::iterator each) {
    return each->what != nullptr && each->trails.has(trail);
  });
  if (chosen == all.rend()) {
    chosen = std::find_if(all.rbegin(), all.rend(),
                          [](entry_list::iterator each) { return each->what != nullptr; });
  }
  if (chosen == all.rend()) return {};
  bytes_ -= (*chosen)->bytes;
  --kept_;
  return {*chosen, std::move((*chosen)->what)};
}

executable_cache::taken executable_cache::add(const shape& like,
                                              std::unique_ptr<backend::executable_graph> made) {
  const std::size_t bytes = made->bytes();
  const std::scoped_lock hold(mutex_);
  auto& all = shapes_[like].all;
  all.reserve(all.size() + 1);
  entries_.push_front({like, bytes, ++last_id_, nullptr, {}});
  all.push_back(entries_.begin());
  return {entries_.begin(), std::move(made)};
}

void executable_cache::give(taken used) {
  if (used.at->bytes > limit_) {
    return leave_out(std::move(used), &recording_misses::too_large);
  }
  entry_list gone;
  const std::scoped_lock hold(mutex_);
  known_shape& known = shapes_.at(used.at->like);
  forget_absence(known);
  const auto place = std::find(known.all.begin(), known.all.end(), used.at);
  std::rotate(place, place + 1, known.all.end());
  entries_.splice(entries_.begin(), entries_, used.at);
  return_to_list(used);
  trim_alike(known, gone);
  if (policy_ == nullptr || !note_question(*used.at)) trim(gone);
}

// The launch is on its way, so what there is no memory for is no failure of it.
bool executable_cache::note_question(const entry& about) noexcept {
  try {
    questions_.push_back(
        {about.like, about.id, std::this_thread::get_id(), {about.like.nodes, about.bytes}});
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void executable_cache::put_back(taken unused) {
  const std::scoped_lock hold(mutex_);
  return_to_list(unused);
}

void executable_cache::return_to_list(taken& back) {
  bytes_ += back.at->bytes;
  ++kept_;
  back.at->what = std::move(back.what);
}

void executable_cache::leave_out(taken unwanted, miss_reason why) noexcept {
  entry_list gone;
  const std::scoped_lock hold(mutex_);
  return_to_list(unwanted);
  drop(unwanted.at, why, gone);
}

// What there is no memory for is not remembered.
void executable_cache::note_absence(const shape& like, miss_reason why) noexcept {
  try {
    known_shape& known = shapes_[like];
    forget_absence(known);
    known.absence = absences_.insert(absences_.end(), like);
    known.why = why;
  } catch (const std::bad_alloc&) {
    return;
  }
  if (absences_.size() <= most_absences) return;
  const auto oldest = shapes_.find(absences_.front());
  forget_absence(oldest->second);
  if (oldest->second.all.empty()) shapes_.erase(oldest);
}

void executable_cache::forget_absence(known_shape& of) noexcept {
  if (std::exchange(of.why, nullptr) != nullptr) absences_.erase(of.absence);
}

void executable_cache::drop(entry_list::iterator which, miss_reason why,
                            entry_list& gone) noexcept {
  bytes_ -= which->bytes;
  --kept_;
  auto& all = shapes_.at(which->like).all;
  std::erase(all, which);
  if (all.empty()) note_absence(which->like, why);
  gone.splice(gone.begin(), entries_, which);
}

void executable_cache::trim(entry_list& gone) noexcept {
  for (auto at = entries_.end(); bytes_ > limit_ && at != entries_.begin();) {
    const auto last = std::prev(at);
    if (last->what != nullptr) {
      drop(last, &recording_misses::evicted, gone);
    } else {
      at = last;
    }
  }
}

void executable_cache::trim_alike(const known_shape& of, entry_list& gone) noexcept {
  const auto is_kept = [](entry_list::iterator each) { return each->what != nullptr; };
  if (static_cast<std::size_t>(std::count_if(of.all.begin(), of.all.end(), is_kept)) > most_alike) {
    drop(*std::find_if(of.all.begin(), of.all.end(), is_kept), &recording_misses::evicted, gone);
  }
}

miss_reason executable_cache::why_missing(const shape& like) const {
  const std::scoped_lock hold(mutex_);
  const auto known = shapes_.find(like);
  if (known == shapes_.end()) return &recording_misses::new_shape;
  if (!known->second.all.empty()) return &recording_misses::busy;
  return known->second.why == nullptr ? &recording_misses::new_shape : known->second.why;
}

// One that is refused stays as it was, and where it was. Those that nobody can update are given up,
// so that they and what takes their place do not need memory at once.
executable_cache::taken executable_cache::find_taker(backend::graph& what, const shape& like,
                                                     std::uint64_t trail,
                                                     std::vector<std::string>& refusals) {
  std::array<taken, most_refusals> refused;
  std::size_t held = 0;
  const auto put_all_back = [&] {
    while (held > 0)
      put_back(std::move(refused[--held]));
  };
  for (std::size_t tried = 0; tried < most_refusals; ++tried) {
    taken used = take(like, trail);
    if (!used) break;
    const backend::status updated = what.update(*used.what);
    if (updated.ok()) {
      put_all_back();
      return used;
    }
    const bool is_refused = updated.code() == errc::unsupported;
    used.at->trails.remove(trail);
    if (is_refused && used.what->can_be_updated()) {
      refused[held++] = std::move(used);
    } else {
      leave_out(std::move(used), is_refused ? &recording_misses::refused : &recording_misses::lost);
    }
    if (!is_refused) {
      put_all_back();
      throw error(updated.code(), updated.text());
    }
    refusals.push_back(updated.text());
  }
  put_all_back();
  return {};
}

executable_cache::taken executable_cache::prepare(backend::graph& what, const shape& like,
                                                  recording_stats& counts, std::uint64_t trail) {
  std::vector<std::string> refusals;
  taken used = find_taker(what, like, trail, refusals);
  counts.refused_updates += refusals.size();
  if (used) {
    ++counts.hits;
    ++counts.updates;
    return used;
  }
  if (refusals.empty()) {
    ++(counts.misses.*why_missing(like));
    counts.last_miss = base::cat("no executable of this shape (", like.nodes, " nodes) was kept");
  } else {
    ++counts.misses.refused;
    counts.last_miss = base::cat("the machine refused the update: ", refusals.back());
  }
  auto made = what.instantiate();
  if (!made) {
    note_loss(like);
    core::check(made.take_status());
  }
  ++counts.instantiations;
  return add(like, std::move(made.value()));
}

void executable_cache::launch(backend::graph& what, std::uint64_t hash, core::place_index device,
                              backend::queue& on, recording_stats& counts, std::uint64_t& trail) {
  auto recorded = on.is_capturing();
  if (!recorded) core::check(recorded.take_status());
  if (recorded.value()) return core::check(what.record_into(on));
  taken ready = prepare(what, {hash, what.node_count(), device}, counts, trail);
  const backend::status launched = ready.what->launch(on);
  if (!launched.ok()) {
    leave_out(std::move(ready), &recording_misses::lost);
    throw error(launched.code(), launched.text());
  }
  ready.at->trails.add(trail);
  trail = (trail << bits_of_id) | ready.at->id;
  give(std::move(ready));
}

// That of the other shapes which look like it is remembered by what is kept of them.
void executable_cache::note_loss(const shape& like) noexcept {
  const std::scoped_lock hold(mutex_);
  const auto known = shapes_.find(like);
  if (known != shapes_.end() && !known->second.all.empty()) return;
  note_absence(like, &recording_misses::lost);
}

void executable_cache::set_policy(std::function<bool(const executable_info&)> keep) {
  policy fresh;
  if (keep) {
    fresh = std::make_shared<const std::function<bool(const executable_info&)>>(std::move(keep));
  }
  const std::scoped_lock hold(mutex_);
  policy_.swap(fresh);
}

// It is user code, so it is called without the lock, and what it does meanwhile with the cache is
// for the next round.
void executable_cache::ask_policy() noexcept {
  policy keep;
  for (;;) {
    const std::list<question> mine = take_questions(keep);
    if (mine.empty()) return;
    for (const question& each : mine)
      answer(each, keep);
    entry_list gone;
    const std::scoped_lock hold(mutex_);
    trim(gone);
  }
}

std::list<executable_cache::question> executable_cache::take_questions(policy& keep) noexcept {
  std::list<question> mine;
  const std::thread::id here = std::this_thread::get_id();
  const std::scoped_lock hold(mutex_);
  keep = policy_;
  for (auto next = questions_.begin(); next != questions_.end();) {
    const auto each = next++;
    if (each->thread == here) mine.splice(mine.end(), questions_, each);
  }
  return mine;
}

// What was dropped meanwhile is not asked about, and what is used again is asked about after that.
void executable_cache::answer(const question& asked, const policy& keep) noexcept {
  {
    const std::scoped_lock hold(mutex_);
    if (find(asked) == entries_.end()) return;
  }
  const miss_reason no = keep == nullptr ? nullptr : refusal_of(*keep, asked.what);
  entry_list gone;
  const std::scoped_lock hold(mutex_);
  const auto which = find(asked);
  if (no != nullptr && which != entries_.end()) drop(which, no, gone);
}

miss_reason executable_cache::refusal_of(const std::function<bool(const executable_info&)>& keep,
                                         const executable_info& what) noexcept {
  try {
    return keep(what) ? nullptr : &recording_misses::policy;
  } catch (const std::exception& thrown) {
    base::log(
        base::log_level::warning,
        base::cat("an executable graph is not kept, because its policy threw: ", thrown.what()));
  } catch (...) {
    base::log(base::log_level::warning,
              "an executable graph is not kept, because its policy threw");
  }
  return &recording_misses::lost;
}

// The end if it is not kept, or in use.
executable_cache::entry_list::iterator executable_cache::find(const question& asked) noexcept {
  const auto known = shapes_.find(asked.like);
  if (known == shapes_.end()) return entries_.end();
  const auto& all = known->second.all;
  const auto found = std::find_if(all.begin(), all.end(), [&](entry_list::iterator each) {
    return each->id == asked.id && each->what != nullptr;
  });
  return found == all.end() ? entries_.end() : *found;
}

std::size_t executable_cache::bytes() const {
  const std::scoped_lock hold(mutex_);
  return bytes_;
}

std::size_t executable_cache::size() const {
  const std::scoped_lock hold(mutex_);
  return kept_;
}

}  // namespace millstream::graph
