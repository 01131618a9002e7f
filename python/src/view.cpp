// SPDX-License-Identifier: Apache-2.0
#include "view.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "convert.hpp"
#include "data.hpp"
#include "direct.hpp"
#include "dlpack.hpp"
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
  made["data"] = nb::make_tuple(number_of(view.address), view.home.host && view.readonly);
  made["strides"] = nb::none();
  if (!view.home.host)
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
  if (view.home.host != host) throw nb::attribute_error(name);
  return interface_of(view);
}

// Managed and page-locked memory count as such where a device works with them.
dlpack_home dlpack_home_of(const py_view& view) {
  view.check();
  if (!view.lent || (!view.home.host && !view.lent->native_memory)) {
    throw binding_error(
        errc::unsupported,
        "the memory of this view is not known to any machine, so that DLPack cannot "
        "say where it is; use its array interface",
        {}, "ExportError");
  }
  if (view.home.host) return {dlpack_device::cpu, 0};
  switch (view.home.place.what()) {
    case data_place::kind::device: return {dlpack_device::cuda, view.home.place.index()};
    case data_place::kind::managed: return {dlpack_device::cuda_managed, 0};
    default: return {dlpack_device::cuda_host, 0};
  }
}

[[noreturn]] void refuse_export(const std::string& why) {
  throw binding_error(errc::unsupported, why, {}, "ExportError");
}

// The consumer's stream as a number; nothing where it asks for no order.
std::optional<std::uint64_t> consumer_of(nb::handle stream, dlpack_home home) {
  if (home.type == dlpack_device::cpu || home.type == dlpack_device::cuda_host) {
    if (stream.is_none()) return std::nullopt;
    throw error(errc::invalid_value, "host memory has no stream; leave 'stream' out");
  }
  if (stream.is_none()) return 1;  // what the protocol says it means
  const std::int64_t number = to_integer(stream, "stream");
  if (number == -1) return std::nullopt;
  if (number > 0) return static_cast<std::uint64_t>(number);
  throw error(errc::invalid_value, "stream " + std::to_string(number) +
                                       " is disallowed by DLPack; give 1 or 2 for a default "
                                       "stream, a handle, or -1 for no order");
}

struct export_options {
  nb::handle stream;
  nb::handle max_version;
  nb::handle device;
  nb::handle copy;
};

bool takes_versioned(nb::handle max_version) {
  if (max_version.is_none()) return false;
  return to_integer(nb::object(max_version[0]), "max_version") >= 1;
}

nb::object export_view(const py_view& view, nb::handle self, const export_options& asked) {
  const dlpack_home home = dlpack_home_of(view);
  if (!asked.copy.is_none() && PyObject_IsTrue(asked.copy.ptr()) == 1) {
    refuse_export("a view is handed over without a copy; copy it afterwards");
  }
  const nb::object own = nb::make_tuple(static_cast<std::int32_t>(home.type), home.id);
  if (!asked.device.is_none() && !own.equal(asked.device)) {
    refuse_export("a view cannot move to another device; take it where it is, on device " +
                  std::string(nb::repr(own).c_str()));
  }
  const bool versioned = takes_versioned(asked.max_version);
  if (view.readonly && !versioned && view.home.host) {
    refuse_export("a read-only view needs version 1 of DLPack; pass max_version=(1, 0), or copy");
  }
  const std::optional<std::uint64_t> consumer = consumer_of(asked.stream, home);
  nb::object capsule =
      to_capsule({view.what, view.address, view.readonly, home, nb::borrow(self)}, versioned);
  if (consumer && view.what->bytes > 0) {
    view.lent->context(view.index)->core.order(*consumer, view.lent->queue);
  }
  return capsule;
}

nb::object bare_capsule(const py_view& view) {
  return to_capsule({view.what, view.address, view.readonly, dlpack_home_of(view), nb::none()},
                    /*versioned=*/false);
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
  return text + (view.lent && view.lent->is_over() ? ", its task has ended)" : ")");
}

void bind_lease(nb::module_& core) {
  nb::class_<lease>(core, "view_lease", "How long the views of one task are valid.")
      .def_prop_ro("over", &lease::is_over, "True once the task has ended.")
      .def("message", &lease::message, "index"_a, nb::sig("def message(self, index: int) -> str"),
           "Text for the use of view `index` after that.");
}

