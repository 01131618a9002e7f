// SPDX-License-Identifier: Apache-2.0
/// The interpreter lock: taken from any thread, let go around waits, and left alone once the
/// interpreter ends.
#pragma once

#include <atomic>
#include <utility>

#include <nanobind/nanobind.h>

namespace millstream::python {

namespace nb = nanobind;

/// Stops the calling thread for the rest of the process. For threads that the ending interpreter
/// no longer lets in: it ends them by unwinding, which must not meet our frames.
[[noreturn]] void park() noexcept;

/// True once no Python code may run any more on behalf of the engine. One load.
[[nodiscard]] bool interpreter_is_gone() noexcept;
/// Rises with each fork, in the child: what was made at another number is the parent's, and can
/// be neither used nor given back here. One load.
[[nodiscard]] unsigned process_generation() noexcept;
/// From now on the end of the interpreter ends the engine, too.
void note_engine_in_use() noexcept;

/// Holds the interpreter lock, nested use included. False when the interpreter is gone: then
/// nothing of Python may be touched. Foreign threads keep their Python thread state until they end,
/// so that thread-local values of Python survive from one body to the next.
class interpreter_lock {
 public:
  interpreter_lock() noexcept;
  ~interpreter_lock();
  interpreter_lock(const interpreter_lock&) = delete;
  interpreter_lock& operator=(const interpreter_lock&) = delete;
  explicit operator bool() const noexcept { return held_; }

 private:
  bool held_ = false;
  PyGILState_STATE state_{};
};

/// Around every call into the engine that may block: the caller holds the interpreter lock, and
/// the engine may let go of it while it waits. Outside of such a section the hooks do nothing.
class may_block {
 public:
  may_block() noexcept : sections_(sections_of_thread()) { ++*sections_; }
  ~may_block() { --*sections_; }
  may_block(const may_block&) = delete;
  may_block& operator=(const may_block&) = delete;

 private:
  [[nodiscard]] static int* sections_of_thread() noexcept;
  int* sections_;  // how many this thread is in
};

/// Around calls that may block inside of the driver, where the engine cannot tell: lets go of the
/// interpreter lock at once. Nothing of Python may be touched meanwhile.
class released_lock {
 public:
  released_lock() noexcept;
  ~released_lock();
  released_lock(const released_lock&) = delete;
  released_lock& operator=(const released_lock&) = delete;

 private:
  may_block section_;
  void* token_;
};

/// A reference that may be dropped on any thread, with or without the interpreter lock, also when
/// the interpreter is gone (then the object leaks).
class py_ref {
 public:
  py_ref() noexcept = default;
  /// Takes over one reference; the lock is held.
  explicit py_ref(nb::object&& what) noexcept : object_(what.release().ptr()) {}
  py_ref(py_ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  py_ref& operator=(py_ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~py_ref() {
    if (object_ != nullptr) drop();
  }

  [[nodiscard]] nb::handle get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  void drop() noexcept;
  PyObject* object_ = nullptr;
};

/// Calls Python code from where C++ has something to destroy. Null and a pending exception when it
/// raised. A thread that was in there when the interpreter ended is ended by Python (before 3.14)
/// as soon as it comes back, by unwinding, which would run destructors without the interpreter
/// lock: here it stays for good instead.
[[nodiscard]] PyObject* call_or_park(nb::handle callable, PyObject* const* arguments,
                                     std::size_t count) noexcept;
/// With a tuple, and a dictionary or null.
[[nodiscard]] PyObject* call_or_park(nb::handle callable, nb::handle arguments,
                                     nb::handle options) noexcept;
/// A method of the first argument.
[[nodiscard]] PyObject* call_method_or_park(PyObject* name, PyObject* const* arguments,
                                            std::size_t count) noexcept;
/// `PyNumber_Index`, `PyObject_GetAttrString` and `PyObject_IsTrue` in the same way.
[[nodiscard]] PyObject* index_or_park(nb::handle what) noexcept;
[[nodiscard]] PyObject* attribute_or_park(nb::handle what, const char* name) noexcept;
[[nodiscard]] int truth_or_park(nb::handle what) noexcept;
/// The result of one of these; throws nb::python_error for null.
[[nodiscard]] inline nb::object result_of(PyObject* called) {
  if (called == nullptr) throw nb::python_error();
  return nb::steal(called);
}
template <class... Arguments>
nb::object call_python(nb::handle callable, const Arguments&... arguments) {
  PyObject* const list[] = {nb::handle(arguments).ptr()..., nullptr};
  return result_of(call_or_park(callable, list, sizeof...(arguments)));
}

/// A value that threads read while another one sets it: what was written before `set` is seen by
/// who `get`s it. With the interpreter lock it is a plain one.
template <class T>
class shared_value {
 public:
  constexpr explicit shared_value(T first) noexcept : value_(first) {}
#if defined(Py_GIL_DISABLED)
  [[nodiscard]] T get() const noexcept { return value_.load(std::memory_order_acquire); }
  void set(T next) noexcept { value_.store(next, std::memory_order_release); }

 private:
  std::atomic<T> value_;
#else
  [[nodiscard]] T get() const noexcept { return value_; }
  void set(T next) noexcept { value_ = next; }

 private:
  T value_;
#endif
};

/// An object that is made at its first use and kept for good. Threads that come at the same time
/// may each make one, and get the one that was first. Not a static variable that the language makes
/// once: a thread would wait for that without letting anybody else on.
class lazy_object {
 public:
  constexpr lazy_object() noexcept = default;
  template <class Make>
  [[nodiscard]] nb::handle get(Make&& make) {
    PyObject* const known = object_.load(std::memory_order_acquire);
    return known != nullptr ? known : make_now(make);
  }

 private:
  template <class Make>
  [[nodiscard, gnu::noinline]] PyObject* make_now(Make& make) {
    return keep(make());
  }
  [[nodiscard]] PyObject* keep(nb::object made) noexcept;
  std::atomic<PyObject*> object_{nullptr};
};

/// `module.name`, imported at the first use.
class lazy_name {
 public:
  constexpr lazy_name(const char* module, const char* name) noexcept
      : module_(module), name_(name) {}
  [[nodiscard]] nb::handle get();

 private:
  const char* module_;
  const char* name_;
  lazy_object object_;
};

/// A str for look-ups.
class lazy_text {
 public:
  explicit constexpr lazy_text(const char* text) noexcept : text_(text) {}
  [[nodiscard]] nb::handle get() {
    return object_.get([this] { return result_of(PyUnicode_InternFromString(text_)); });
  }

 private:
  const char* text_;
  lazy_object object_;
};

}  // namespace millstream::python
