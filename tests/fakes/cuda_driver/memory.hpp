// SPDX-License-Identifier: Apache-2.0
/// Taking device memory and giving it back.
#pragma once

#include <cstddef>

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

/// Counts bytes of a device as taken; refuses with `out_of_memory` after all queued frees ran and
/// pools let go of what they keep.
void take_device_bytes(call& in, int device, std::size_t bytes);

/// Addresses of a device, and no bytes of it.
[[nodiscard]] block_ptr plan_address(call& in, const context_ptr& owner, int device,
                                     std::size_t bytes);
/// A block of addresses of a device, whose bytes are taken but not behind it yet.
[[nodiscard]] block_ptr plan_block(call& in, const context_ptr& owner, int device,
                                   std::size_t bytes);
/// The block is no more; its bytes are free, or kept by its pool. Does nothing the second time: its
/// context may have ended before the work that would free it.
void end_block(state& all, const block_ptr& gone);

}  // namespace fake_cuda
