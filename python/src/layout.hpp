// SPDX-License-Identifier: Apache-2.0
/// Whether memory that is described by extents and strides is in plain C order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "interpreter.hpp"

namespace millstream::python {

/// True if elements lie one behind the other, last axis fastest. `step` is the distance of two
/// neighbours in the unit of `strides`. Axes of one element may have any stride, and arrays without
/// elements any at all.
[[nodiscard]] bool is_c_contiguous(const std::vector<Py_ssize_t>& dims,
                                   const std::vector<Py_ssize_t>& strides, Py_ssize_t step);

/// What is to be done with memory that is not in plain C order.
enum class packing { refuse, pack };

/// Throws a LayoutError with advice. `shape` and `strides` as Python objects; `remedy` makes a copy
/// of `x` that is contiguous.
[[noreturn]] void refuse_layout(nb::handle shape, nb::handle strides, const char* remedy);

}  // namespace millstream::python
