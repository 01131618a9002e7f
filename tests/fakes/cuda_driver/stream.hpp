// SPDX-License-Identifier: Apache-2.0
/// Making streams.
#pragma once

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

[[nodiscard]] stream make_stream(call& in, const context_ptr& owner, stream_flags flags,
                                 int priority);

}  // namespace fake_cuda
