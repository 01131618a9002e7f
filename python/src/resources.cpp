// SPDX-License-Identifier: Apache-2.0
#include "resources.hpp"

#include <cstdint>
#include <cstdio>
#include <string>

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

}  // namespace

nb::object to_resources(nb::handle handle) {
  if (handle.is_none() || as<py_resources>(handle) != nullptr) return nb::borrow(handle);
  throw error(errc::invalid_type, "'handle' is of type " + class_name(handle) +
                                      "; pass an async_resources(), or leave it out");
}

void bind_resources(nb::module_& core) {
  nb::class_<py_resources>(
      core, "async_resources", nb::is_weak_referenceable(),
      "What contexts that get it as `handle` share: the streams of their "
      "machine, and the executable graphs of those that record. A context that "
      "ends leaves them, with what is queued, to the next one, so that opening "
      "one costs no calls of the driver, and a shape that one of them recorded "
      "is no new instantiation in another. Contexts keep it alive; any number "
      "may use it at a time, on any threads.")
      .def(
          "__init__",
          [](py_resources* self, nb::handle limit_bytes) {
            const std::size_t limit = to_index(limit_bytes, "limit_bytes");
            new (self) py_resources{shared_resources(limit)};
          },
          nb::kw_only(), "limit_bytes"_a.none() = std::size_t{256} << 20U,
          nb::sig("def __init__(self, *, limit_bytes: int = 268435456) -> None"),
          "Nothing is made before a context needs it. `limit_bytes`: executable graphs that nobody "
          "uses are kept up to that many bytes (estimated), the one not used for longest goes "
          "first; 0 keeps none. TypeError for no integer, ValueError for a negative one.")
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
