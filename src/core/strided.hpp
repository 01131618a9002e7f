// SPDX-License-Identifier: Apache-2.0
/// Where the elements of a user's buffer lie, packed or not.
#pragma once

#include <cstddef>
#include <cstdint>

#include <millstream/untyped.hpp>

#include "base/small_vector.hpp"

namespace millstream::core {

struct strided_axis {
  std::size_t extent = 1;
  std::ptrdiff_t stride = 1;  ///< distance of two neighbours in bytes; 0 and negative ones too
  friend bool operator==(const strided_axis&, const strided_axis&) noexcept = default;
};

/// The bytes of a buffer in the order of its elements. In normal form, so that equal ones describe
/// the same bytes in the same order: no axis of extent 1, and none that only continues the next
/// one. The last axis are neighbouring bytes.
struct strided {
  std::byte* first = nullptr;  ///< element with all indices 0
  base::small_vector<strided_axis, 4> axes;

  [[nodiscard]] bool is_packed() const noexcept { return axes.size() <= 1; }
  /// The smallest range that holds all bytes.
  [[nodiscard]] std::byte* low() const noexcept;
  [[nodiscard]] std::size_t span() const noexcept;
  /// The same bytes in the same order.
  [[nodiscard]] bool is_same(const strided& other) const noexcept;
};

/// Of the buffer that is registered. Throws error(invalid_value) for extents, strides and bytes
/// that do not fit together.
[[nodiscard]] strided strided_of(const registration& what);

/// Whether two buffers have a byte in common. Exact, but for layouts that are made to be hard: then
/// the answer is yes.
[[nodiscard]] bool share_a_byte(const strided& a, const strided& b);
/// Whether different elements of the buffer have a byte in common, likewise.
[[nodiscard]] bool repeats_a_byte(const strided& of);

}  // namespace millstream::core
