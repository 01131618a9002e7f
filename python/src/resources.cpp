// SPDX-License-Identifier: Apache-2.0
#include "resources.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "convert.hpp"
#include "errors.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

std::string repr_of(const py_resources& self) {
  char text[40];
  std::snprintf(text, sizeof text, "async_resources(%#zx)",
                reinterpret_cast<std::uintptr_t>(&self));
  return text;
}

/// What has no opinion, because it raised or Python is gone, is kept, as without a policy.
bool may_keep(nb::handle policy, const executable_info& what) {
  const interpreter_lock lock;
  if (!lock) return true;
  const nb::error_scope keep_pending;
  const nb::object called = nb::borrow(policy);  // it may be replaced meanwhile
  try {
    const nb::object said = call_python(called, nb::int_(what.nodes), nb::int_(what.bytes));
    const int truth = truth_or_park(said);
    if (truth < 0) throw nb::python_error();
    return truth != 0;
  } catch (nb::python_error& raised) {
    raised.discard_as_unraisable(called);
    return true;
  }
}

// A policy that leads back to its resources is garbage with them. Contexts that still use these
// hold the object, and so does a call of the policy on its way hold that.
int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  Py_VISIT(nb::inst_ptr<py_resources>(self)->policy_for_collector().ptr());
  return 0;
}

int clear(PyObject* self) noexcept {
  if (nb::inst_ready(self)) nb::inst_ptr<py_resources>(self)->set_policy(nb::none());
  return 0;
}

const std::array<PyType_Slot, 3> collector_slots{{
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {0, nullptr},
}};

}  // namespace

void py_resources::set_policy(nb::handle policy) {
  if (!policy.is_none() && PyCallable_Check(policy.ptr()) == 0) {
    throw error(errc::invalid_type, "'policy' is of type " + class_name(policy) +
                                        "; pass a callable, or None to keep all");
  }
  std::shared_ptr<py_ref> next;
  std::function<bool(const executable_info&)> keep;
  if (!policy.is_none()) {
    next = std::make_shared<py_ref>(nb::borrow(policy));
    keep = [next](const executable_info& what) { return may_keep(next->get(), what); };
  }
  shared.set_policy(std::move(keep));
  const short_guard hold(lock_);
  policy_.swap(next);
}

nb::object py_resources::policy() const noexcept {
  const short_guard hold(lock_);
  return policy_ == nullptr ? nb::object() : nb::borrow(policy_->get());
}

nb::handle py_resources::policy_for_collector() const noexcept {
  return policy_ == nullptr ? nb::handle() : policy_->get();
}

nb::object to_resources(nb::handle handle) {
  if (handle.is_none() || as<py_resources>(handle) != nullptr) return nb::borrow(handle);
  throw error(errc::invalid_type, "'handle' is of type " + class_name(handle) +
                                      "; pass an async_resources(), or leave it out");
}

void bind_resources(nb::module_& core) {
  nb::class_<py_resources>(
      core, "async_resources", nb::is_weak_referenceable(), nb::type_slots(collector_slots.data()),
      "What contexts that get it as `handle` share: the streams of their "
      "machine, and the executable graphs of those that record. A context that "
      "ends leaves them, with what is queued, to the next one, so that opening "
      "one costs no calls of the driver, and a shape that one of them recorded "
      "is no new instantiation in another. Contexts keep it alive; any number "
      "may use it at a time, on any threads.")
      .def(
          "__init__",
          [](py_resources* self, nb::handle limit_bytes, nb::handle policy) {
            auto* const made = new (self) py_resources(to_index(limit_bytes, "limit_bytes"));
            try {
              made->set_policy(policy);
            } catch (...) {
              made->~py_resources();
              throw;
            }
          },
          nb::kw_only(), "limit_bytes"_a.none() = std::size_t{256} << 20U, "policy"_a = nb::none(),
          nb::sig("def __init__(self, *, limit_bytes: int = 268435456, "
                  "policy: collections.abc.Callable[[int, int], bool] | None = None) -> None"),
          "Nothing is made before a context needs it. `limit_bytes`: executable graphs that nobody "
          "uses are kept up to that many bytes (estimated), the one not used for longest goes "
          "first; 0 keeps none. TypeError for no integer, ValueError for a negative one. `policy`: "
          "as the property.")
      .def_prop_rw(
          "policy",
          [](const py_resources& self) {
            nb::object now = self.policy();
            return now.is_valid() ? now : nb::none();
          },
          [](py_resources& self, nb::handle policy) { self.set_policy(policy); },
          nb::for_getter(
              nb::sig("def policy(self) -> collections.abc.Callable[[int, int], bool] | None")),
          nb::for_setter(nb::arg().none()),
          nb::for_setter(nb::sig("def policy(self, policy: collections.abc.Callable[[int, int], "
                                 "bool] | None, /) -> None")),
          "Says which executable graphs are kept; None keeps all, within `limit_bytes`. Called as "
          "`policy(nodes, nbytes)` for each executable after each of its launches, with the number "
          "of its nodes and an estimate of its memory in bytes; what is false is dropped, and a "
          "launch on its way goes on. It runs in the thread whose call launched (`fence`, `wait`, "
          "`finalize`, ...), before that call returns and without any lock of millstream, so it "
          "may "
          "use millstream, that context too. What it raises goes to `sys.unraisablehook`, and the "
          "executable is kept. TypeError for what is neither callable nor None.")
      .def_prop_ro(
          "executables", [](const py_resources& self) { return self.shared.executables(); },
          nb::sig("def executables(self) -> int"),
          "Executable graphs that are kept now and used by nobody.")
      .def_prop_ro(
          "executable_bytes", [](const py_resources& self) { return self.shared.bytes(); },
          nb::sig("def executable_bytes(self) -> int"), "An estimate of their memory, in bytes.")
      .def("__repr__", [](const py_resources& self) { return repr_of(self); });
}

}  // namespace millstream::python
