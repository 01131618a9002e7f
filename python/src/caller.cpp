// SPDX-License-Identifier: Apache-2.0
#include "caller.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

#include "interpreter.hpp"

namespace millstream::python {
namespace {

// The line of one instruction, or that it is one of ours.
struct line_entry {
  PyObject* code = nullptr;  // a reference, so that the address is not used again
  int instruction = 0;
  source_site site;
  bool ours = false;
};
constexpr std::size_t table_size = 512;

// Guarded by the interpreter lock, as everything here; never destroyed.
std::array<line_entry, table_size> g_lines;

// `source_site::file` must live as long as the process.
const char* intern(std::string_view name) {
  static auto& names = *new std::unordered_set<std::string>;
  return names.emplace(name).first->c_str();
}

std::string_view package_folder() {
  static constinit const char* folder = nullptr;
  if (folder == nullptr) {
    const nb::object file = nb::module_::import_("millstream").attr("__file__");
    const std::string_view path = nb::cast<nb::str>(file).c_str();
    folder = intern(path.substr(0, path.rfind('/') + 1));
  }
  return folder;
}

#if defined(Py_LIMITED_API) || PY_VERSION_HEX < 0x030B0000
// What computes `frame.f_lasti`, or null if that is no computed attribute.
const PyGetSetDef* find_last_instruction(PyTypeObject* frame) {
  const auto* each = static_cast<const PyGetSetDef*>(PyType_GetSlot(frame, Py_tp_getset));
  for (; each != nullptr && each->name != nullptr; ++each) {
    if (std::string_view(each->name) == "f_lasti") return each;
  }
  return nullptr;
}

// `frame.f_lasti`, of which the search for the name would be the larger half.
PyObject* last_instruction(PyFrameObject* frame) {
  auto* const object = reinterpret_cast<PyObject*>(frame);
  static const PyGetSetDef* const known = find_last_instruction(Py_TYPE(object));
  if (known == nullptr) return PyObject_GetAttrString(object, "f_lasti");
  return known->get(object, known->closure);
}
#endif

int instruction_of(PyFrameObject* frame) {
#if defined(Py_LIMITED_API) || PY_VERSION_HEX < 0x030B0000
  PyObject* const value = last_instruction(frame);
  if (value == nullptr) throw nb::python_error();
  const long index = PyLong_AsLong(value);
  Py_DECREF(value);
  return static_cast<int>(index);
#else
  return PyFrame_GetLasti(frame);
#endif
}

// A new reference, or null.
PyFrameObject* caller_of(PyFrameObject* frame) {
#if defined(Py_LIMITED_API)
  static PyObject* const name = PyUnicode_InternFromString("f_back");
  PyObject* const value = PyObject_GetAttr(reinterpret_cast<PyObject*>(frame), name);
  if (value == nullptr) throw nb::python_error();
  if (value != Py_None) return reinterpret_cast<PyFrameObject*>(value);
  Py_DECREF(value);
  return nullptr;
#else
  return PyFrame_GetBack(frame);
#endif
}

void fill(line_entry& entry, PyFrameObject* frame, PyObject* code, int instruction) {
  const nb::object file = nb::handle(code).attr("co_filename");
  const std::string_view name = nb::cast<nb::str>(file).c_str();
  const bool ours = name.starts_with(package_folder());
  const int line = PyFrame_GetLineNumber(frame);
  const source_site site(intern(name), static_cast<std::uint32_t>(line < 0 ? 0 : line));
  Py_XDECREF(entry.code);
  entry = {Py_NewRef(code), instruction, site, ours};
}

const line_entry& line_of(PyFrameObject* frame) {
  PyObject* const code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
  const nb::object keep = nb::steal(code);
  const int instruction = instruction_of(frame);
  const std::size_t slot =
      ((reinterpret_cast<std::uintptr_t>(code) >> 5) ^ static_cast<std::size_t>(instruction) * 31) %
      table_size;
  line_entry& entry = g_lines[slot];
  if (entry.code != code || entry.instruction != instruction) {
    fill(entry, frame, code, instruction);
  }
  return entry;
}

}  // namespace

source_site caller_site() noexcept {
  PyFrameObject* frame = PyEval_GetFrame();  // of somebody else's, until the next one
  try {
    nb::object keep;
    while (frame != nullptr) {
      const line_entry& entry = line_of(frame);
      if (!entry.ours) return entry.site;
      frame = caller_of(frame);
      keep = nb::steal(reinterpret_cast<PyObject*>(frame));
    }
  } catch (...) {
    // A line that cannot be told is no reason to fail.
    PyErr_Clear();
  }
  return {};
}

}  // namespace millstream::python
