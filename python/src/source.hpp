// SPDX-License-Identifier: Apache-2.0
/// Buffers of the user's that become data.
#pragma once

#include <memory>

#include <millstream/place.hpp>

#include "numpy.hpp"

namespace millstream::python {

struct source {
  layout_ptr what;
  void* block = nullptr;
  bool readonly = false;
  /// Keeps the user's object, and its buffer export, alive; may be dropped on any thread.
  std::shared_ptr<void> owner;
};

/// Takes a NumPy array, an object with the buffer protocol, or one with `__array_interface__`.
/// TypeError for others and for elements that are Python objects, LayoutError (a ValueError) for
/// what is not C-contiguous.
[[nodiscard]] source open_source(nb::handle buffer);

}  // namespace millstream::python
