// SPDX-License-Identifier: Apache-2.0
#include "convert.hpp"

#include <nanobind/stl/string.h>

#include "errors.hpp"
#include "locks.hpp"

namespace millstream::python {
namespace {

[[noreturn]] void fail_type(const char* argument, const char* wanted, nb::handle what) {
  throw error(errc::invalid_type, std::string("'") + argument + "' is of type " + class_name(what) +
                                      "; pass " + wanted);
}

nb::object to_int_object(nb::handle what, const char* argument) {
  if (PyLong_CheckExact(what.ptr()) != 0) return nb::borrow(what);
  PyObject* const number = index_or_park(what);
  if (number == nullptr) {
    clear_type_error();
    fail_type(argument, "an integer", what);
  }
  return nb::steal(number);
}

// The Python error is out of the range of a C type.
[[noreturn]] void fail_range(const char* argument, nb::handle number) {
  PyErr_Clear();
  const nb::object zero = nb::int_(0);
  const bool negative = PyObject_RichCompareBool(number.ptr(), zero.ptr(), Py_LT) == 1;
  throw binding_error(errc::invalid_value,
                      std::string("'") + argument +
                          (negative ? "' is negative or has more than 64 bits; pass an integer "
                                      "from 0"
                                    : "' has more than 64 bits; pass a smaller integer"),
                      {}, "NumberRangeError");
}

}  // namespace

void clear_type_error() {
  if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
  PyErr_Clear();
}

bool has_attribute(nb::handle what, const char* name) {
  PyObject* const found = attribute_or_park(what, name);
  Py_XDECREF(found);
  if (found != nullptr) return true;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) throw nb::python_error();
  PyErr_Clear();
  return false;
}

std::string class_name(nb::handle what) {
  return nb::cast<std::string>(what.type().attr("__name__"));
}

std::string short_repr(nb::handle what) {
  constexpr std::size_t most = 60;
  std::string text;
  try {
    text = nb::repr(what).c_str();
  } catch (nb::python_error& failed) {
    if (!failed.matches(PyExc_Exception)) throw;
    return "an object of type " + class_name(what);
  }
  text = text.substr(0, text.find('\n'));
  if (text.size() > most) text = text.substr(0, most) + "...";
  return text;
}

std::string_view to_text(nb::handle what, const char* argument) {
  if (PyUnicode_CheckExact(what.ptr()) == 0) fail_type(argument, "a plain str", what);
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(what.ptr(), &size);
  if (text == nullptr) throw nb::python_error();
  const std::string_view found(text, static_cast<std::size_t>(size));
  if (found.find('\0') != found.npos) {
    throw error(errc::invalid_value, std::string("'") + argument +
                                         "' has a NUL character, which ends names; leave it out");
  }
  return found;
}

std::string_view to_name(nb::handle what, const char* argument) {
  return what.is_none() ? std::string_view{} : to_text(what, argument);
}

std::int64_t to_integer(nb::handle what, const char* argument) {
  const nb::object number = to_int_object(what, argument);
  const long long value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred()) fail_range(argument, number);
  return value;
}

std::size_t to_index(nb::handle what, const char* argument) {
  const nb::object number = to_int_object(what, argument);
  const std::size_t value = PyLong_AsSize_t(number.ptr());
  if (value == static_cast<std::size_t>(-1) && PyErr_Occurred()) fail_range(argument, number);
  return value;
}

bool to_bool(nb::handle what) {
  const int answer = truth_or_park(what);
  if (answer < 0) throw nb::python_error();
  return answer != 0;
}

const exec_place* find_exec_place(nb::handle what, nb::object& keep) {
  if (const auto* place = as<exec_place>(what)) return place;
  if (!has_attribute(what, "_as_stf_exec_place")) return nullptr;
  const nb::object give = result_of(attribute_or_park(what, "_as_stf_exec_place"));
  keep = call_python(give);
  if (const auto* place = as<exec_place>(keep)) return place;
  throw error(errc::invalid_type, "_as_stf_exec_place() of type " + class_name(what) + " gave " +
                                      class_name(keep) + "; return an exec_place");
}

exec_place to_exec_place(nb::handle what, const char* argument) {
  if (what.is_none()) return {};
  nb::object keep;
  const exec_place* const place = find_exec_place(what, keep);
  if (place == nullptr) {
    fail_type(argument, "an exec_place such as exec_place.device(0)", what);
  }
  return *place;
}

data_place to_data_place(nb::handle what, const char* argument, data_place otherwise) {
  if (what.is_none()) return otherwise;
  const auto* const place = as<data_place>(what);
  if (place == nullptr) fail_type(argument, "a data_place such as data_place.device(0)", what);
  return *place;
}

std::uint64_t to_stream(nb::handle what) {
  return nb::cast<std::uint64_t>(
      nb::module_::import_("millstream._stream").attr("_stream_number")(what));
}

nb::object from_stream(std::uint64_t number) {
  static constinit lazy_name type("millstream._stream", "CudaStream");
  // Streams are pooled, and these objects do not change: tasks share them.
  static constinit lazy_object table;
  constexpr Py_ssize_t most_known = 1024;
  PyObject* const known = table.get([] { return result_of(PyDict_New()); }).ptr();
  const nb::int_ key(number);
  if (nb::object found = find_item(known, key); found.is_valid()) return found;
  nb::object made = type.get()(key);
  if (PyDict_Size(known) >= most_known) PyDict_Clear(known);
  if (PyDict_SetItem(known, key.ptr(), made.ptr()) != 0) throw nb::python_error();
  return made;
}

}  // namespace millstream::python
