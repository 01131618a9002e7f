// SPDX-License-Identifier: Apache-2.0
/// Memory pools.
#pragma once

#include "tests/fakes/cuda_driver/state.hpp"

namespace fake_cuda {

/// What pools do when the host waits: they let go of what they keep above their thresholds.
void trim_pools(state& all);

}  // namespace fake_cuda
