// SPDX-License-Identifier: Apache-2.0
#include "direct.hpp"

#include <cxxabi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <exception>
#include <string_view>
#include <utility>
#include <vector>

#include "bind.hpp"
#include "errors.hpp"
#include "locks.hpp"

// After Python.h.
#include <structmember.h>

namespace millstream::python {
namespace {

// Stands in the class for the method of nanobind's, which it asks for everything but plain calls.
struct direct_method {
  PyObject_HEAD vectorcallfunc vectorcall;
  direct_call call;
  PyObject* method;   // nanobind's
  PyObject* special;  // of what binds it to an instance; null = nanobind does
};

// A special method and its instance: the interpreter binds these to call them once.
struct bound_special {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* method;  // a direct_method
  PyObject* instance;
};

direct_method& self_of(PyObject* self) noexcept {
  return *reinterpret_cast<direct_method*>(self);
}

bound_special& bound_of(PyObject* self) noexcept {
  return *reinterpret_cast<bound_special*>(self);
}

// How many there are by position. Python's own is a call in the stable ABI.
constexpr std::size_t position_count(std::size_t count) noexcept {
  return count & ~PY_VECTORCALL_ARGUMENTS_OFFSET;
}

// Null and a pending exception if it threw; null and none if it declined.
PyObject* call_or_set_error(direct_call call, call_arguments given) noexcept {
  try {
    return call(given).release().ptr();
  } catch (abi::__forced_unwind&) {
    park();  // the interpreter ends this thread, in code of the user's
  } catch (nb::python_error& raised) {
    raised.restore();
  } catch (...) {
    set_python_error(std::current_exception());
  }
  return nullptr;
}

PyObject* call_method(PyObject* self, PyObject* const* arguments, std::size_t count,
                      PyObject* names) noexcept {
  const direct_method& method = self_of(self);
  if (names == nullptr) {
    PyObject* const result = call_or_set_error(method.call, {arguments, position_count(count)});
    if (result != nullptr || PyErr_Occurred() != nullptr) return result;
  }
  return PyObject_Vectorcall(method.method, arguments, count, names);
}

PyObject* get_attribute(PyObject* self, PyObject* name) noexcept {
  return PyObject_GetAttr(self_of(self).method, name);
}

PyObject* show(PyObject* self) noexcept {
  return PyObject_Repr(self_of(self).method);
}

// What nanobind's method gives for an instance, or for the class.
PyObject* bind_as_nanobind(PyObject* self, PyObject* instance, PyObject* type) noexcept {
  PyObject* const method = self_of(self).method;
  const auto get = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(method), Py_tp_descr_get));
  return get(method, instance, type);
}

// --- special methods

#if defined(Py_GIL_DISABLED)

// Nobody may use the memory of an object again while other threads may be looking at it.
bound_special* new_bound(PyTypeObject* type) noexcept {
  return PyObject_GC_New(bound_special, type);
}
void give_bound(PyObject* gone) noexcept {
  PyObject_GC_Del(gone);
}

#else

// The last ones that went, with room for those of nested blocks. Guarded by the interpreter lock.
std::array<PyObject*, 8> g_kept_bound;
std::size_t g_kept_bound_count = 0;

// Its fields are not set, and the collector does not know it yet.
bound_special* new_bound(PyTypeObject* type) noexcept {
  if (g_kept_bound_count == 0) return PyObject_GC_New(bound_special, type);
  return &bound_of(PyObject_Init(g_kept_bound[--g_kept_bound_count], type));
}
void give_bound(PyObject* gone) noexcept {
  if (g_kept_bound_count < g_kept_bound.size()) {
    g_kept_bound[g_kept_bound_count++] = gone;
  } else {
    PyObject_GC_Del(gone);
  }
}

#endif

// `call_bound` is below, as it makes one of nanobind's for calls that are not plain.
PyObject* call_bound(PyObject* self, PyObject* const* arguments, std::size_t count,
                     PyObject* names) noexcept;

PyObject* bind_to(PyObject* self, PyObject* instance, PyObject* type) noexcept {
  PyObject* const special = self_of(self).special;
  if (special == nullptr || instance == nullptr) return bind_as_nanobind(self, instance, type);
  bound_special* const made = new_bound(reinterpret_cast<PyTypeObject*>(special));
  if (made == nullptr) return nullptr;
  made->vectorcall = &call_bound;
  made->method = Py_NewRef(self);
  made->instance = Py_NewRef(instance);
  auto* const object = reinterpret_cast<PyObject*>(made);
  PyObject_GC_Track(object);
  return object;
}

// What nanobind would have given.
nb::object as_nanobind(const bound_special& bound) noexcept {
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(bound.instance));
  return nb::steal(bind_as_nanobind(bound.method, bound.instance, type));
}

