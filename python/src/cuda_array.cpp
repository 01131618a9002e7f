// SPDX-License-Identifier: Apache-2.0
#include "cuda_array.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert.hpp"
#include "errors.hpp"
#include "layout.hpp"

namespace millstream::python {
namespace {

constexpr const char* attribute = "__cuda_array_interface__";

nb::dict interface_of(nb::handle array) {
  const nb::object interface = array.attr(attribute);
  if (PyDict_Check(interface.ptr())) return nb::borrow<nb::dict>(interface);
  throw error(errc::invalid_type, std::string(attribute) + " of type " + class_name(array) +
                                      " is of type " + class_name(interface) + "; give a dict");
}

// None where there is no such entry.
nb::object entry(const nb::dict& from, const char* name) {
  return nb::object(from.attr("get")(name));
}

nb::object needed(const nb::dict& from, const char* name, nb::handle array) {
  nb::object found = entry(from, name);
  if (!found.is_none()) return found;
  throw error(errc::invalid_type, std::string(attribute) + " of type " + class_name(array) +
                                      " lacks '" + name + "'; give all entries of version 3");
}

std::optional<std::uint64_t> producer_of(const nb::dict& from) {
  const nb::object stream = entry(from, "stream");
  if (stream.is_none()) return std::nullopt;
  const std::size_t number = to_index(stream, "stream");
  if (number == 0) {
    throw error(errc::invalid_value,
                std::string("stream 0 is disallowed in ") + attribute +
                    ", because two default streams could be meant; give 1 for the legacy one, 2 "
                    "for that of the thread, or None");
  }
  return number;
}

std::vector<Py_ssize_t> to_numbers(nb::handle sequence, const char* name) {
  std::vector<Py_ssize_t> numbers;
  for (const nb::handle each : sequence)
    numbers.push_back(static_cast<Py_ssize_t>(to_integer(each, name)));
  return numbers;
}

std::vector<Py_ssize_t> shape_of(const nb::dict& from, nb::handle array) {
  std::vector<Py_ssize_t> dims = to_numbers(needed(from, "shape", array), "shape");
  for (const Py_ssize_t extent : dims) {
    if (extent >= 0) continue;
    throw error(errc::invalid_value, "extent " + std::to_string(extent) + " in " + attribute +
                                         " is negative; give extents from 0");
  }
  return dims;
}

// "|V8" says only how long an element is; `descr`, if there, also what is in it.
nb::object dtype_of(const nb::dict& from, nb::handle array) {
  nb::object type = needed(from, "typestr", array);
  if (PyUnicode_Check(type.ptr()) != 0) type = nb::steal(PyUnicode_FromObject(type.ptr()));
  if (to_text(type, "typestr").starts_with("|V")) {
    const nb::object description = entry(from, "descr");
    if (!description.is_none()) return to_dtype(description);
  }
  return to_dtype(type);
}

// None where the array is C-contiguous.
std::vector<Py_ssize_t> strides_of(const nb::dict& from, const std::vector<Py_ssize_t>& dims,
                                   nb::handle dtype, packing how) {
  const nb::object given = entry(from, "strides");
  if (given.is_none()) return {};
  std::vector<Py_ssize_t> strides = to_numbers(given, "strides");
  if (strides.size() != dims.size()) {
    throw error(errc::invalid_value, std::string(attribute) + " has " +
                                         std::to_string(strides.size()) + " strides for " +
                                         std::to_string(dims.size()) +
                                         " extents; give one each, or None");
  }
  if (is_c_contiguous(dims, strides, nb::cast<Py_ssize_t>(dtype.attr("itemsize")))) return {};
  if (how == packing::pack) return strides;
  refuse_layout(from["shape"], given, "a contiguous copy of x, such as cupy.ascontiguousarray(x),");
}

void refuse_mask(const nb::dict& from) {
  if (entry(from, "mask").is_none()) return;
  throw error(errc::invalid_value, std::string(attribute) +
                                       " has a mask, which data cannot have; "
                                       "register the plain array");
}

}  // namespace

std::int64_t cuda_array_version(nb::handle array) {
  const nb::object version = entry(interface_of(array), "version");
  return version.is_none() ? 0 : to_integer(version, "version");
}

cuda_array read_cuda_array(nb::handle array, packing how) {
  const nb::dict from = interface_of(array);
  cuda_array found;
  found.producer = producer_of(from);
  refuse_mask(from);
  const nb::object data = needed(from, "data", array);
  if (PyTuple_Check(data.ptr()) == 0 || nb::len(data) != 2) {
    throw error(errc::invalid_type, std::string("'data' in ") + attribute +
                                        " is not a pair; give (address, read-only)");
  }
  const std::size_t address = data[0].is_none() ? 0 : to_index(data[0], "data");
  found.address = reinterpret_cast<void*>(address);
  found.readonly = nb::cast<bool>(nb::bool_(nb::object(data[1])));
  nb::object dtype = dtype_of(from, array);
  const std::vector<Py_ssize_t> dims = shape_of(from, array);
  found.what = make_layout_of(std::move(dtype), extent_list(dims));
  found.strides = strides_of(from, dims, found.what->dtype, how);
  if (found.what->bytes == 0) found.address = nullptr;
  return found;
}

}  // namespace millstream::python
