// SPDX-License-Identifier: Apache-2.0
#include "future.hpp"

#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include "bind.hpp"
#include "caller.hpp"
#include "numpy.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

/// What has to end before the future is done.
struct py_ticket {
  std::shared_ptr<context_state> state;
  notice_ticket core;

  void check() const {
    if (state->is_of_this_process()) return;
    throw error(errc::unavailable,
                "a future of the parent process never completes in a forked child; "
                "start the child with the 'spawn' method");
  }
};

/// A thread that waits for a future.
struct py_wait {
  notice_ticket core;
  std::unique_ptr<notice_wait> entered;
};

/// What a future was asked for.
struct request {
  bool all = false;
  std::string name;  ///< of the datum
  source_site site;
};

class future_notice final : public notice {
 public:
  future_notice(std::shared_ptr<context_state> state, nb::object future, nb::object value,
                request what)
      : state_(std::move(state)),
        future_(std::move(future)),
        value_(std::move(value)),
        what_(std::move(what)) {}

  void ended(const notice_outcome& how) noexcept override {
    const interpreter_lock lock;
    if (!lock) return;
    try {
      finish(how);
    } catch (nb::python_error& raised) {
      raised.discard_as_unraisable("a future of millstream");
    } catch (const std::exception&) {
      // There is no room left to say it.
    }
    future_ = {};
    value_ = {};
  }

 private:
  void finish(const notice_outcome& how) {
    const std::vector<failure> failures = unseen(how);
    nb::object raised = nb::none();
    nb::object on_seen = nb::none();
    if (!failures.empty()) {
      raised = combine(failures);
      on_seen = make_on_seen(failures);
    } else if (how.why != nullptr) {
      raised = to_python(how.why, {{}, what_.name, what_.site});
    }
    const nb::object call = nb::getattr(future_.get(), "_finish");
    PyObject* arguments[] = {value_.get().ptr(), raised.ptr(), on_seen.ptr()};
    PyObject* const done = call_or_park(call, arguments, 3);
    if (done == nullptr) throw nb::python_error();
    Py_DECREF(done);
  }

  [[nodiscard]] std::vector<failure> unseen(const notice_outcome& how) const {
    if (how.why != nullptr && how.failed_task == 0) return {};
    if (what_.all) return state_->core.look_at_failures({0, how.last_task});
    if (how.failed_task == 0) return {};
    return state_->core.look_at_failures({how.failed_task, how.failed_task});
  }

  [[nodiscard]] nb::object make_on_seen(const std::vector<failure>& failures) const {
    std::vector<std::uint64_t> tasks;
    for (const failure& each : failures)
      tasks.push_back(each.task_id);
    return nb::cpp_function(
        [state = state_, tasks = std::move(tasks)] { state->core.mark_failures_seen(tasks); });
  }

  std::shared_ptr<context_state> state_;
  py_ref future_;
  py_ref value_;
  request what_;
};

nb::object make_future(const std::string& what) {
  static constinit lazy_name type("millstream._future", "Future");
  return type.get()(what);
}

std::unique_ptr<notice> make_notice(const std::shared_ptr<context_state>& state,
                                    const nb::object& future, const nb::object& value,
                                    const request& what) {
  return std::make_unique<future_notice>(state, future, value, what);
}

void set_ticket(const nb::object& future, const std::shared_ptr<context_state>& state,
                notice_ticket ticket) {
  future.attr("_ticket") = nb::cast(py_ticket{state, std::move(ticket)});
}

// Null before anything has written it: then the engine refuses, and nobody needs the memory.
nb::object array_for(const py_data& data) {
  if (!data.what || !data.data.is_written()) return nb::none();
  nb::object made = new_array(*data.what);
  if (made.is_valid()) return made;
  throw error(errc::out_of_memory, "get() has no memory for a copy of " + name_of(data.data) +
                                       " with " + std::to_string(data.what->bytes) +
                                       " bytes; free some, or use the data in a task");
}

}  // namespace

nb::object future_of_all(const std::shared_ptr<context_state>& state) {
  const source_site site = caller_site();
  nb::object future = make_future("done()");
  with_details([&] { return error_details{{}, {}, site}; },
               [&] {
                 const may_block section;
                 set_ticket(
                     future, state,
                     state->core.notify(make_notice(state, future, nb::none(), {true, {}, site})));
               });
  return future;
}

nb::object future_of_content(const py_data& data) {
  const source_site site = caller_site();
  const std::string name = name_of(data.data);
  nb::object future = make_future("get() of " + name);
  with_details(
      [&] { return error_details{{}, name, site}; },
      [&] {
        const nb::object array = array_for(data);
        void* const to = array.is_none() ? nullptr : address_of(array);
        const may_block section;
        set_ticket(future, data.state,
                   data.state->core.fetch(
                       data.data, to, make_notice(data.state, future, array, {false, name, site})));
      });
  return future;
}

void bind_future(nb::module_& core) {
  nb::class_<py_wait>(core, "future_wait", "Entered by a thread that waits for a future.")
      .def(
          "__enter__",
          [](py_wait& self) { self.entered = std::make_unique<notice_wait>(self.core); },
          nb::lock_self(), "DeadlockError if the wait would never end.")
      .def(
          "__exit__", [](py_wait& self, const nb::args&) { self.entered.reset(); }, nb::lock_self(),
          nb::sig("def __exit__(self, *_: object) -> None"), "The wait is over.");
  nb::class_<py_ticket>(core, "future_ticket", "What has to end before a future is done.")
      .def("check", &py_ticket::check, "UnavailableError in a forked child.")
      .def(
          "blocked", [](const py_ticket& self) { return py_wait{self.core, nullptr}; },
          "For the time of a wait.");
}

}  // namespace millstream::python
