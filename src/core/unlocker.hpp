// SPDX-License-Identifier: Apache-2.0
/// The users' buffers whose pages are locked, and how that is undone in the background.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace millstream::core {

class machine;

/// A buffer whose pages are locked on that machine.
struct locked_pages {
  std::shared_ptr<machine> on;
  void* block = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<void> owner;
};

/// Undoes the locking and then lets go of the owner, on a thread of its own: a driver may wait for
/// all that is queued on a device, and what is queued may wait for a host function. Never blocks.
/// Any thread. If the system gives no thread, the buffer is kept for good.
void unlock_later(const locked_pages& what) noexcept;

/// What keeps a page-locked buffer has this deleter, which unlocks it and then lets the owner go.
struct page_unlocker {
  locked_pages what;
  void operator()(void* /*block*/) const noexcept { unlock_later(what); }
};
[[nodiscard]] std::shared_ptr<void> unlocked_in_the_end(locked_pages&& what);

/// Buffers with a byte in the range that are locked, or wait to be unlocked, stay locked as long as
/// what is added to `kept`. False where one is being unlocked: then wait, and again.
[[nodiscard]] bool keep_locked(const machine& on, const void* block, std::size_t bytes,
                               std::vector<std::shared_ptr<void>>& kept);
/// Blocks until something was unlocked, or the limit is over.
void wait_for_an_unlock(std::chrono::milliseconds limit);

/// What keeps a buffer and locks of others has this deleter.
struct keeper_of_locks {
  std::shared_ptr<void> owner;
  std::vector<std::shared_ptr<void>> locks;
  void operator()(void* /*block*/) const noexcept {}
};
/// The owner alone, if there are no locks.
[[nodiscard]] std::shared_ptr<void> with_locks(std::shared_ptr<void> owner,
                                               std::vector<std::shared_ptr<void>>&& locks);

/// How many buffers were handed over so far in the process.
[[nodiscard]] std::uint64_t unlocks_wanted() noexcept;
/// Blocks until that many have been unlocked and their owners are gone (true), or the limit is
/// over.
[[nodiscard]] bool wait_for_unlocks(std::uint64_t count, std::chrono::milliseconds limit);

}  // namespace millstream::core
