// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <algorithm>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind.hpp"
#include "convert.hpp"
#include "errors.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

std::string to_machine_name(nb::handle name) {
  const std::string text(to_name(name, "name"));
  const std::vector<std::string> known = machine_names();
  if (!name.is_none() && std::find(known.begin(), known.end(), text) == known.end()) {
    throw error(errc::invalid_value,
                "machine '" + text + "' is unknown; choose among " + joined(known));
  }
  return text;
}

int to_device_count(nb::handle devices) {
  if (devices.is_none()) return 0;
  const std::int64_t count = to_integer(devices, "devices");
  if (count < 1 || count > most_devices) {
    throw error(errc::invalid_value, "a machine cannot have " + std::to_string(count) +
                                         " devices; choose 1 to " + std::to_string(most_devices) +
                                         ", or leave the number out for the default");
  }
  return static_cast<int>(count);
}

std::optional<std::uint64_t> to_seed(nb::handle seed) {
  if (seed.is_none()) return std::nullopt;
  const std::int64_t number = to_integer(seed, "seed");
  if (number < 0) {
    throw error(errc::invalid_value,
                "seed " + std::to_string(number) + " is negative; pass an integer from 0, or None");
  }
  return static_cast<std::uint64_t>(number);
}

std::shared_ptr<py_machine> make_machine(nb::handle name, nb::handle devices, nb::handle seed) {
  return find_machine({to_machine_name(name), to_device_count(devices), to_seed(seed)});
}

nb::dict call_counts(py_machine& self) {
  nb::dict counts;
  for (const auto& [name, count] : self.opened().call_counts())
    counts[name.c_str()] = count;
  return counts;
}

// One object per process, so a copy is the machine itself.
nb::object reduce_machine(const py_machine& self) {
  static constinit lazy_name partial("functools", "partial");
  const machine_options& options = self.options();
  const nb::object name =
      options.name.empty() ? nb::none() : nb::object(nb::str(options.name.c_str()));
  const nb::object devices = options.devices == 0 ? nb::none() : nb::cast(options.devices);
  const nb::object seed = options.seed ? nb::cast(*options.seed) : nb::none();
  return nb::make_tuple(
      partial.get()(nb::type<py_machine>(), name, "devices"_a = devices, "seed"_a = seed),
      nb::tuple());
}

void synchronize_stream(nb::handle stream) {
  const std::uint64_t number = to_stream(stream);
  const may_block section;
  synchronize(number);
}

}  // namespace

const machine& py_machine::opened() {
  if (!is_open_.get()) {
    const short_guard held(opening_);
    if (!is_open_.get()) opened_.emplace(options_);
    is_open_.set(true);
  }
  return *opened_;
}

std::string py_machine::repr() const {
  std::string text = "machine(";
  text += options_.name.empty() ? "None" : "'" + options_.name + "'";
  if (options_.devices > 0) text += ", devices=" + std::to_string(options_.devices);
  if (options_.seed) text += ", seed=" + std::to_string(*options_.seed);
  return text + ")";
}

std::shared_ptr<py_machine> find_machine(const machine_options& options) {
  static auto& known = *new std::vector<std::shared_ptr<py_machine>>;
  static constinit short_lock lock;
  const short_guard held(lock);
  for (const auto& each : known) {
    if (each->options() == options) return each;
  }
  return known.emplace_back(std::make_shared<py_machine>(options));
}

void bind_machine(nb::module_& core) {
  nb::class_<py_machine>(core, "machine",
                         "A set of devices of one backend. One object per process for equal "
                         "arguments; the devices are opened at first use.")
      .def_static(
          "__new__",
          [](nb::handle, nb::handle name, nb::handle devices, nb::handle seed) {
            return make_machine(name, devices, seed);
          },
          "cls"_a, "name"_a = nb::none(), nb::kw_only(), "devices"_a = nb::none(),
          "seed"_a = nb::none(),
          nb::sig("def __new__(cls, name: str | None = None, *, devices: int | None = None, "
                  "seed: int | None = None) -> machine"),
          "`name`: ``\"host\"``, ``\"null\"``; None is the default (``MILLSTREAM_MACHINE``, else "
          "the host machine). `devices`: number of devices, 1 to 64; None is the "
          "default (``MILLSTREAM_HOST_DEVICES``). `seed`: choose among the legal orders of "
          "execution by this number. ValueError for an unknown name or a bad number.")
      .def(
          "__init__", [](nb::handle, nb::handle, nb::handle, nb::handle) {}, "name"_a = nb::none(),
          nb::kw_only(), "devices"_a = nb::none(), "seed"_a = nb::none(),
          nb::sig("def __init__(self, name: str | None = None, *, devices: int | None = None, "
                  "seed: int | None = None) -> None"))
      .def_prop_ro(
          "name", [](py_machine& self) { return self.opened().name(); },
          "Name of the backend. Opens the machine; UnavailableError if it cannot be.")
      .def_prop_ro(
          "device_count", [](py_machine& self) { return self.opened().device_count(); },
          "Number of devices. Opens the machine.")
      .def_prop_ro(
          "capabilities", [](py_machine& self) { return self.opened().capabilities(); },
          "Names of what the machine can do. Opens it.")
      .def_prop_ro("call_counts", &call_counts, nb::sig("def call_counts(self) -> dict[str, int]"),
                   "Calls of the backend so far by name, where the machine counts them (null); "
                   "else empty.")
      .def("__reduce__", &reduce_machine, nb::sig("def __reduce__(self) -> tuple[object, ...]"),
           "A copy is the object itself; a pickle is the machine of the same arguments where it is "
           "loaded.")
      .def("__repr__", &py_machine::repr);
  core.def("synchronize", &synchronize_stream, "stream"_a.none(),
           nb::sig("def synchronize(stream: int | object | None) -> None"),
           "Blocks until everything queued so far on `stream` has ended: the result of "
           "`context.fence` or `task.stream_ptr`; None is stream 0. Lets other threads run and can "
           "be interrupted. "
           "ValueError for a number that is no stream.");
}

}  // namespace millstream::python
