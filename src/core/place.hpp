// SPDX-License-Identifier: Apache-2.0
/// Places as small integers, the way the backend contract numbers memory:
/// devices from 0, the host -1, managed memory -2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <millstream/machine.hpp>
#include <millstream/place.hpp>

#include "backend/queue.hpp"

namespace millstream::core {

class machine;

using place_index = std::int16_t;
inline constexpr place_index host_place = -1;
inline constexpr place_index managed_place = -2;
/// Of a user's buffer that is not packed: no task works there.
inline constexpr place_index user_place = -3;

/// A bit for each place. 64 devices and the other places are more than one word holds.
class place_set {
 public:
  constexpr place_set() noexcept = default;
  [[nodiscard]] static constexpr place_set of(place_index place) noexcept {
    place_set one;
    one.add(place);
    return one;
  }
  [[nodiscard]] constexpr bool has(place_index place) const noexcept {
    return (words_[word(place)] >> bit(place) & 1U) != 0;
  }
  constexpr void add(place_index place) noexcept {
    words_[word(place)] |= std::uint64_t{1} << bit(place);
  }
  constexpr void remove(place_index place) noexcept {
    words_[word(place)] &= ~(std::uint64_t{1} << bit(place));
  }

 private:
  static constexpr unsigned word_bits = 64;
  static_assert(most_devices <= word_bits);
  [[nodiscard]] static constexpr std::size_t word(place_index place) noexcept {
    return place < 0 ? 1 : 0;
  }
  // Of the places that are no devices: from the top of their word downwards.
  [[nodiscard]] static constexpr unsigned bit(place_index place) noexcept {
    return static_cast<unsigned>(place) % word_bits;
  }

  std::array<std::uint64_t, 2> words_{};
};

[[nodiscard]] constexpr backend::memory_home home_of(place_index place) noexcept {
  return static_cast<backend::memory_home>(place);
}

/// The place whose lanes move data of `place`: managed memory has none of its own.
[[nodiscard]] constexpr place_index lane_place(place_index place) noexcept {
  return place == managed_place ? place_index{0} : place;
}

/// Throw error(invalid_value) for a device the machine lacks,
/// error(unsupported) for managed memory where there is none.
[[nodiscard]] place_index resolve(exec_place place, machine& on);
[[nodiscard]] place_index resolve_named(data_place place, machine& on);
[[nodiscard]] inline place_index resolve(data_place place, place_index affine, machine& on) {
  return place.what() == data_place::kind::affine ? affine : resolve_named(place, on);
}

}  // namespace millstream::core
