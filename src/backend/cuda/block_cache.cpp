// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/block_cache.hpp"

#include <bit>
#include <utility>

#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/state.hpp"
#include "backend/guarded.hpp"

namespace millstream::backend::cuda {
namespace {

constexpr std::size_t largest_small = std::size_t{1} << 20U;
constexpr std::size_t smallest_piece = std::size_t{4} << 20U;
// Few, so that taking a block stays cheap while many wait for their last use to end.
constexpr std::size_t most_looks = 64;

std::size_t rounded_size(std::size_t bytes) noexcept {
  if (bytes <= block_cache::alignment) return block_cache::alignment;
  if (bytes <= largest_small) return std::bit_ceil(bytes);
  return (bytes + largest_small - 1) / largest_small * largest_small;
}

std::size_t class_of(std::size_t rounded) noexcept {
  return static_cast<std::size_t>(std::countr_zero(rounded / block_cache::alignment));
}

}  // namespace

result<void*> block_cache::take(std::size_t bytes, const std::string& who) {
  if (bytes == 0) return nullptr;
  if (bytes > of_.host->total()) {
    return status(errc::out_of_memory,
                  base::cat(who, " cannot allocate ", base::bytes_text(bytes), " of ",
                            base::bytes_text(of_.host->total()), "; use less data at a time"));
  }
  const std::size_t rounded = rounded_size(bytes);
  {
    const std::scoped_lock hold(mutex_);
    void* block = take_free(rounded);
    if (block == nullptr && !pending_.empty()) {
      sweep(most_looks);
      block = take_free(rounded);
    }
    if (block != nullptr) return block;
  }
  return take_from_driver(rounded, who);
}

void* block_cache::take_free(std::size_t rounded) {
  if (rounded <= largest_small) {
    std::vector<void*>& free = small_[class_of(rounded)];
    if (free.empty()) return nullptr;
    void* const block = free.back();
    free.pop_back();
    return block;
  }
  const auto best = large_.lower_bound(rounded);
  if (best == large_.end() || best->first > 2 * rounded) return nullptr;
  void* const block = best->second;
  large_.erase(best);
  return block;
}

// Small blocks come in a piece full of equal ones.
result<void*> block_cache::take_from_driver(std::size_t rounded, const std::string& who) {
  const bool small = rounded <= largest_small;
  const std::size_t piece = small ? smallest_piece : rounded;
  void* start = nullptr;
  const abi::result answer = call_driver(&start, piece);
  if (answer == abi::result::out_of_memory) {
    return status(errc::out_of_memory,
                  base::cat(who, " cannot allocate ", base::bytes_text(piece),
                            ": the driver found no room; use less data at a time"));
  }
  const char* what = kind_ == kind::pinned ? "allocate page-locked memory" : "allocate memory";
  if (status failed = of_.first->check(what, answer); !failed) return failed;
  const std::scoped_lock hold(mutex_);
  pieces_.emplace(reinterpret_cast<std::uintptr_t>(start), piece);
  for (std::size_t at = 0; at < piece; at += rounded) {
    void* const block = static_cast<std::byte*>(start) + at;
    sizes_.emplace(block, rounded);
    if (at > 0) add_free(block);
  }
  return start;
}

// Not on a stream, so the thread's capture mode matters.
abi::result block_cache::call_driver(void** block, std::size_t bytes) noexcept {
  const driver& api = *of_.api;
  const context_guard in(api, of_.first->context());
  if (in.answer() != abi::result::success) return in.answer();
  const relaxed_capture allowed(api);
  if (kind_ == kind::pinned) {
    return api->cuMemHostAlloc(block, bytes, abi::host_alloc_flags::portable);
  }
  abi::device_pointer address = 0;
  const abi::result answer = api->cuMemAllocManaged(&address, bytes, abi::attach_flags::global);
  *block = reinterpret_cast<void*>(address);
  return answer;
}

void block_cache::add_free(void* block) noexcept {
  const auto found = sizes_.find(block);
  if (found == sizes_.end()) return;
  try {
    if (found->second <= largest_small) {
      small_[class_of(found->second)].push_back(block);
    } else {
      large_.emplace(found->second, block);
    }
  } catch (const std::bad_alloc&) {
    // Nobody gets it again before `close`.
  }
}

void block_cache::give(void* block) noexcept {
  const std::scoped_lock hold(mutex_);
  add_free(block);
}

void block_cache::give_after(void* block, mark last_use) noexcept {
  if (last_use.captured) return;
  const std::scoped_lock hold(mutex_);
  if (forgets_) return;
  try {
    sweep(2);  // more than come in, so that few are ever waiting
    pending_.push_back({block, std::move(last_use)});
  } catch (const std::bad_alloc&) {
    // As above.
  }
}

void block_cache::forget_last_uses() noexcept {
  std::deque<pending> forgotten;  // ends after the lock, as queues may end with it
  const std::scoped_lock hold(mutex_);
  forgets_ = true;
  forgotten.swap(pending_);
}

void block_cache::sweep(std::size_t looks) noexcept {
  for (looks = std::min(pending_.size(), looks); looks > 0; --looks) {
    pending oldest = std::move(pending_.front());
    pending_.pop_front();
    result<bool> passed = is_passed(oldest.last_use);
    if (passed.ok() && passed.value()) {
      add_free(oldest.block);
    } else if (passed.ok()) {
      pending_.push_back(std::move(oldest));
    }
    // After a failure of the device nobody knows when the use ends: the block is not used again.
  }
}

bool block_cache::owns(const byte_span& span) const noexcept {
  const std::scoped_lock hold(mutex_);
  auto after = pieces_.upper_bound(span.first);
  if (after == pieces_.begin()) return false;
  const auto [start, bytes] = *std::prev(after);
  return span.past <= start + bytes;
}

void block_cache::close() noexcept {
  const driver& api = *of_.api;
  pending_.clear();
  for (const auto& [start, bytes] : pieces_) {
    if (kind_ == kind::pinned) {
      api->cuMemFreeHost(reinterpret_cast<void*>(start));
    } else {
      api->cuMemFree(start);
    }
  }
  pieces_.clear();
}

}  // namespace millstream::backend::cuda
