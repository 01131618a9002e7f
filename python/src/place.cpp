// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>

#include <millstream/place.hpp>

#include "bind.hpp"
#include "convert.hpp"
#include "errors.hpp"
#include "machine.hpp"
#include "memory.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

int to_device(nb::handle number) {
  const std::int64_t index = to_integer(number, "dev_id");
  if (index < 0 || index > 0x7fff) {
    throw binding_error(
        errc::invalid_value,
        "device " + std::to_string(index) + " does not exist; devices are counted from 0", {},
        "InvalidPlaceError");
  }
  return static_cast<int>(index);
}

int current_device() {
  return find_machine({})->opened().current_device();
}

const char* kind_of(exec_place place) {
  return place.what() == exec_place::kind::host ? "host" : "device";
}

std::string kind_of(data_place place) {
  switch (place.what()) {
    case data_place::kind::host: return "host";
    case data_place::kind::managed: return "managed";
    case data_place::kind::affine: return "affine";
    case data_place::kind::device: break;
  }
  return "dev" + std::to_string(place.index());
}

std::string repr_of(exec_place place) {
  if (place.what() == exec_place::kind::host) return "exec_place.host()";
  return "exec_place.device(" + std::to_string(place.index()) + ")";
}

std::string repr_of(data_place place) {
  if (place.what() == data_place::kind::device) {
    return "data_place.device(" + std::to_string(place.index()) + ")";
  }
  return "data_place." + kind_of(place) + "()";
}

data_place affine_of(exec_place place) {
  return place.what() == exec_place::kind::host ? data_place::host()
                                                : data_place::device(place.index());
}

// A place is a value, and so are its copies: `type.maker()`, `type.device(number)`.
nb::object made_by(nb::handle type, const std::string& maker, int device) {
  static constinit lazy_name methodcaller("operator", "methodcaller");
  const nb::object call =
      device < 0 ? methodcaller.get()(maker) : methodcaller.get()("device", device);
  return nb::make_tuple(call, nb::make_tuple(type));
}

template <class Place>
nb::object reduce(Place place) {
  return made_by(nb::type<Place>(), kind_of(place), place.index());
}

exec_place member(exec_place place, nb::handle index) {
  if (to_integer(index, "index") != 0) {
    throw error(errc::out_of_range, repr_of(place) + " has one member; its index is 0");
  }
  return place;
}

void bind_exec_place(nb::module_& core) {
  nb::class_<exec_place>(core, "exec_place",
                         "Where a task runs: a small value that the machine of the context "
                         "resolves. Make one with `host` or `device`.")
      .def_static("host", &exec_place::host,
                  "On the host: the body runs on a worker thread of Millstream, or inside the "
                  "`with` block.")
      .def_static(
          "device", [](nb::handle number) { return exec_place::device(to_device(number)); },
          "dev_id"_a, nb::sig("def device(dev_id: int) -> exec_place"),
          "On device `dev_id`, counted from 0. InvalidPlaceError for a negative number; a number "
          "that the machine lacks is a ValueError when the task starts.")
      .def_static(
          "current_device", [] { return exec_place::device(current_device()); },
          "On the device that is current in this thread now, on the default machine; device 0 of "
          "a host machine.")
      .def_prop_ro(
          "kind", [](exec_place place) { return kind_of(place); },
          "``\"host\"`` or ``\"device\"``.")
      .def_prop_ro(
          "dims", [](exec_place) { return nb::make_tuple(1); },
          nb::sig("def dims(self) -> tuple[int, ...]"), "Extents of the place as a grid; ``(1,)``.")
      .def_prop_ro(
          "size", [](exec_place) { return 1; }, "Number of members; 1.")
      .def_prop_ro("affine_data_place", &affine_of, "The memory nearest to this place.")
      .def("get_place", &member, "index"_a,
           nb::sig("def get_place(self, index: int) -> exec_place"),
           "Member `index`; IndexError for any index but 0.")
      .def("__getitem__", &member, "index"_a,
           nb::sig("def __getitem__(self, index: int) -> exec_place"),
           "Member `index`; IndexError for any index but 0.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__",
           [](exec_place place) { return static_cast<int>(place.what()) * 65536 + place.index(); })
      .def("__reduce__", &reduce<exec_place>, nb::sig("def __reduce__(self) -> tuple[object, ...]"),
           "Copies and pickles are equal places.")
      .def("__repr__", [](exec_place place) { return repr_of(place); });
}

void bind_data_place(nb::module_& core) {
  nb::class_<data_place>(core, "data_place",
                         "Where a copy of a datum is kept: a small value that the machine of the "
                         "context resolves. Make one with `host`, `device`, `managed`, `affine`.")
      .def_static("host", &data_place::host, "Host memory.")
      .def_static("managed", &data_place::managed,
                  "Memory that host and devices both address; UnsupportedError when a task starts "
                  "on a machine that has none.")
      .def_static("affine", &data_place::affine,
                  "The memory nearest to where the task runs; the default of a dependency.")
      .def_static(
          "device", [](nb::handle number) { return data_place::device(to_device(number)); },
          "dev_id"_a, nb::sig("def device(dev_id: int) -> data_place"),
          "Memory of device `dev_id`, counted from 0. InvalidPlaceError for a negative number.")
      .def_static(
          "current_device", [] { return data_place::device(current_device()); },
          "Memory of the device that is current in this thread now, on the default machine.")
      .def_prop_ro(
          "kind", [](data_place place) { return kind_of(place); },
          "``\"host\"``, ``\"managed\"``, ``\"affine\"`` or ``\"dev<i>\"``.")
      .def_prop_ro("device_id", &data_place::index,
                   "Device number; -1 host, -2 managed, -3 affine.")
      .def("allocate", &allocate_at, "nbytes"_a, "stream"_a = nb::none(),
           nb::sig("def allocate(self, nbytes: int, stream: object = None) -> int"),
           "Address of `nbytes` bytes of this memory on the default machine (page-locked for the "
           "host), aligned to 256; 0 for none. Ready for work queued on `stream` from now on; None "
           "is the default stream. MemoryError where there is no room and for `affine`, ValueError "
           "for a negative size and a device that is not there.")
      .def("deallocate", &deallocate_at, "ptr"_a, "nbytes"_a, "stream"_a = nb::none(),
           nb::sig("def deallocate(self, ptr: int, nbytes: int, stream: object = None) -> None"),
           "Gives back what `allocate` gave, behind what is queued on `stream` now. "
           "DeviceError where the driver refuses.")
      .def_prop_ro(
          "allocation_is_stream_ordered",
          [](data_place place) { return place.what() == data_place::kind::device; },
          "True for devices: `allocate` and `deallocate` wait for nothing.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](data_place place) { return place.index() + 4; })
      .def("__reduce__", &reduce<data_place>, nb::sig("def __reduce__(self) -> tuple[object, ...]"),
           "Copies and pickles are equal places.")
      .def("__repr__", [](data_place place) { return repr_of(place); });
}

}  // namespace

void bind_place(nb::module_& core) {
  bind_data_place(core);
  bind_exec_place(core);
}

}  // namespace millstream::python
