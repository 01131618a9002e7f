// SPDX-License-Identifier: Apache-2.0
/// Methods that are called for each task, without nanobind's search for their arguments.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "convert.hpp"
#include "locks.hpp"

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

/// A Python object of class T around what `make()` gives, which is made in its place. Null, before
/// anything is made, once the class has gone.
template <class T, class Make>
[[nodiscard]] nb::object make_instance(Make&& make) {
  PyObject* const type = class_of<T>();
  if (type == nullptr) return {};
  nb::object made = nb::inst_alloc(type);
  new (static_cast<void*>(nb::inst_ptr<T>(made))) T(std::forward<Make>(make)());
  nb::inst_mark_ready(made);
  return made;
}

/// `__enter__` of T by `enter({self, object})`, which gives an object. `lock_of(self)` is held.
template <class T, auto Enter>
[[nodiscard]] nb::object enter_directly(call_arguments given) {
  auto* const self = given.size() == 1 ? as<T>(given[0]) : nullptr;
  if (self == nullptr) return {};
  const call_guard held(lock_of(*self));
  return Enter({self, given[0]});
}

/// `__exit__` of T by `leave(self, type, value, traceback)`, which gives a truth value or nothing.
/// `lock_of(self)` is held.
template <class T, auto Leave>
[[nodiscard]] nb::object leave_directly(call_arguments given) {
  auto* const self = given.size() == 4 ? as<T>(given[0]) : nullptr;
  if (self == nullptr) return {};
  const call_guard held(lock_of(*self));
  if constexpr (std::is_void_v<decltype(Leave(*self, given[1], given[2], given[3]))>) {
    Leave(*self, given[1], given[2], given[3]);
    return nb::none();
  } else {
    return nb::bool_(Leave(*self, given[1], given[2], given[3]));
  }
}

}  // namespace millstream::python
