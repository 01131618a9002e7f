// SPDX-License-Identifier: Apache-2.0
/// What the devices of the look-alike driver are.
#pragma once

#include <cstdint>

#include "tests/fakes/cuda_driver/settings.hpp"

namespace fake_cuda {

inline constexpr std::uint32_t multiprocessors = 132;
/// Partitions are made of this many multiprocessors each, or a multiple.
inline constexpr std::uint32_t smallest_part = 8;

/// What all devices answer for an attribute.
[[nodiscard]] int attribute_of(const settings& config, device_attribute what);

}  // namespace fake_cuda
