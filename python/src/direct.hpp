// SPDX-License-Identifier: Apache-2.0
/// Methods that are called for each task, without nanobind's search for their arguments.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "interpreter.hpp"

namespace millstream::python {

/// The arguments of a call by position, the object itself first. The caller holds them.
using call_arguments = std::span<PyObject* const>;

/// A call without keywords. A null object declines, before anything changed: then the method that
/// nanobind has made is called with the same arguments, which also says what is wrong with them.
using direct_call = nb::object (*)(call_arguments given);

/// Says that method `name` of `type`, which nanobind has made, can be called this way.
void note_direct_call(nb::handle type, const char* name, direct_call call);

/// From now on the methods that were noted are called this way. Their documentation and signatures
/// are as before, and so are methods that somebody has replaced. A second call does nothing. Not
/// before the first context: makers of type stubs look for nanobind's own objects.
void use_direct_calls();

/// A Python object of class T around what `make()` gives, which is made in its place.
template <class T, class Make>
[[nodiscard]] nb::object make_instance(Make&& make) {
  static constinit PyObject* type = nullptr;
  if (type == nullptr) type = nb::type<T>().ptr();
  nb::object made = nb::inst_alloc(type);
  new (static_cast<void*>(nb::inst_ptr<T>(made))) T(std::forward<Make>(make)());
  nb::inst_mark_ready(made);
  return made;
}

}  // namespace millstream::python
