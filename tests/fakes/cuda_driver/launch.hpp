// SPDX-License-Identifier: Apache-2.0
/// Launches of kernels, on streams and as nodes.
#pragma once

#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

/// Functions of modules and kernels of libraries alike.
[[nodiscard]] function_ptr function_of(call& in, const void* handle);
[[nodiscard]] int attribute_of(const function_state& of, function_attribute what);

/// Takes the arguments and checks everything about a launch that is known before it runs. The
/// stream of `how` is not looked at. What it answers makes the operation.
[[nodiscard]] op_factory check_launch(call& in, const launch_config& how, const function_ptr& what,
                                      const context_ptr& owner, void** parameters, void** extra);
/// An attribute of a launch with this grid.
void check_attribute(call& in, const launch_config& how, const launch_attribute& one);

}  // namespace fake_cuda
