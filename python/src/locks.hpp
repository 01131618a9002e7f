// SPDX-License-Identifier: Apache-2.0
/// What guards state of ours in builds of Python without the interpreter lock. In all others these
/// locks are empty and guards are no instructions: there, the interpreter lock does it.
#pragma once

#include <cxxabi.h>

#include "interpreter.hpp"

namespace millstream::python {

/// For a few lines that neither call Python nor drop an object: whoever waits for it lets go of
/// nothing that the holder may need, but it cannot be taken twice.
using short_lock = nb::ft_mutex;

class short_guard {
 public:
  explicit short_guard(short_lock& lock) noexcept : lock_(lock) {
    try {
      lock_.lock();
    } catch (abi::__forced_unwind&) {
      park();  // the interpreter ends this thread, which had to wait
    }
  }
  ~short_guard() { lock_.unlock(); }
  short_guard(const short_guard&) = delete;
  short_guard& operator=(const short_guard&) = delete;

 private:
  short_lock& lock_;
};

/// For whole calls, one at a time on an object of ours. It is what the interpreter lock was to that
/// object: given up while the thread waits, and inside of calls of Python's that may wait, after
/// which the object may have changed; and the same thread may take it again. It stays behind when
/// the object is moved.
class call_lock {
 public:
  call_lock() noexcept = default;
  call_lock(call_lock&& /*of_other*/) noexcept {}
  call_lock& operator=(call_lock&& /*of_other*/) noexcept { return *this; }
  ~call_lock() = default;

 private:
  friend class call_guard;
#if defined(Py_GIL_DISABLED)
  // Only its lock is used: there are no critical sections of a lock alone before Python 3.14.
  PyObject holder_{};
#endif
};

class call_guard {
 public:
#if defined(Py_GIL_DISABLED)
  explicit call_guard(call_lock& lock) noexcept : call_guard(nb::handle(&lock.holder_)) {}
  /// The lock of an object that is not ours.
  explicit call_guard(nb::handle object) noexcept {
    try {
      PyCriticalSection_Begin(&section_, object.ptr());
    } catch (abi::__forced_unwind&) {
      park();
    }
  }
  ~call_guard() { PyCriticalSection_End(&section_); }
#else
  explicit call_guard(call_lock& /*lock*/) noexcept {}
  explicit call_guard(nb::handle /*object*/) noexcept {}
  ~call_guard() {}  // not trivial, so that it is no unused variable
#endif
  call_guard(const call_guard&) = delete;
  call_guard& operator=(const call_guard&) = delete;

#if defined(Py_GIL_DISABLED)
 private:
  PyCriticalSection section_;
#endif
};

/// Of the object behind a method's `self`.
template <class T>
[[nodiscard]] call_lock& lock_of(const nb::pointer_and_handle<T>& self) noexcept {
  return lock_of(*self.p);
}

/// `call(self, ...)` as a method for nanobind that holds `lock_of(self)`.
template <class Result, class Self, class... Given>
[[nodiscard]] auto locked(Result (*call)(Self, Given...)) {
#if defined(Py_GIL_DISABLED)
  return [call](Self self, Given... given) -> Result {
    const call_guard held(lock_of(self));
    return call(self, std::forward<Given>(given)...);
  };
#else
  return call;
#endif
}

/// `dict[key]`, or null. Throws nb::python_error.
[[nodiscard]] inline nb::object find_item(nb::handle dict, nb::handle key) {
#if defined(Py_GIL_DISABLED)
  PyObject* found = nullptr;
  if (PyDict_GetItemRef(dict.ptr(), key.ptr(), &found) < 0) throw nb::python_error();
  return nb::steal(found);
#else
  PyObject* const found = PyDict_GetItemWithError(dict.ptr(), key.ptr());
  if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return nb::borrow(found);
#endif
}

}  // namespace millstream::python
