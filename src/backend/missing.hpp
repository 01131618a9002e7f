// SPDX-License-Identifier: Apache-2.0
/// The answer for what a machine cannot do.
#pragma once

#include <string_view>

#include "backend/capability.hpp"
#include "backend/status.hpp"

namespace millstream::backend {

/// `unsupported`: "<who> cannot <what>; the machine lacks the capability '...'".
[[nodiscard]] status missing(std::string_view who, std::string_view what, capability bit) noexcept;

}  // namespace millstream::backend
