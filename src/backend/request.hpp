// SPDX-License-Identifier: Apache-2.0
/// Checks of copy and fill requests that are the same for every machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/queue.hpp"

namespace millstream::backend {

/// Addresses from `first` up to, not including, `past`; empty when both are equal.
struct byte_span {
  std::uintptr_t first = 0;
  std::uintptr_t past = 0;
  [[nodiscard]] bool empty() const noexcept { return first == past; }
  [[nodiscard]] bool meets(const byte_span& other) const noexcept {
    return first < other.past && other.first < past;
  }
};

/// The smallest spans that hold every byte a copy reads and writes.
struct copy_spans {
  byte_span to;
  byte_span from;
};

/// `invalid_value` for a rank outside 1 to 4, null memory with bytes to copy, extents and strides
/// that leave the address space, and source and destination that overlap. Blocks whose bytes
/// interleave without sharing one are no overlap as long as their strides are equal. A copy of zero
/// bytes is always right and has empty spans.
[[nodiscard]] result<copy_spans> check_copy(const copy_request& request,
                                            std::string_view who) noexcept;

/// `invalid_value` for a pattern outside 1 to 16 bytes, bytes that are no multiple of it, and null
/// memory with bytes to fill.
[[nodiscard]] result<byte_span> check_fill(const fill_request& request,
                                           std::string_view who) noexcept;

}  // namespace millstream::backend
