// SPDX-License-Identifier: Apache-2.0
/// What the rest of the bindings needs of the adapter for PyTorch.
#pragma once

#include <cstdint>
#include <span>

#include "interpreter.hpp"

namespace millstream::python {

/// `sys.modules["torch"]`; null unless that is a module.
[[nodiscard]] nb::object imported_torch();

/// A call of a body of the user's.
struct body_values {
  nb::handle function;
  std::span<PyObject* const> values;  ///< its arguments
  nb::handle extra;                   ///< those of them that are no views, as a tuple
};

/// The result of the call, with `stream` of the GPU `device` current in PyTorch, if that has it.
/// PyTorch's allocator is told of tensors in `extra`. On a thread of the engine's or another one.
[[nodiscard]] nb::object call_with_torch_stream(nb::handle torch, std::uint64_t stream, int device,
                                                const body_values& body);

}  // namespace millstream::python
