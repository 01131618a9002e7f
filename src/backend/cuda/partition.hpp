// SPDX-License-Identifier: Apache-2.0
/// Devices that are not one whole GPU with its primary context.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cuda/device.hpp"

namespace millstream::backend::cuda {

/// Green contexts of `parts` disjoint sets of multiprocessors. Work reaches them through streams
/// made for them, with the whole device's context current.
[[nodiscard]] result<std::vector<std::unique_ptr<backend::device>>> split_device(
    const std::shared_ptr<device_state>& whole, int parts, int smallest);

/// A device of somebody else's context, which is not retained.
[[nodiscard]] result<std::unique_ptr<backend::device>> device_of_context(
    const std::shared_ptr<machine_state>& machine, std::uint64_t native);

}  // namespace millstream::backend::cuda
