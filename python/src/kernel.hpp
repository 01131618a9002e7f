// SPDX-License-Identifier: Apache-2.0
/// The Python class `cuda_kernel`.
#pragma once

#include <cstddef>
#include <memory>

#include "task.hpp"

namespace millstream::python {

/// A task whose body is described: what it was told to launch runs when it ends.
struct py_kernel {
  explicit py_kernel(py_task made) noexcept : task(std::move(made)) {}

  py_task task;
  nb::object refused;  ///< what `launch` raised last, until the end
  std::size_t launches = 0;
};

/// Adds `context.cuda_kernel`.
void bind_kernels(nb::class_<py_context>& context);

}  // namespace millstream::python
