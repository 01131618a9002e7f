// SPDX-License-Identifier: Apache-2.0
#include "errors.hpp"

#include <array>

#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "caller.hpp"

namespace millstream::python {
namespace {

struct class_row {
  errc code;
  const char* name;
};
// Classes of `millstream/_errors.py`.
constexpr std::array classes{
    class_row{errc::usage, "UsageError"},
    class_row{errc::invalid_value, "InvalidValueError"},
    class_row{errc::invalid_type, "InvalidTypeError"},
    class_row{errc::out_of_range, "OutOfRangeError"},
    class_row{errc::out_of_memory, "OutOfMemoryError"},
    class_row{errc::not_written, "NotWrittenError"},
    class_row{errc::poisoned, "PoisonedError"},
    class_row{errc::task_failed, "TaskFailedError"},
    class_row{errc::deadlock, "DeadlockError"},
    class_row{errc::device, "DeviceError"},
    class_row{errc::device_lost, "DeviceLostError"},
    class_row{errc::unsupported, "UnsupportedError"},
    class_row{errc::unavailable, "UnavailableError"},
    class_row{errc::not_implemented, "UnimplementedError"},
    class_row{errc::internal, "InternalError"},
};

const char* class_of(errc code) {
  for (const class_row& row : classes) {
    if (row.code == code) return row.name;
  }
  return "InternalError";
}

nb::object none_if_empty(const std::string& text) {
  if (text.empty()) return nb::none();
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

nb::object decode(const char* text) {
  return nb::steal(PyUnicode_DecodeUTF8(
      text, static_cast<Py_ssize_t>(std::string_view(text).size()), "backslashreplace"));
}

// The engine writes "task 'x'", or "task 12" where there is no name; the attribute is "x".
std::string bare_name(const std::string& task) {
  const std::size_t from = task.find('\'');
  if (from == std::string::npos || task.back() != '\'' || from + 1 == task.size()) return task;
  return task.substr(from + 1, task.size() - from - 2);
}

nb::object make_exception(const char* name, const char* text, const error_details& details) {
  nb::object made = nb::module_::import_("millstream._errors").attr(name)(decode(text));
  made.attr("task") = none_if_empty(bare_name(details.task));
  made.attr("data") = none_if_empty(details.data);
  if (details.site.file != nullptr) {
    made.attr("file") = decode(details.site.file);
    made.attr("line") = details.site.line;
  }
  return made;
}

// Never null, so that a dropped object is seen as "no cause known any more".
nb::object value_of(const python_exception& what) {
  nb::object value = what.shared()->value();
  return value.is_valid() ? value : make_exception("TaskFailedError", what.what(), {});
}

nb::object from_error(const error& what, const error_details& details) {
  if (what.code() == errc::interrupted) {
    return nb::handle(PyExc_KeyboardInterrupt)(decode(what.what()));
  }
  const auto* detailed = dynamic_cast<const binding_error*>(&what);
  const bool named = detailed != nullptr && detailed->python_class != nullptr;
  error_details known = detailed != nullptr ? detailed->details : details;
  if (known.site.file == nullptr) known.site = details.site;
  if (known.data.empty()) known.data = what.data();
  nb::object made =
      make_exception(named ? detailed->python_class : class_of(what.code()), what.what(), known);
  const auto* nested = dynamic_cast<const std::nested_exception*>(&what);
  if (nested != nullptr && nested->nested_ptr()) {
    const nb::object cause = to_python(nested->nested_ptr(), {});
    PyException_SetCause(made.ptr(), Py_NewRef(cause.ptr()));
  }
  return made;
}

void set_pending(const nb::object& exception) noexcept {
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
}

void translate(const std::exception_ptr& what, void*) {
  try {
    std::rethrow_exception(what);
  } catch (const error& known) {
    // The handler of the signal has left its exception.
    if (known.code() == errc::interrupted && PyErr_Occurred()) return;
    set_pending(from_error(known, {{}, {}, caller_site()}));
  } catch (const python_exception& user) {
    set_pending(value_of(user));
  }
}

std::string note_of(const failure& what) {
  std::string text = "millstream: " + what.task;
  if (what.site.file != nullptr) {
    text += std::string(" (") + what.site.file + ":" + std::to_string(what.site.line) + ")";
  }
  text += " failed";
  if (!what.data.empty()) text += "; it was to write " + what.data;
  if (what.captured) {
    text +=
        "; its body ran while it was recorded: calls that cannot be recorded belong before the "
        "recording, or into a context without use_graph";
  }
  if (what.skipped > 0) {
    text += "; " + std::to_string(what.skipped) +
            (what.skipped == 1 ? " task was" : " tasks were") + " skipped because of it";
  }
  return text;
}

// "ValueError: boom"
std::string text_of(nb::handle exception) {
  std::string shown = nb::cast<std::string>(exception.type().attr("__name__"));
  try {
    const std::string text = nb::cast<std::string>(nb::str(exception));
    if (!text.empty()) shown += ": " + text;
  } catch (...) {
    PyErr_Clear();
    shown += " (its text cannot be had)";
  }
  return shown;
}

std::uint64_t list_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const python_exception& user) {
    return user.shared()->list;
  } catch (...) {
    return 0;
  }
}

}  // namespace

