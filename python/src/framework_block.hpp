// SPDX-License-Identifier: Apache-2.0
/// Tasks around a `with` block that gets what a framework made of their arrays: what the classes
/// `pytorch_task`, `numba_task` and `configured_kernel` have in common.
#pragma once

#include "task.hpp"

namespace millstream::python {

/// A name of a module of ours as it is now: programs may put something else there. Needs the
/// interpreter lock.
class module_name {
 public:
  constexpr module_name(const char* module, const char* name) noexcept
      : module_(module), name_(name) {}
  [[nodiscard]] nb::object get();

 private:
  const char* module_;
  const char* name_;
  PyObject* names_ = nullptr;  // of the module, which is kept for good
  PyObject* key_ = nullptr;
};

struct framework_block {
  nb::object task;
  py_task* own = nullptr;  ///< inside of `task`; null for a task that is not ours
  nb::object others;       ///< for such a task: the block, in Python
};

/// A block around `ctx.task(*parts)`, with the name `symbol` unless that is null. For a task that
/// is not ours, `of_others(task)` makes the block.
void make_block(framework_block& made, nb::handle ctx, const nb::args& parts, nb::handle symbol,
                module_name& of_others);

/// The exception that is being handled, as Python's.
[[nodiscard]] nb::object handled_exception();
/// The task has failed. Drops what goes wrong with that, if it is an Exception.
void fail_quietly(py_task& task, nb::handle exception);

/// Runs `call` inside of a started task. What it throws goes on, after `undo` and once the task has
/// failed.
template <class Call, class Undo>
auto or_fail(py_task& task, Call&& call, Undo&& undo) {
  try {
    return call();
  } catch (...) {
    const nb::object raised = handled_exception();
    undo();
    fail_quietly(task, raised);
    throw;
  }
}
template <class Call>
auto or_fail(py_task& task, Call&& call) {
  return or_fail(task, std::forward<Call>(call), [] {});
}

/// The elements of `values` in order, by a call of `get` for each.
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

}  // namespace millstream::python
