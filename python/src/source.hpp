// SPDX-License-Identifier: Apache-2.0
/// Buffers of the user's that become data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <millstream/place.hpp>

#include "context.hpp"
#include "layout.hpp"
#include "numpy.hpp"

namespace millstream::python {

struct source {
  layout_ptr what;
  void* block = nullptr;            ///< address of the element with all indices 0
  std::vector<Py_ssize_t> strides;  ///< in bytes; none where it is C-contiguous
  bool readonly = false;
  data_place home = data_place::host();
  std::optional<std::uint64_t> producer;  ///< stream whose work of now makes the content
  /// Keeps the user's object, and its buffer export, alive; may be dropped on any thread.
  std::shared_ptr<void> owner;
};

/// Takes, looking in this order, an unused DLPack capsule, an object with
/// `__cuda_array_interface__`, a NumPy array, an object with the buffer protocol, one with DLPack,
/// or one with `__array_interface__`. TypeError for others and for elements that are Python
/// objects, LayoutError (a ValueError) for what is not C-contiguous unless it may be packed,
/// ValueError for memory that the machine does not have.
[[nodiscard]] source open_source(nb::handle buffer, const context_state& in, packing how);

}  // namespace millstream::python
