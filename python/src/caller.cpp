// SPDX-License-Identifier: Apache-2.0
#include "caller.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "locks.hpp"

namespace millstream::python {
namespace {

// What is known of one instruction: its line, and whether that is one of ours.
struct line_facts {
  source_site site;
  bool ours = false;
};
struct line_entry {
  PyObject* code = nullptr;  // a reference, so that the address is not used again
  int instruction = 0;
  line_facts facts;
};
struct line_slot {
  line_entry entry;
  [[no_unique_address]] short_lock lock;
};
constexpr std::size_t table_size = 512;

// Never destroyed.
std::array<line_slot, table_size> g_lines;

// `source_site::file` must live as long as the process.
const char* intern(std::string_view name) {
  static auto& names = *new std::unordered_set<std::string>;
  static constinit short_lock lock;
  const short_guard held(lock);
  return names.emplace(name).first->c_str();
}

std::string_view package_folder() {
  static constinit std::atomic<const char*> folder{nullptr};
  if (folder == nullptr) {
    const nb::object file = nb::module_::import_("millstream").attr("__file__");
    const std::string_view path = nb::cast<nb::str>(file).c_str();
    folder = intern(path.substr(0, path.rfind('/') + 1));
  }
  return folder.load();
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

line_facts look_at(PyFrameObject* frame, PyObject* code) {
  const nb::object file = nb::handle(code).attr("co_filename");
  const std::string_view name = nb::cast<nb::str>(file).c_str();
  const int line = PyFrame_GetLineNumber(frame);
  return {source_site(intern(name), static_cast<std::uint32_t>(line < 0 ? 0 : line)),
          name.starts_with(package_folder())};
}

[[gnu::noinline]] line_facts fill(line_slot& slot, PyFrameObject* frame, PyObject* code,
                                  int instruction) {
  const line_facts facts = look_at(frame, code);
  line_entry next{code, instruction, facts};
  Py_INCREF(code);
  {
    const short_guard held(slot.lock);
    std::swap(slot.entry, next);
  }
  Py_XDECREF(next.code);  // what was there before
  return facts;
}

line_facts line_of(PyFrameObject* frame) {
  PyObject* const code = reinterpret_cast<PyObject*>(PyFrame_GetCode(frame));
  const nb::object keep = nb::steal(code);
  const int instruction = instruction_of(frame);
  const std::size_t slot =
      ((reinterpret_cast<std::uintptr_t>(code) >> 5) ^ static_cast<std::size_t>(instruction) * 31) %
      table_size;
  line_slot& known = g_lines[slot];
  {
    const short_guard held(known.lock);
    if (known.entry.code == code && known.entry.instruction == instruction) {
      return known.entry.facts;
    }
  }
  return fill(known, frame, code, instruction);
}

}  // namespace

source_site caller_site() noexcept {
  PyFrameObject* frame = PyEval_GetFrame();  // of somebody else's, until the next one
  try {
    nb::object keep;
    while (frame != nullptr) {
      const line_facts line = line_of(frame);
      if (!line.ours) return line.site;
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
