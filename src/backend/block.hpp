// SPDX-License-Identifier: Apache-2.0
/// Shapes of the blocks that copies move: the same bytes with fewer axes, and in parts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "backend/queue.hpp"
#include "backend/status.hpp"

namespace millstream::backend {

/// The same copy with as few axes as possible: neighbouring axes that follow one another without
/// gaps on both sides become one, so that a contiguous block has rank 1. No extent is zero.
[[nodiscard]] copy_request joined(copy_request request) noexcept;

/// The part of `count` steps from step `at` on along the outermost axis, which is left out if there
/// is but one step.
[[nodiscard]] copy_request slice(copy_request request, std::size_t at, std::size_t count) noexcept;

/// Strides of a block of the same extents without gaps.
[[nodiscard]] std::array<std::ptrdiff_t, max_block_rank> packed_strides(
    const copy_request& request) noexcept;

/// Calls `body` for parts of at most `limit` bytes, which together are the whole, until one fails.
template <class Body>
[[nodiscard]] status for_each_part(const copy_request& whole, std::size_t limit, Body&& body) {
  const std::size_t bytes = whole.bytes();
  if (bytes <= limit) return body(whole);
  const std::size_t steps = whole.extents[0];
  const std::size_t step = std::max<std::size_t>(1, limit / (bytes / steps));
  for (std::size_t at = 0; at < steps; at += step) {
    const copy_request part = slice(whole, at, std::min(step, steps - at));
    if (status failed = for_each_part(part, limit, body); !failed) return failed;
  }
  return {};
}

}  // namespace millstream::backend
