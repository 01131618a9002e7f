// SPDX-License-Identifier: Apache-2.0
#include "framework_block.hpp"

#include "convert.hpp"
#include "errors.hpp"
#include "locks.hpp"

namespace millstream::python {
namespace {

nb::object call_task_of(nb::handle ctx, const nb::args& parts, nb::handle symbol) {
  const nb::object make = ctx.attr("task");
  nb::object options;
  if (symbol.is_valid()) {
    nb::dict named;
    named["symbol"] = symbol;
    options = named;
  }
  return result_of(call_or_park(make, parts, options));
}

py_task make_own_task(nb::handle ctx, const nb::args& parts, nb::handle symbol) {
  const auto* const context = as<py_context>(ctx);
  if (context == nullptr || !ctx.type().is(nb::type<py_context>())) return {empty_context(), {}};
  check_live(*context->state, "task()");
  return make_task(context->state, parts, symbol.is_valid() ? symbol : nb::handle(Py_None));
}

}  // namespace

nb::object module_name::get() {
  const nb::object loaded = find_item(PyImport_GetModuleDict(), module_.get());
  if (loaded.is_valid() && PyModule_Check(loaded.ptr()) != 0) {
    nb::object found = find_item(PyModule_GetDict(loaded.ptr()), name_.get());
    if (found.is_valid()) return found;
  }
  // Imports, or says what is missing.
  return nb::module_::import_(module_.get()).attr(name_.get());
}

framework_block::framework_block(nb::handle ctx, const nb::args& parts, nb::handle symbol,
                                 module_name& of_others)
    : py_task(make_own_task(ctx, parts, symbol)) {
  if (state->empty) others = call_python(of_others.get(), call_task_of(ctx, parts, symbol));
}

std::string shown_block(const framework_block& block, const char* class_name) {
  if (!block.others.is_valid()) return shown(block, class_name);
  return std::string(class_name) + "(a task of another context)";
}

nb::object handled_exception() {
  try {
    throw;
  } catch (const nb::python_error& raised) {
    return nb::borrow(raised.value());
  } catch (...) {
    return to_python(std::current_exception(), {});
  }
}

void fail_quietly(py_task& task, nb::handle exception) {
  try {
    if (!task.core.is_ended()) fail_task(task, exception);
  } catch (const nb::python_error& raised) {
    if (!raised.matches(PyExc_Exception)) throw;
  } catch (const error&) {
    // The exception that is on its way says more.
  }
}

}  // namespace millstream::python
