// SPDX-License-Identifier: Apache-2.0
/// Making and ending contexts.
#pragma once

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

[[nodiscard]] context_ptr make_context(call& in, int device, context_state::origin kind);

/// Waits for its work unless it has a fault, then ends everything it owns.
void destroy_context(call& in, const context_ptr& gone);

}  // namespace fake_cuda
