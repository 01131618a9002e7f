// SPDX-License-Identifier: Apache-2.0
#include "view.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "convert.hpp"
#include "data.hpp"
#include "errors.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

std::uintptr_t number_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address);
}

// What both array interfaces have; `description` is added for structured elements.
nb::dict make_interface(const py_view& view) {
  nb::dict made;
  made["version"] = 3;
  made["shape"] = view.what->shape;
  made["typestr"] = view.what->dtype.attr("str");
  // A GPU library refuses read-only views, so that only the host's say it.
  made["data"] = nb::make_tuple(number_of(view.address), view.host && view.readonly);
  made["strides"] = nb::none();
  if (!view.host)
    made["stream"] = view.stream == 0 ? nb::none() : nb::object(nb::int_(view.stream));
  if (!view.what->dtype.attr("fields").is_none()) made["descr"] = view.what->dtype.attr("descr");
  return made;
}

nb::object interface_of(py_view& view) {
  view.check();
  if (!view.interface.is_valid()) view.interface = make_interface(view);
  return view.interface;
}

nb::object interface_if(py_view& view, bool host, const char* name) {
  if (view.host != host) throw nb::attribute_error(name);
  return interface_of(view);
}

nb::object to_host_array(nb::pointer_and_handle<py_view> self) {
  self.p->check();
  if (!self.p->host) {
    throw error(errc::unsupported,
                "the memory of this view is not the host's; hand it to a "
                "library of the device");
  }
  return array_over(*self.p->what, self.p->address, !self.p->readonly, self.h);
}

void make_view(py_view* self, nb::handle address, nb::handle shape, nb::handle dtype,
               nb::handle stream) {
  if (PyTuple_Check(shape.ptr()) == 0) {
    throw error(errc::invalid_type, "'shape' is of type " + class_name(shape) + "; pass a tuple");
  }
  auto made = std::make_shared<layout>();
  made->dtype = to_dtype(dtype);
  made->shape = nb::borrow(shape);
  const std::size_t at = to_index(address, "ptr");
  const nb::int_ number(nb::object(nb::borrow(stream)));
  new (self) py_view;
  self->address = reinterpret_cast<void*>(at);
  self->what = std::move(made);
  self->stream = nb::cast<std::uint64_t>(number);
}

std::string repr_of(const py_view& view) {
  std::string text = "stf_cai(ptr=" + std::to_string(number_of(view.address)) +
                     ", shape=" + nb::repr(view.what->shape).c_str() +
                     ", dtype=" + nb::str(view.what->dtype).c_str();
  if (view.readonly) text += ", read-only";
  return text + (view.lent && view.lent->over ? ", its task has ended)" : ")");
}

void bind_lease(nb::module_& core) {
  nb::class_<lease>(core, "view_lease", "How long the views of one task are valid.")
      .def_ro("over", &lease::over, "True once the task has ended.")
      .def("message", &lease::message, "index"_a, nb::sig("def message(self, index: int) -> str"),
           "Text for the use of view `index` after that.");
}

