// SPDX-License-Identifier: Apache-2.0
/// The Python class `cuda_kernel`.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "task.hpp"

namespace millstream::python {

/// A task whose body is described: what it was told to launch runs when it ends.
struct py_kernel {
  /// Around what `make()` gives.
  template <class Make>
    requires std::is_invocable_r_v<py_task, Make>
  explicit py_kernel(Make&& make) : task(std::forward<Make>(make)()) {}

  py_task task;
  nb::object refused;  ///< what `launch` raised last, until the end
  std::size_t launches = 0;

  friend call_lock& lock_of(py_kernel& kernel) noexcept { return kernel.task.lock; }
};

/// Adds `context.cuda_kernel`.
void bind_kernels(nb::class_<py_context>& context);

}  // namespace millstream::python