nb::object python_exception::state::value() const noexcept {
  const short_guard held(lock_);
  return nb::borrow(value_.get());
}

void python_exception::state::drop() noexcept {
  py_ref gone;
  const short_guard held(lock_);
  std::swap(value_, gone);
}

python_exception::python_exception(nb::object value) {
  std::string text = text_of(value);
  state_ = std::make_shared<state>(std::move(value), std::move(text));
}

python_exception python_exception::fetch() {
  const nb::python_error pending;
  return python_exception(nb::borrow(pending.value()));
}

nb::object to_python(const std::exception_ptr& what, const error_details& details) {
  if (!what) return make_exception("TaskFailedError", "the task failed", details);
  try {
    std::rethrow_exception(what);
  } catch (const python_exception& user) {
    return value_of(user);
  } catch (const error& known) {
    return from_error(known, details);
  } catch (const std::bad_alloc&) {
    return make_exception("OutOfMemoryError", "the process has no memory left", details);
  } catch (const std::exception& other) {
    return make_exception("TaskFailedError", other.what(), details);
  } catch (...) {
    return make_exception("TaskFailedError", "the task failed", details);
  }
}

nb::object combine(const std::vector<failure>& failures) {
  if (failures.empty()) return {};
  nb::list found;
  for (const failure& each : failures) {
    const nb::object exception = to_python(each.cause, {each.task, each.data, each.site});
    found.append(nb::make_tuple(exception, decode(note_of(each).c_str())));
  }
  return nb::module_::import_("millstream._errors").attr("_combine")(found);
}

nb::object take_failure_of(untyped_context& in, std::uint64_t list) {
  for (const failure& each : in.look_at_failures({})) {
    if (list_of(each.cause) != list) continue;
    in.mark_failures_seen({each.task_id});
    return combine({each});
  }
  return {};
}

void throw_instead_of(nb::python_error& raised, const std::string& text) {
  if (raised.matches(PyExc_OverflowError))
    throw binding_error(errc::invalid_value, text, {}, "NumberRangeError");
  if (raised.matches(PyExc_ValueError)) throw error(errc::invalid_value, text);
  if (raised.matches(PyExc_TypeError)) throw error(errc::invalid_type, text);
  throw;
}

void set_python_error(const std::exception_ptr& what) noexcept {
  try {
    translate(what, nullptr);
  } catch (nb::python_error& raised) {
    raised.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& other) {
    PyErr_SetString(PyExc_RuntimeError, other.what());
  }
}

void throw_python(const nb::object& exception) {
  set_pending(exception);
  throw nb::python_error();
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator(&translate);
}

}  // namespace millstream::python