void bind_stf_cai(nb::module_& core) {
  nb::class_<py_view>(core, "stf_cai", nb::pooled(),
                      "An array over memory of a task. On a GPU machine it offers the CUDA Array "
                      "Interface, on a host machine `__array_interface__` and CPU DLPack. Valid "
                      "until its task ends; then what leads to the memory raises UsageError, and "
                      "`shape`, `dtype`, `stream` and `readonly` still answer.")
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
      .def_prop_ro("__array_interface__", locked(+[](py_view& self) {
                     return interface_if(self, true, "__array_interface__");
                   }),
                   nb::sig("def __array_interface__(self) -> dict[str, object]"),
                   "Array interface, version 3; AttributeError unless in host memory.")
      .def_prop_ro("__cuda_array_interface__", locked(+[](py_view& self) {
                     return interface_if(self, false, "__cuda_array_interface__");
                   }),
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, object]"),
                   "CUDA Array Interface, version 3; AttributeError for host memory.")
      .def("__getitem__", locked(+[](py_view& self, nb::handle key) -> nb::object {
             return interface_of(self)[key];
           }),
           "key"_a, nb::sig("def __getitem__(self, key: str) -> object"), "Entry of the interface.")
      .def("get", locked(+[](py_view& self, nb::handle key, nb::handle otherwise) {
             return interface_of(self).attr("get")(key, otherwise);
           }),
           "key"_a, "default"_a = nb::none(),
           nb::sig("def get(self, key: str, default: object = None) -> object"),
           "Entry of the interface, or `default`.")
      .def(
          "__dlpack__",
          [](nb::pointer_and_handle<py_view> self, nb::handle stream, nb::handle max_version,
             nb::handle device, nb::handle copy) {
            return export_view(*self.p, self.h, {stream, max_version, device, copy});
          },
          nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
          "dl_device"_a = nb::none(), "copy"_a = nb::none(),
          nb::sig("def __dlpack__(self, *, stream: int | None = None, "
                  "max_version: tuple[int, int] | None = None, "
                  "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> object"),
          "A DLPack capsule; never a copy, so `copy=True` and another device are a BufferError. "
          "`stream`, for device memory: work queued there from now on comes after what the task's "
          "stream has in it; None and 1 are the legacy default stream, 2 that of the thread, -1 "
          "asks for no order. Nothing waits on the host. While the task is recorded, a stream that "
          "is not is a UsageError: what is queued there runs at once. Read-only memory says so "
          "from ``max_version=(1, 0)`` on.")
      .def(
          "__dlpack_device__",
          [](const py_view& self) {
            const dlpack_home home = dlpack_home_of(self);
            return nb::make_tuple(static_cast<std::int32_t>(home.type), home.id);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"),
          "Kind and number: ``(1, 0)`` the CPU, ``(2, i)`` GPU i, ``(3, 0)`` page-locked and "
          "``(13, 0)`` managed memory in a body on a GPU.")
      .def("_capsule", &bare_capsule, nb::sig("def _capsule(self) -> object"),
           "A DLPack capsule that asks for no order and keeps nothing alive.")
      .def_prop_ro("_key", &py_view::key,
                   nb::sig("def _key(self) -> tuple[typing.Any, ...] | None"),
                   "Equal for views of the same memory, shape and dtype; None in host memory.")
      .def("__repr__", &repr_of);
}

}  // namespace

argument_home home_of(const context_state& in, data_place wanted, int device) noexcept {
  if (in.host_memory) return {data_place::host(), true};
  data_place place = wanted;
  if (place.what() == data_place::kind::affine) {
    place = device < 0 ? data_place::host() : data_place::device(device);
  }
  return {place, device < 0 && place.what() != data_place::kind::device};
}

bool is_device_memory(const context_state& in, const argument_home& home) noexcept {
  return in.native_memory && !home.host && home.place.what() == data_place::kind::device;
}

nb::object kept_description(const layout& of, const void* address, int device,
                            nb::handle maker) noexcept {
  const short_guard held(of.lock);
  for (const layout::described& each : of.kept) {
    if (each.address == address && each.device == device && each.maker.is(maker)) return each.what;
  }
  return {};
}

namespace {

std::string message_of(const lease::ended_task& task, const std::string& data) {
  std::string text =
      "a view of " + (data.empty() ? "data" : data) + " was used after its " + task.name;
  if (task.site.file != nullptr) {
    text += std::string(" (") + task.site.file + ":" + std::to_string(task.site.line) + ")";
  }
  return text + " had ended; copy inside the task what is needed later, or use context.wait()";
}

std::string name_at(const lease::ended_task& task, std::size_t index) {
  return index < task.data.size() ? task.data[index] : std::string();
}

}  // namespace

lease::ended_task lease::ended() const {
  const short_guard held(lock_);
  return ended_;
}

std::string lease::message(std::size_t index) const {
  const ended_task task = ended();
  return message_of(task, name_at(task, index));
}

void lease::refuse(std::size_t index) const {
  const ended_task task = ended();
  const std::string data = name_at(task, index);
  throw binding_error(errc::usage, message_of(task, data), {task.name, data, task.site});
}

std::shared_ptr<context_state> lease::context(std::size_t index) const {
  {
    const short_guard held(lock_);
    if (in_) return in_;
  }
  refuse(index);
}

