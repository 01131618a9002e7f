// SPDX-License-Identifier: Apache-2.0
/// The CUDA Array Interface: device memory described by a dictionary.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "layout.hpp"
#include "numpy.hpp"

namespace millstream::python {

struct cuda_array {
  layout_ptr what;
  void* address = nullptr;
  std::vector<Py_ssize_t> strides;  ///< in bytes; none where it is C-contiguous
  bool readonly = false;
  std::optional<std::uint64_t> producer;  ///< stream whose work of now makes the content
};

/// Version of `array.__cuda_array_interface__`; TypeError as below.
[[nodiscard]] std::int64_t cuda_array_version(nb::handle array);

/// Reads `array.__cuda_array_interface__`. TypeError for what is no dictionary with the entries it
/// needs, ValueError for stream 0 and for masks, LayoutError unless C-contiguous or to be packed.
[[nodiscard]] cuda_array read_cuda_array(nb::handle array, packing how);

}  // namespace millstream::python
