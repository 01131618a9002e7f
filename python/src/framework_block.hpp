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
  lazy_text module_;
  lazy_text name_;
};

struct framework_block : py_task {
  /// Around `ctx.task(*parts)`, with the name `symbol` unless that is null. For a context that is
  /// not ours, `of_others(task)` makes the block.
  framework_block(nb::handle ctx, const nb::args& parts, nb::handle symbol, module_name& of_others);

  nb::object others;  ///< that block, in Python; then this is a task of no context
};

/// The task inside of the Python object `block`, which it keeps alive, for functions of the
/// adapters.
[[nodiscard]] inline nb::object task_inside(const nb::pointer_and_handle<framework_block>& block) {
  return nb::cast(static_cast<py_task*>(block.p), nb::rv_policy::reference_internal, block.h);
}

/// For `repr`.
[[nodiscard]] std::string shown_block(const framework_block& block, const char* class_name);

/// The exception that is being handled, as Python's.
[[nodiscard]] nb::object handled_exception();
/// The task has failed. Drops what goes wrong with that, if it is an Exception.
void fail_quietly(py_task& task, nb::handle exception);

/// Runs `undo`, and lets the task fail in any case.
template <class Undo>
void then_fail(py_task& task, nb::handle exception, Undo&& undo) {
  try {
    undo();
  } catch (...) {  // what is more than an Exception, such as KeyboardInterrupt
    fail_quietly(task, exception);
    throw;
  }
  fail_quietly(task, exception);
}

/// Runs `call` inside of a started task. What it throws goes on, after `undo` and once the task has
/// failed.
template <class Call, class Undo>
auto or_fail(py_task& task, Call&& call, Undo&& undo) {
  try {
    return call();
  } catch (...) {
    const nb::object raised = handled_exception();
    then_fail(task, raised, undo);
    throw;
  }
}
template <class Call>
auto or_fail(py_task& task, Call&& call) {
  return or_fail(task, std::forward<Call>(call), [] {});
}

}  // namespace millstream::python
