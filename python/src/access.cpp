// SPDX-License-Identifier: Apache-2.0
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "convert.hpp"
#include "data.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

std::string got(nb::handle what) {
  std::string text = "of type " + class_name(what);
  return as<py_data>(what) != nullptr ? text + ", which says nothing about access" : text;
}

access_mode to_mode(nb::handle what) {
  const std::int64_t bits = to_integer(what, "mode");
  if (bits < 0 || bits > 3) {
    throw error(errc::invalid_value, "mode " + std::to_string(bits) +
                                         " is no access mode; use AccessMode.READ, WRITE or RW");
  }
  return static_cast<access_mode>(bits);
}

py_dep make_dep(nb::handle ld, access_mode mode, nb::handle place) {
  return {nb::borrow(ld), mode, unless_none(place)};
}

template <access_mode Mode>
py_dep free_dep(nb::handle ld, nb::handle place) {
  return make_dep(ld, Mode, place);
}

nb::object place_of(const py_dep& dep) {
  return dep.place.is_valid() ? dep.place : nb::none();
}

std::string repr_of(const py_dep& dep) {
  return std::string("dep(") + nb::repr(dep.ld).c_str() + ", " + to_string(dep.mode) + ", " +
         nb::repr(place_of(dep)).c_str() + ")";
}

nb::object mode_of(const py_dep& dep) {
  static constinit lazy_name type("millstream._access", "AccessMode");
  return type.get()(static_cast<int>(dep.mode));
}

nb::object reduce(const py_dep& dep) {
  return nb::make_tuple(nb::type<py_dep>(),
                        nb::make_tuple(dep.ld, static_cast<int>(dep.mode), place_of(dep)));
}

nb::object iterate(const py_dep& dep) {
  return nb::iter(nb::make_tuple(dep.ld, mode_of(dep), place_of(dep)));
}

void bind_dep(nb::module_& core) {
  nb::class_<py_dep>(core, "dep", nb::pooled(),
                     "One access of a task to a datum. `data.read()`, `data.write()` and "
                     "`data.rw()` make it.")
      .def(
          "__init__",
          [](py_dep* self, nb::handle ld, nb::handle mode, nb::handle place) {
            new (self) py_dep(make_dep(ld, to_mode(mode), place));
          },
          "ld"_a.none(), "mode"_a, "dplace"_a = nb::none(),
          nb::sig("def __init__(self, ld: logical_data, mode: int, "
                  "dplace: data_place | None = None) -> None"),
          "`ld` and `dplace` are checked when a task takes the dep.")
      .def_ro("ld", &py_dep::ld, nb::sig("def ld(self) -> logical_data"), "The datum.")
      .def_prop_ro("mode", &mode_of, nb::sig("def mode(self) -> millstream.AccessMode"),
                   "What the task does with it.")
      .def_prop_ro("dplace", &place_of, nb::sig("def dplace(self) -> data_place | None"),
                   "Where the copy is wanted; None is near to where the task runs.")
      .def(
          "get_ld", [](const py_dep& self) { return self.ld; },
          nb::sig("def get_ld(self) -> logical_data"), "The datum.")
      .def("__iter__", &iterate, nb::sig("def __iter__(self) -> collections.abc.Iterator[object]"),
           "Yields `ld`, `mode`, `dplace`.")
      .def("__reduce__", &reduce, nb::sig("def __reduce__(self) -> tuple[object, ...]"),
           "A copy is an access to the same datum; TypeError for `deepcopy` and pickles, because "
           "data are not copied.")
      .def("__repr__", &repr_of);
}

[[noreturn]] void refuse(const dep_user& user, errc code, const std::string& how,
                         const py_data* data = nullptr) {
  const std::string task(user.symbol);
  std::string who = task.empty() ? user.who : "task '" + task + "'";
  if (user.site.file != nullptr) {
    who += std::string(" (") + user.site.file + ":" + std::to_string(user.site.line) + ")";
  }
  throw binding_error(code, who + how,
                      {task, data == nullptr ? std::string() : name_of(data->data), user.site});
}

}  // namespace

task_dep to_task_dep(const context_state& state, nb::handle dep, const dep_user& user) {
  const auto* access = as<py_dep>(dep);
  if (access == nullptr) {
    refuse(user, errc::invalid_type,
           " got an argument " + got(dep) + "; pass accesses such as data.read() or data.rw()");
  }
  return to_task_dep(state, *access, user);
}

task_dep to_task_dep(const context_state& state, const py_dep& access, const dep_user& user) {
  const auto* data = as<py_data>(access.ld);
  if (data == nullptr) {
    refuse(user, errc::invalid_type,
           " got an access to an object of type " + class_name(access.ld) +
               "; it must be a logical_data");
  }
  if (data->state.get() != &state) {
    refuse(user, errc::invalid_value,
           " uses " + name_of(data->data) +
               ", which belongs to a different context; register it with this context",
           data);
  }
  if (access.mode == access_mode::none) {
    refuse(user, errc::invalid_value,
           " uses " + name_of(data->data) + " with access AccessMode.NONE; use READ, WRITE or RW",
           data);
  }
  if (writes(access.mode) && data->data.is_readonly()) {
    refuse(user, errc::invalid_value,
           " writes " + name_of(data->data) +
               ", which is read-only and cannot be written; use read(), or register a writable "
               "copy",
           data);
  }
  const data_place place =
      access.place.is_valid() ? to_data_place(access.place, "dplace", data_place{}) : data_place{};
  return {data->data, access.mode, place, user.site};
}

void bind_access(nb::module_& core) {
  bind_dep(core);
  core.def("read", &free_dep<access_mode::read>, "ld"_a.none(), "dplace"_a = nb::none(),
           nb::sig("def read(ld: logical_data, dplace: data_place | None = None) -> dep"),
           "Read access to `ld`; checked when a task takes it.");
  core.def("write", &free_dep<access_mode::write>, "ld"_a.none(), "dplace"_a = nb::none(),
           nb::sig("def write(ld: logical_data, dplace: data_place | None = None) -> dep"),
           "Write access to `ld`, which overwrites all of it; checked when a task takes it.");
  core.def("rw", &free_dep<access_mode::rw>, "ld"_a.none(), "dplace"_a = nb::none(),
           nb::sig("def rw(ld: logical_data, dplace: data_place | None = None) -> dep"),
           "Read and write access to `ld`; checked when a task takes it.");
}

}  // namespace millstream::python
