// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <algorithm>

#include "errors.hpp"

namespace millstream::python {

bool is_c_contiguous(const std::vector<Py_ssize_t>& dims, const std::vector<Py_ssize_t>& strides,
                     Py_ssize_t step) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return true;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= dims[i];
  }
  return true;
}

void refuse_layout(nb::handle shape, nb::handle strides, const char* remedy) {
  throw binding_error(errc::invalid_value,
                      "an array of shape " + std::string(nb::str(shape).c_str()) + " and strides " +
                          nb::str(strides).c_str() +
                          " is not C-contiguous; pass copy=\"pack\" to have it packed and the "
                          "result written back, or register " +
                          remedy + " and copy the result back",
                      {}, "LayoutError");
}

}  // namespace millstream::python
