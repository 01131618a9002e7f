// SPDX-License-Identifier: Apache-2.0
#include "backend/arena.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/guarded.hpp"
#include "base/sanitizer.hpp"

namespace millstream::backend {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
// Memory is put behind the range in steps, so that small blocks seldom cost a system call.
constexpr std::size_t commit_step = 2 * mib;
// Blocks from this size on give their pages back to the system when they are free.
constexpr std::size_t returns_pages = 4 * mib;
// Addresses kept for gaps; bounded, so that 64 devices of 1 TiB fit into the address space.
constexpr std::size_t most_gaps = std::size_t{256} * 1024 * mib;
constexpr std::size_t page = 4 * kib;
constexpr std::size_t marked_whole = 64 * kib;
constexpr std::size_t marked_end = 4 * kib;

constexpr std::size_t round_up(std::size_t bytes, std::size_t step) noexcept {
  return (bytes + step - 1) / step * step;
}

void mark_fresh(void* block, std::size_t bytes) noexcept {
  const int mark = std::to_integer<int>(fresh_byte);
  if (bytes <= marked_whole) {
    std::memset(block, mark, bytes);
    return;
  }
  std::memset(block, mark, marked_end);
  std::memset(static_cast<std::byte*>(block) + bytes - marked_end, mark, marked_end);
}

void* reserve_range(std::size_t bytes) noexcept {
  void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return range == MAP_FAILED ? nullptr : range;
}

}  // namespace

result<std::unique_ptr<arena>> arena::reserve(arena_options options) noexcept {
  const std::string who = options.owner;
  return guarded(who, [&]() -> result<std::unique_ptr<arena>> {
    // More than the capacity where the address space has it, because blocks of many sizes leave
    // gaps.
    const std::size_t wanted = round_up(std::max(options.capacity, alignment), commit_step);
    const std::size_t with_gaps = wanted + std::min(wanted, most_gaps);
    for (const std::size_t bytes : {with_gaps, wanted}) {
      void* range = reserve_range(bytes);
      if (range == nullptr) continue;
      const auto first = reinterpret_cast<std::uintptr_t>(range);
      return std::unique_ptr<arena>(new arena(std::move(options), first, bytes));
    }
    return status(errc::unavailable, base::cat(who, " cannot reserve ", base::bytes_text(wanted),
                                               " of addresses; ", options.way_out));
  });
}

arena::arena(arena_options options, std::uintptr_t first, std::size_t reserved)
    : options_(std::move(options)), first_(first), reserved_(reserved) {
  add_free(0, reserved_);
}

arena::~arena() {
  base::allow_access(address(0), committed_);  // the addresses may soon be somebody else's
  munmap(address(0), reserved_);
}

result<void*> arena::take(std::size_t bytes) noexcept {
  if (bytes == 0) return nullptr;
  auto taken = guarded(options_.owner, [&] {
    const std::scoped_lock hold(mutex_);
    return take_locked(bytes);
  });
  // Outside the lock: touching fresh pages takes the system a while.
  if (taken && options_.fresh == fresh_content::marked) mark_fresh(taken.value(), bytes);
  return taken;
}

result<void*> arena::take_locked(std::size_t bytes) {
  if (bytes > options_.capacity - used_) return no_room(bytes);
  const std::size_t rounded = round_up(bytes, alignment);
  const auto best = free_by_size_.lower_bound({rounded, 0});
  if (best == free_by_size_.end()) return no_room(bytes);
  const auto [room, at] = *best;
  if (!commit(at + rounded)) return no_room(bytes);
  live_[at] = {bytes, false};
  remove_free(at, room);
  if (room > rounded) add_free(at + rounded, room - rounded);
  used_ += bytes;
  base::allow_access(address(at), bytes);
  return address(at);
}

status arena::no_room(std::size_t bytes) const {
  std::string text = base::cat(options_.owner, " cannot allocate ", base::bytes_text(bytes), ": ",
                               base::bytes_text(used_), " of ", base::bytes_text(options_.capacity),
                               " are in use");
  if (given_up_ > 0) {
    text += base::cat(", ", base::bytes_text(given_up_),
                      " of them until queued work that uses them has ended");
  }
  return {errc::out_of_memory, base::cat(text, "; ", options_.way_out)};
}

bool arena::commit(offset end) noexcept {
  if (end <= committed_) return true;
  const std::size_t new_end = std::min(round_up(end, commit_step), reserved_);
  void* from = address(committed_);
  if (mprotect(from, new_end - committed_, PROT_READ | PROT_WRITE) != 0) return false;
  base::forbid_access(from, new_end - committed_);
  committed_ = new_end;
  return true;
}

status arena::give_up(void* block, std::size_t bytes) noexcept {
  return guarded(options_.owner, [&]() -> status {
    const std::scoped_lock hold(mutex_);
    const auto found = live_.find(offset_of(block));
    if (found == live_.end() || found->second.bytes != bytes || found->second.given_up) {
      return {errc::invalid_value,
              base::cat(options_.owner, " cannot release ", base::bytes_text(bytes),
                        " that it did not hand out; release each block once, with its size")};
    }
    found->second.given_up = true;
    given_up_ += bytes;
    return {};
  });
}

void arena::keep(void* block) noexcept {
  const std::scoped_lock hold(mutex_);
  const auto found = live_.find(offset_of(block));
  if (found == live_.end() || !found->second.given_up) return;
  found->second.given_up = false;
  given_up_ -= found->second.bytes;
}

void arena::take_back(void* block) noexcept {
  const std::scoped_lock hold(mutex_);
  const auto found = live_.find(offset_of(block));
  if (found == live_.end()) return;
  const std::size_t bytes = found->second.bytes;
  live_.erase(found);
  used_ -= bytes;
  given_up_ -= bytes;
  try {
    free_range(offset_of(block), round_up(bytes, alignment));
  } catch (const std::bad_alloc&) {
    // No memory to note the range: its addresses stay unused, the capacity is free all the same.
  }
}

void arena::free_range(offset at, std::size_t bytes) {
  base::forbid_access(address(at), bytes);
  if (bytes >= returns_pages) {
    const offset first_page = round_up(at, page);
    madvise(address(first_page), (at + bytes) / page * page - first_page, MADV_DONTNEED);
  }
  auto after = free_by_offset_.upper_bound(at);
  if (after != free_by_offset_.end() && after->first == at + bytes) {
    const auto [next_at, next_bytes] = *after;
    remove_free(next_at, next_bytes);
    bytes += next_bytes;
  }
  after = free_by_offset_.upper_bound(at);
  if (after != free_by_offset_.begin()) {
    const auto [before_at, before_bytes] = *std::prev(after);
    if (before_at + before_bytes == at) {
      remove_free(before_at, before_bytes);
      at = before_at;
      bytes += before_bytes;
    }
  }
  add_free(at, bytes);
}

void arena::add_free(offset at, std::size_t bytes) {
  free_by_size_.insert({bytes, at});
  free_by_offset_.emplace(at, bytes);
}

void arena::remove_free(offset at, std::size_t bytes) {
  free_by_size_.erase({bytes, at});
  free_by_offset_.erase(at);
}

std::size_t arena::used() const noexcept {
  const std::scoped_lock hold(mutex_);
  return used_;
}

void* arena::address(offset at) const noexcept {
  return reinterpret_cast<void*>(first_ + at);
}

arena::offset arena::offset_of(const void* block) const noexcept {
  return reinterpret_cast<std::uintptr_t>(block) - first_;
}

}  // namespace millstream::backend
