// SPDX-License-Identifier: Apache-2.0
/// Small blocks of memory that are taken on one thread and given back on another.
#pragma once

#include <cstddef>

namespace millstream::base {

/// Blocks up to this size are pooled in classes of 64, 128, 256, 512, 1024 and 2048 bytes; larger
/// ones go to operator new.
inline constexpr std::size_t largest_pooled_block = 2048;

/// A block of at least `bytes` bytes, aligned to 16, with undefined content. Any thread, also
/// during static destruction and in a forked child. Throws std::bad_alloc. In a steady state of
/// taking and giving back, on whichever threads, it allocates nothing: each thread keeps a few
/// blocks and exchanges them in batches with a process-wide list. With the address sanitizer each
/// block is a heap block of its own, so that use after return is found.
[[nodiscard]] void* take_block(std::size_t bytes);

/// Takes a block back; `bytes` as it was taken with. Null is ignored.
void give_block(void* block, std::size_t bytes) noexcept;

/// Blocks that the pool ever got from the heap and has not returned to it. For tests.
[[nodiscard]] std::size_t pooled_blocks() noexcept;

}  // namespace millstream::base
