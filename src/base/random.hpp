// SPDX-License-Identifier: Apache-2.0
/// A small generator of pseudo-random numbers whose sequence is the same on every machine.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace millstream::base {

/// xoshiro256**, seeded through splitmix64 so that near seeds give unrelated sequences. One user
/// at a time. Not for secrets.
class random_source {
 public:
  explicit constexpr random_source(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_)
      word = split_mix(seed);
  }

  constexpr std::uint64_t next() noexcept {
    const std::uint64_t drawn = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17U;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return drawn;
  }

  /// 0 .. n-1, each equally likely; n > 0.
  constexpr std::uint64_t uniform(std::uint64_t n) noexcept {
    // Numbers below 2^64 mod n are drawn again, else the small results would come more often.
    const std::uint64_t uneven = (0 - n) % n;
    std::uint64_t drawn = next();
    while (drawn < uneven)
      drawn = next();
    return drawn % n;
  }

  /// True with this probability.
  constexpr bool chance(double probability) noexcept {
    constexpr double step = 1.0 / 9007199254740992.0;  // 2^-53: the 53 bits a double can hold
    return static_cast<double>(next() >> 11U) * step < probability;
  }

 private:
  static constexpr std::uint64_t split_mix(std::uint64_t& state) noexcept {
    state += 0x9e3779b97f4a7c15U;
    std::uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31U);
  }

  std::array<std::uint64_t, 4> state_{};
};

}  // namespace millstream::base
