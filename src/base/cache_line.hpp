// SPDX-License-Identifier: Apache-2.0
/// What the processor fetches at once.
#pragma once

#include <cstddef>

namespace millstream::base {

/// A fixed number: that of the standard library changes with compiler options.
inline constexpr std::size_t cache_line = 64;

}  // namespace millstream::base
