// SPDX-License-Identifier: Apache-2.0
/// Arguments from Python, with messages that name the caller's argument.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <millstream/place.hpp>

#include "interpreter.hpp"

namespace millstream::python {

/// Before an error of ours takes its place: drops a pending TypeError. Throws any other exception,
/// which comes from code of the user's.
void clear_type_error();
/// Whether there is such an attribute. One that cannot be had because of an Exception counts as
/// absent; what is more than that, such as KeyboardInterrupt, goes on.
[[nodiscard]] bool has_attribute(nb::handle what, const char* name);

/// Another number each time the module is loaded, and 0 once its names have gone: at the end of the
/// interpreter, or where a program drops it to import it again.
inline constinit shared_value<unsigned> loaded_module{0};

/// The class of a C++ type, and the number of the module that it was found in.
struct known_class {
  static constexpr unsigned never = ~0U;
  shared_value<PyObject*> type{nullptr};
  shared_value<unsigned> found_in{never};

  /// Looks for the class, which may be null, and keeps it while the module is there.
  template <class T>
  [[nodiscard, gnu::noinline]] PyObject* find() noexcept {
    const unsigned now = loaded_module.get();
    PyObject* const found = nb::type<T>().ptr();
    if (found == nullptr || now == 0) return found;
    type.set(found);
    found_in.set(now);
    return found;
  }
};

/// The class of T, or null if it has gone. While the module is there it is looked for once.
template <class T>
[[nodiscard]] PyObject* class_of() noexcept {
  static constinit known_class known;
  if (known.found_in.get() != loaded_module.get()) [[unlikely]]
    return known.find<T>();
  return known.type.get();
}

/// The C++ object inside `what`, or null if it is none of this class.
template <class T>
[[nodiscard]] T* as(nb::handle what) noexcept {
  // Most are of the class itself, which need not be looked for.
  if (what.is_valid() && what.type().ptr() == class_of<T>() && nb::inst_ready(what)) {
    return nb::inst_ptr<T>(what);
  }
  T* found = nullptr;
  return nb::try_cast<T*>(what, found, false) ? found : nullptr;
}

/// "int" for 3, for messages.
[[nodiscard]] std::string class_name(nb::handle what);
/// What Python shows of it, cut to one short line, for messages.
[[nodiscard]] std::string short_repr(nb::handle what);
/// The text of a str; the view lives as long as the object. TypeError for others, ValueError for a
/// NUL character.
[[nodiscard]] std::string_view to_text(nb::handle what, const char* argument);
/// Like `to_text`, and "" for None.
[[nodiscard]] std::string_view to_name(nb::handle what, const char* argument);
/// Anything with `__index__`. TypeError otherwise, NumberRangeError out of the range of int64.
[[nodiscard]] std::int64_t to_integer(nb::handle what, const char* argument);
/// An index from 0: TypeError, NumberRangeError for negative ones.
[[nodiscard]] std::size_t to_index(nb::handle what, const char* argument);

/// Its truth value.
[[nodiscard]] bool to_bool(nb::handle what);

/// An exec_place, or what `_as_stf_exec_place()` of the object gives. Null if it is neither.
[[nodiscard]] const exec_place* find_exec_place(nb::handle what, nb::object& keep);
/// The same, with TypeError for everything else; None is the default place.
[[nodiscard]] exec_place to_exec_place(nb::handle what, const char* argument);
/// TypeError for anything but a data_place and None, which is `otherwise`.
[[nodiscard]] data_place to_data_place(nb::handle what, const char* argument, data_place otherwise);

/// A tuple of what `get` gives for each index.
template <class Get>
[[nodiscard]] nb::object make_tuple_of(std::size_t count, Get&& get) {
  nb::object made = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  if (!made.is_valid()) throw nb::python_error();
  for (std::size_t i = 0; i < count; ++i) {
    nb::object element = get(i);
    PyTuple_SetItem(made.ptr(), static_cast<Py_ssize_t>(i), element.release().ptr());
  }
  return made;
}

/// A stream number or an object with `__cuda_stream__`; None is 0.
[[nodiscard]] std::uint64_t to_stream(nb::handle what);
/// A `CudaStream`.
[[nodiscard]] nb::object from_stream(std::uint64_t number);

}  // namespace millstream::python