// The interpreter passes nothing to `__enter__`, and to `__exit__` what has room before it.
PyObject* call_bound(PyObject* self, PyObject* const* arguments, std::size_t count,
                     PyObject* names) noexcept {
  bound_special& bound = bound_of(self);
  const std::size_t given = position_count(count);
  if (names == nullptr && given == 0) {
    return call_method(bound.method, &bound.instance, 1, nullptr);
  }
  const bool has_room = given != count;
  if (names == nullptr && has_room) {
    PyObject** const all = const_cast<PyObject**>(arguments) - 1;
    PyObject* const before = std::exchange(all[0], bound.instance);
    PyObject* const result = call_method(bound.method, all, given + 1, nullptr);
    all[0] = before;
    return result;
  }
  const nb::object other = as_nanobind(bound);
  if (!other.is_valid()) return nullptr;
  return PyObject_Vectorcall(other.ptr(), arguments, count, names);
}

PyObject* get_bound_attribute(PyObject* self, PyObject* name) noexcept {
  const nb::object other = as_nanobind(bound_of(self));
  return other.is_valid() ? PyObject_GetAttr(other.ptr(), name) : nullptr;
}

PyObject* show_bound(PyObject* self) noexcept {
  const nb::object other = as_nanobind(bound_of(self));
  return other.is_valid() ? PyObject_Repr(other.ptr()) : nullptr;
}

int traverse_bound(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(bound_of(self).method);
  Py_VISIT(bound_of(self).instance);
  return 0;
}

void drop_bound(PyObject* self) noexcept {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(self));
  PyObject_GC_UnTrack(self);
  PyObject* const method = bound_of(self).method;
  PyObject* const instance = bound_of(self).instance;
  give_bound(self);
  // These may run code of the user's.
  Py_XDECREF(method);
  Py_XDECREF(instance);
  Py_DECREF(type);
}

// --- types

void drop(PyObject* self) noexcept {
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(self));
  Py_XDECREF(self_of(self).method);
  Py_XDECREF(self_of(self).special);
  PyObject_Free(self);
  Py_DECREF(type);
}

PyMemberDef g_bound_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(bound_special, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot g_bound_slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_getattro, reinterpret_cast<void*>(&get_bound_attribute)},
    {Py_tp_repr, reinterpret_cast<void*>(&show_bound)},
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse_bound)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&drop_bound)},
    {Py_tp_members, g_bound_members},
    {0, nullptr},
};
PyType_Spec g_bound_spec = {
    "millstream._core.bound_special",
    sizeof(bound_special),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    g_bound_slots,
};

PyMemberDef g_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(direct_method, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};
PyType_Slot g_slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_getattro, reinterpret_cast<void*>(&get_attribute)},
    {Py_tp_repr, reinterpret_cast<void*>(&show)},
    {Py_tp_descr_get, reinterpret_cast<void*>(&bind_to)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&drop)},
    {Py_tp_members, g_members},
    {0, nullptr},
};
// The interpreter keeps what it finds in a class only where the type of that cannot change.
PyType_Spec g_spec = {
    "millstream._core.direct_method",
    sizeof(direct_method),
    0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_VECTORCALL |
        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    g_slots,
};

struct note {
  PyObject* type;  // there for as long as the note
  const char* name;
  direct_call call;
  nb::object method;  // kept, so that its address is that of no other
};
constinit short_lock g_notes_lock;
std::vector<note>& notes() {
  static auto& list = *new std::vector<note>;
  return list;
}
std::vector<note> take_notes() {
  const short_guard held(g_notes_lock);
  return std::exchange(notes(), {});
}

nb::object make_type(PyType_Spec& spec) {
  nb::object made = nb::steal(PyType_FromSpec(&spec));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

nb::object make_method(nb::handle type, nb::object method, direct_call call, nb::handle special) {
  auto* const made = PyObject_New(direct_method, reinterpret_cast<PyTypeObject*>(type.ptr()));
  if (made == nullptr) throw nb::python_error();
  made->vectorcall = &call_method;
  made->call = call;
  made->method = method.release().ptr();
  made->special = nb::borrow(special).release().ptr();
  return nb::steal(reinterpret_cast<PyObject*>(made));
}

bool is_special(std::string_view name) {
  return name.starts_with("__");
}

}  // namespace

void bind_direct(nb::module_& core) {
  static constinit std::atomic<unsigned> loads{0};
  loaded_module.set(++loads);
  core.attr("_classes") = nb::capsule(&loads, [](void*) noexcept {
    loaded_module.set(0);
    static_cast<void>(take_notes());
  });
}

void note_direct_call(nb::handle type, const char* name, direct_call call) {
  notes().push_back({type.ptr(), name, call, type.attr(name)});
}

void use_direct_calls() {
  const std::vector<note> list = take_notes();
  if (list.empty()) return;
  const nb::object type = make_type(g_spec);
  const nb::object bound = make_type(g_bound_spec);
  for (const note& each : list) {
    nb::object now = nb::getattr(each.type, each.name, nb::none());
    if (!now.is(each.method)) continue;
    const nb::handle special = is_special(each.name) ? nb::handle(bound) : nb::handle();
    nb::setattr(each.type, each.name, make_method(type, std::move(now), each.call, special));
  }
}

}  // namespace millstream::python
