// SPDX-License-Identifier: Apache-2.0
/// Places as small integers, the way the backend contract numbers memory:
/// devices from 0, the host -1, managed memory -2.
#pragma once

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

/// One bit for each place; 64 devices and the other places are more than 64 bits hold.
__extension__ typedef unsigned __int128 place_set;
static_assert(most_devices - user_place <= 128);

[[nodiscard]] constexpr place_set place_bit(place_index place) noexcept {
  return place_set{1} << static_cast<unsigned>(place - user_place);
}
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
[[nodiscard]] place_index resolve(data_place place, place_index affine, machine& on);

}  // namespace millstream::core