void bind_stf_cai(nb::module_& core) {
  nb::class_<py_view>(core, "stf_cai", nb::pooled(),
                      "An array over memory of a task. On a GPU machine it offers the CUDA Array "
                      "Interface, on a host machine `__array_interface__` and CPU DLPack. Valid "
                      "until its task ends; then every use raises UsageError.")
      .def("__init__", &make_view, "ptr"_a, "shape"_a, "dtype"_a, "stream"_a = 0,
           nb::sig("def __init__(self, ptr: int, shape: tuple[int, ...], dtype: object, "
                   "stream: int = 0) -> None"),
           "A view of device memory of the caller's own. TypeError unless `shape` is a tuple.")
      .def_prop_ro(
          "ptr",
          [](const py_view& self) {
            self.check();
            return number_of(self.address);
          },
          "Address of the first element.")
      .def_prop_ro(
          "shape", [](const py_view& self) { return self.what->shape; },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Extents, last axis fastest.")
      .def_prop_ro(
          "dtype", [](const py_view& self) { return self.what->dtype; },
          nb::sig("def dtype(self) -> numpy.dtype[typing.Any]"), "Element type.")
      .def_ro("stream", &py_view::stream, "Stream the view advertises; 0 = none.")
      .def_ro("readonly", &py_view::readonly, "True for an argument that is only read.")
      .def_prop_ro(
          "__array_interface__",
          [](py_view& self) { return interface_if(self, true, "__array_interface__"); },
          nb::sig("def __array_interface__(self) -> dict[str, object]"),
          "Array interface, version 3; AttributeError unless in host memory.")
      .def_prop_ro(
          "__cuda_array_interface__",
          [](py_view& self) { return interface_if(self, false, "__cuda_array_interface__"); },
          nb::sig("def __cuda_array_interface__(self) -> dict[str, object]"),
          "CUDA Array Interface, version 3; AttributeError for host memory.")
      .def(
          "__getitem__", [](py_view& self, nb::handle key) { return interface_of(self)[key]; },
          "key"_a, nb::sig("def __getitem__(self, key: str) -> object"), "Entry of the interface.")
      .def(
          "get",
          [](py_view& self, nb::handle key, nb::handle otherwise) {
            return interface_of(self).attr("get")(key, otherwise);
          },
          "key"_a, "default"_a = nb::none(),
          nb::sig("def get(self, key: str, default: object = None) -> object"),
          "Entry of the interface, or `default`.")
      .def(
          "__dlpack__",
          [](nb::pointer_and_handle<py_view> self, nb::kwargs options) {
            return to_host_array(self).attr("__dlpack__")(**options);
          },
          nb::sig("def __dlpack__(self, **kwargs: object) -> object"),
          "DLPack capsule, as NumPy makes it.")
      .def(
          "__dlpack_device__",
          [](nb::pointer_and_handle<py_view> self) {
            return to_host_array(self).attr("__dlpack_device__")();
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"), "``(1, 0)``: the CPU.")
      .def("__repr__", &repr_of);
}

}  // namespace

std::string lease::message(std::size_t index) const {
  std::string text = "a view of " + (index < data.size() ? data[index] : "data") +
                     " was used after its task " + task;
  if (site.file != nullptr) {
    text += std::string(" (") + site.file + ":" + std::to_string(site.line) + ")";
  }
  return text + " had ended; copy inside the task what is needed later, or use context.wait()";
}

void lease::check(std::size_t index) const {
  if (!over) return;
  throw binding_error(errc::usage, message(index),
                      {task, index < data.size() ? data[index] : "", site});
}

argument_list::entry& argument_list::checked(std::size_t index) {
  if (index >= entries_.size()) {
    throw error(errc::out_of_range, "dependency " + std::to_string(index) +
                                        " does not exist; the task has " +
                                        std::to_string(entries_.size()));
  }
  if (!entries_[index].what) {
    throw error(errc::usage, "dependency " + std::to_string(index) +
                                 " is a token, which has no content; leave it out");
  }
  return entries_[index];
}

const std::shared_ptr<lease>& argument_list::lent() {
  if (!lent_) lent_ = std::make_shared<lease>();
  return lent_;
}

nb::object argument_list::array(std::size_t index) {
  if (!host_) return view(index);
  entry& what = checked(index);
  if (!what.array.is_valid()) {
    what.array = array_over(*what.what, what.address, what.writable, what.base);
    if (guarded_) {
      what.array =
          nb::module_::import_("millstream._checked").attr("guard")(what.array, lent(), index);
    }
  }
  return what.array;
}

nb::object argument_list::view(std::size_t index) {
  entry& what = checked(index);
  if (!what.view.is_valid()) {
    py_view made;
    made.address = what.address;
    made.what = what.what;
    made.readonly = !what.writable;
    made.host = host_;
    made.lent = lent();
    made.index = index;
    what.view = nb::cast(std::move(made));
  }
  return what.view;
}

nb::object argument_list::arrays() {
  nb::list found;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].what) found.append(array(i));
  }
  return nb::tuple(found);
}

nb::object argument_list::views() {
  nb::list found;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].what) found.append(view(i));
  }
  if (nb::len(found) == 0) return nb::none();
  return nb::len(found) == 1 ? nb::object(found[0]) : nb::object(nb::tuple(found));
}

nb::object argument_list::item(nb::handle key) {
  if (const auto* data = as<py_data>(key)) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].datum == data->data.state()) return array(i);
    }
    throw binding_error(errc::out_of_range,
                        name_of(data->data) +
                            " is no dependency of the task; add it, for "
                            "example as data.read()",
                        {}, "MissingDataError");
  }
  std::int64_t index = to_integer(key, "index");
  if (index < 0) index += static_cast<std::int64_t>(entries_.size());
  if (index < 0) index = static_cast<std::int64_t>(entries_.size());
  return array(static_cast<std::size_t>(index));
}

void bind_view(nb::module_& core) {
  bind_lease(core);
  bind_stf_cai(core);
}

}  // namespace millstream::python
