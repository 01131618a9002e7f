// SPDX-License-Identifier: Apache-2.0
/// Which context is current while user code runs between `device::enter` and `device::leave`.
#pragma once

#include <cstdint>

#include "backend/cuda/driver.hpp"

namespace millstream::backend::cuda {

/// Makes `wanted` the thread's current context. Visits of one thread may overlap and end in any
/// order; with the last one the context is again what it was before the first. 0 if the driver
/// refused, and nothing has changed.
[[nodiscard]] std::uint64_t begin_visit(const driver& api, abi::context wanted) noexcept;
/// Ends the visit; 0 is ignored. What another thread began is left as it is there, until that
/// thread begins or ends a visit.
void end_visit(const driver& api, std::uint64_t number) noexcept;

}  // namespace millstream::backend::cuda
