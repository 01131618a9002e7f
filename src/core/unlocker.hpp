// SPDX-License-Identifier: Apache-2.0
/// Undoes the page-locking of users' buffers in the background.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

namespace millstream::core {

class machine;

/// Undoes the locking of `block` on that machine and then lets go of its owner, on a thread of its
/// own: a driver may wait for all that is queued on a device, and what is queued may wait for a
/// host function. Never blocks. Any thread. If the system gives no thread, the buffer is kept for
/// good.
void unlock_later(std::shared_ptr<machine> on, void* block, std::shared_ptr<void> owner) noexcept;

/// What keeps a page-locked buffer has this deleter, which unlocks it and then lets the owner go.
struct page_unlocker {
  std::shared_ptr<machine> on;
  std::shared_ptr<void> owner;
  void operator()(void* locked) const noexcept { unlock_later(on, locked, owner); }
};

/// How many buffers were handed over so far in the process.
[[nodiscard]] std::uint64_t unlocks_wanted() noexcept;
/// Blocks until that many have been unlocked and their owners are gone (true), or the limit is
/// over.
[[nodiscard]] bool wait_for_unlocks(std::uint64_t count, std::chrono::milliseconds limit);

}  // namespace millstream::core