void lease::end(ended_task what) noexcept {
  std::shared_ptr<context_state> gone;
  const short_guard held(lock_);
  ended_ = std::move(what);
  in_.swap(gone);
  over_.set(true);
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
  if (!lent_) lent_ = std::make_shared<lease>(in_, queue_);
  return lent_;
}

nb::object argument_list::array(std::size_t index) {
  entry& what = checked(index);
  if (!what.home.host) return view(index);
  if (!what.array.is_valid()) {
    what.array = array_over(*what.what, what.address, what.writable, what.base);
    if (in_->check) {
      what.array =
          nb::module_::import_("millstream._checked").attr("guard")(what.array, lent(), index);
    }
  }
  return what.array;
}

nb::object argument_list::view(std::size_t index) {
  entry& what = checked(index);
  if (!what.view.is_valid()) {
    const auto make = [&] {
      py_view made;
      made.address = what.address;
      made.what = what.what;
      made.readonly = !what.writable;
      made.home = what.home;
      made.lent = lent();
      made.index = index;
      made.base = what.base;
      return made;
    };
    what.view = make_instance<py_view>(make);
    if (!what.view.is_valid()) what.view = nb::cast(make());
  }
  return what.view;
}

template <class Get>
nb::object argument_list::each_with_content(Get&& get) {
  std::size_t at = 0;
  return make_tuple_of(content_count(), [&](std::size_t) {
    while (!entries_[at].what)
      ++at;
    return get(at++);
  });
}

std::size_t argument_list::content_count() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const entry& each) { return each.what != nullptr; }));
}

// All are made before the tuple is, which the collector of garbage shows to everybody.
nb::object argument_list::arrays() {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].what) static_cast<void>(array(i));
  }
  return each_with_content([this](std::size_t index) { return array(index); });
}

nb::object argument_list::views() {
  const entry* only = nullptr;
  std::size_t count = 0;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].what) continue;
    static_cast<void>(view(i));
    only = &entries_[i];
    ++count;
  }
  if (count == 0) return nb::none();
  if (count == 1) return only->view;
  return each_with_content([this](std::size_t index) { return entries_[index].view; });
}

nb::object py_view::key() const {
  const dlpack_home memory = dlpack_home_of(*this);
  if (memory.type == dlpack_device::cpu) return nb::none();
  return nb::make_tuple(number_of(address), what->shape, what->dtype,
                        static_cast<std::int32_t>(memory.type), memory.id);
}

nb::object argument_list::capsules() const {
  nb::list made;
  for (const entry& each : entries_) {
    if (!each.what) continue;
    dlpack_export memory{each.what, each.address, !each.writable, {}, each.base};
    if (!memory.owner.is_valid()) memory.owner = nb::none();
    if (!each.home.host) {
      if (!is_device_memory(*in_, each.home)) return nb::none();
      memory.home = {dlpack_device::cuda, each.home.place.index()};
    }
    made.append(to_capsule(memory, /*versioned=*/each.home.host && memory.readonly));
  }
  return nb::tuple(made);
}

nb::object argument_list::described(nb::handle maker) {
  for (const entry& each : entries_) {
    if (each.what && !is_device_memory(*in_, each.home)) return nb::none();
  }
  return each_with_content([&](std::size_t index) { return description(index, maker); });
}

nb::object argument_list::description(std::size_t index, nb::handle maker) {
  const entry& what = entries_[index];
  const layout_ptr of = what.what;
  const int device = what.home.place.index();
  if (nb::object known = kept_description(*of, what.address, device, maker); known.is_valid()) {
    return known;
  }
  layout::described fresh{what.address, device, nb::borrow(maker), maker(view(index))};
  constexpr std::size_t most_kept = 16;
  nb::object made = fresh.what;
  std::vector<layout::described> gone;  // what dies may run code that comes here
  const short_guard held(of->lock);
  if (of->kept.size() >= most_kept) gone.swap(of->kept);
  of->kept.push_back(std::move(fresh));
  return made;
}

argument_list::item_key argument_list::to_key(nb::handle key) {
  if (const auto* datum = as<py_data>(key)) return {datum, 0};
  return {nullptr, to_integer(key, "index")};
}

nb::object argument_list::item(const item_key& key) {
  if (key.datum != nullptr) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].datum == key.datum->data.state()) return array(i);
    }
    throw binding_error(errc::out_of_range,
                        name_of(key.datum->data) +
                            " is no dependency of the task; add it, for "
                            "example as data.read()",
                        {}, "MissingDataError");
  }
  std::int64_t index = key.index;
  if (index < 0) index += static_cast<std::int64_t>(entries_.size());
  if (index < 0) index = static_cast<std::int64_t>(entries_.size());
  return array(static_cast<std::size_t>(index));
}

void bind_view(nb::module_& core) {
  bind_lease(core);
  bind_stf_cai(core);
}

}  // namespace millstream::python
