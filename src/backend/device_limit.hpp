// SPDX-License-Identifier: Apache-2.0
/// How many simulated devices a machine may be asked for.
#pragma once

#include <string_view>

#include <millstream/machine.hpp>

#include "backend/status.hpp"

namespace millstream::backend {

/// `invalid_value` unless `devices` is 1 to `most_devices`, or 0 for the default.
[[nodiscard]] status check_device_count(int devices, std::string_view who) noexcept;

}  // namespace millstream::backend
