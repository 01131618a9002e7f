// SPDX-License-Identifier: Apache-2.0
#include "source.hpp"

#include <string>

#include "convert.hpp"
#include "errors.hpp"

namespace millstream::python {
namespace {

nb::object as_array(nb::handle what) {
  return nb::module_::import_("numpy").attr("asarray")(what);
}

// Through a memoryview, because NumPy takes bytes for text.
nb::object array_of_buffer(nb::handle buffer) {
  PyObject* const memory = PyMemoryView_FromObject(buffer.ptr());
  if (memory == nullptr) throw nb::python_error();
  const nb::object view = nb::steal(memory);
  nb::object array;
  try {
    array = as_array(view);
  } catch (nb::python_error&) {
    // The format is one that NumPy does not know.
  }
  // NumPy copies, element by element, what it cannot map.
  if (!array.is_valid() || nb::cast<bool>(array.attr("flags").attr("owndata"))) {
    throw error(errc::invalid_type, "the buffer of type " + class_name(buffer) +
                                        " has a format that no NumPy dtype describes; pass a "
                                        "view of it as bytes");
  }
  return array;
}

nb::object array_of_interface(nb::handle what) {
  nb::object array = as_array(what);
  if (nb::cast<bool>(array.attr("flags").attr("owndata"))) {
    throw error(errc::invalid_type, "__array_interface__ of type " + class_name(what) +
                                        " does not give its own memory; pass numpy.asarray(x) and "
                                        "keep that array");
  }
  return array;
}

nb::object find_array(nb::handle buffer) {
  if (is_array(buffer)) return nb::borrow(buffer);
  if (PyObject_CheckBuffer(buffer.ptr()) != 0) return array_of_buffer(buffer);
  if (nb::hasattr(buffer, "__array_interface__")) return array_of_interface(buffer);
  if (nb::hasattr(buffer, "__cuda_array_interface__")) {
    throw error(errc::not_implemented, "device arrays such as this " + class_name(buffer) +
                                           " come with the CUDA machine; pass a NumPy array");
  }
  throw error(errc::invalid_type, "data cannot be made of type " + class_name(buffer) +
                                      ", which has neither the buffer protocol nor "
                                      "__array_interface__; pass numpy.asarray(x)");
}

void refuse_strides(nb::handle array) {
  if (nb::cast<bool>(array.attr("flags").attr("c_contiguous"))) return;
  const nb::object shape = array.attr("shape");
  const nb::object strides = array.attr("strides");
  throw binding_error(errc::invalid_value,
                      "an array of shape " + std::string(nb::str(shape).c_str()) + " and strides " +
                          nb::str(strides).c_str() +
                          " is not C-contiguous; register numpy.ascontiguousarray(x) and copy the "
                          "result back",
                      {}, "LayoutError");
}

}  // namespace

source open_source(nb::handle buffer) {
  nb::object array = find_array(buffer);
  source found;
  found.what = layout_of(array);
  refuse_strides(array);
  found.readonly = !nb::cast<bool>(array.attr("flags").attr("writeable"));
  found.block = address_of(array);
  found.owner = std::make_shared<py_ref>(std::move(array));
  return found;
}

}  // namespace millstream::python
