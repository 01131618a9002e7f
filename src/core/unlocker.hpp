// SPDX-License-Identifier: Apache-2.0
/// Undoes the page-locking of users' buffers in the background.
#pragma once

#include <memory>

namespace millstream::core {

class machine;

/// Undoes the locking of `block` on that machine and then lets go of its owner, on a thread of its
/// own: a driver may wait for all that is queued on a device, and what is queued may wait for a
/// host function. Never blocks. Any thread. If the system gives no thread, the buffer is kept for
/// good.
void unlock_later(std::shared_ptr<machine> on, void* block, std::shared_ptr<void> owner) noexcept;

}  // namespace millstream::core
