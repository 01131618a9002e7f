// SPDX-License-Identifier: Apache-2.0
/// Access modes: what a task does with a datum.
#pragma once

#include <cstdint>

namespace millstream::inline v1 {

/// Bits, so that several accesses of one task to the same datum merge by OR (read + write = rw).
enum class access_mode : std::uint8_t {
  none = 0,
  read = 1,   ///< needs a valid copy; readers may overlap
  write = 2,  ///< overwrites the whole content; no copy is fetched
  rw = 3,     ///< reads and modifies
};

[[nodiscard]] constexpr access_mode operator|(access_mode a, access_mode b) noexcept {
  return static_cast<access_mode>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
[[nodiscard]] constexpr bool reads(access_mode mode) noexcept {
  return (static_cast<std::uint8_t>(mode) & 1U) != 0;
}
[[nodiscard]] constexpr bool writes(access_mode mode) noexcept {
  return (static_cast<std::uint8_t>(mode) & 2U) != 0;
}
[[nodiscard]] constexpr const char* to_string(access_mode mode) noexcept {
  switch (mode) {
    case access_mode::none: return "none";
    case access_mode::read: return "read";
    case access_mode::write: return "write";
    case access_mode::rw: return "rw";
  }
  return "?";
}

}  // namespace millstream::inline v1
