// SPDX-License-Identifier: Apache-2.0
/// Page-locked memory: ours, and the user's that was registered.
#pragma once

#include <map>
#include <mutex>

#include "backend/cuda/block_cache.hpp"
#include "backend/cuda/memory.hpp"

namespace millstream::backend::cuda {

class any_queue;

/// Any thread.
class host_memory {
 public:
  explicit host_memory(machine_state& of);
  /// The machine is closed: nobody allocates any more. Last uses are marks, and those of host
  /// queues keep this object alive.
  void forget_last_uses() noexcept;
  void close() noexcept;

  /// Blocks of the contract, ready for every queue at once.
  [[nodiscard]] result<void*> allocate(block_cache::kind what, std::size_t bytes,
                                       const std::string& who);
  status release(block_cache::kind what, void* block, std::size_t bytes, any_queue& order,
                 const std::string& who);
  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t used() const noexcept { return pinned_.blocks.used(); }

  /// For our own purposes.
  [[nodiscard]] block_cache& pinned() noexcept { return pinned_.cache; }

  /// Page-locks a range. Memory that is page-locked already is taken as it is and left so. `usage`
  /// while another thread locks or unlocks it. May take long.
  status lock_pages(void* block, std::size_t bytes);
  /// Undoes one `lock_pages`. No queued work may touch the range any more. Waits until the devices
  /// have nothing to do, host functions that streams wait for included.
  status unlock_pages(void* block);

  /// Whether copies from and to the span can be queued: all of it is page-locked, by us or by
  /// somebody else.
  [[nodiscard]] bool is_pinned(const byte_span& span) noexcept;

 private:
  struct range {
    std::size_t bytes = 0;
    int users = 0;
    bool ours = false;      // to unlock
    bool changing = false;  // a thread is at it, without the mutex
  };
  [[nodiscard]] result<mark> tail_of(any_queue& order, const std::string& who);
  /// Nothing for memory that is not in `ranges_`. What is changing counts as not locked.
  [[nodiscard]] std::optional<bool> is_locked_here(const byte_span& span) const noexcept;
  status lock_by_driver(void* block, range& what);
  [[nodiscard]] bool join_range(void* block, std::size_t bytes, status& answer);

  struct store {
    block_cache cache;
    block_table blocks;
  };
  [[nodiscard]] store& store_of(block_cache::kind what) noexcept {
    return what == block_cache::kind::pinned ? pinned_ : managed_;
  }

  machine_state& of_;
  store pinned_;
  store managed_;
  const std::size_t total_;

  // Guards ranges_. Not held while the driver locks and unlocks, since copies ask for the ranges.
  mutable std::mutex mutex_;
  std::map<std::uintptr_t, range> ranges_;
};

}  // namespace millstream::backend::cuda
