// SPDX-License-Identifier: Apache-2.0
#include "data.hpp"

#include <array>
#include <cstring>

#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "body.hpp"
#include "caller.hpp"
#include "convert.hpp"
#include "direct.hpp"
#include "errors.hpp"
#include "future.hpp"
#include "kept_buffer.hpp"
#include "source.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

constexpr std::size_t longest_pattern = 16;

template <access_mode Mode>
py_dep access(nb::pointer_and_handle<py_data> self, nb::handle place) {
  if (writes(Mode) && self.p->data.is_readonly()) {
    throw error(errc::invalid_value, name_of(self.p->data) +
                                         " is read-only and cannot be written; "
                                         "use read(), or register a writable copy");
  }
  return {nb::borrow(self.h), Mode, unless_none(place)};
}

template <access_mode Mode>
nb::object access_directly(call_arguments given) {
  if (given.empty() || given.size() > 2) return {};
  auto* const self = as<py_data>(given[0]);
  if (self == nullptr) return {};
  const nb::handle place = given.size() == 2 ? given[1] : Py_None;
  return make_instance<py_dep>([&] { return access<Mode>({self, given[0]}, place); });
}

nb::object symbol_of(const py_data& self) {
  const std::string symbol = self.data.symbol();
  return symbol.empty() ? nb::none() : nb::object(nb::str(symbol.c_str()));
}

nb::object shape_of(const py_data& self) {
  return self.what ? self.what->shape : nb::object(nb::none());
}

nb::object dtype_of(const py_data& self) {
  return self.what ? self.what->dtype : nb::object(nb::none());
}

std::string repr_of(const py_data& self) {
  const std::string symbol = self.data.symbol();
  if (!self.data) return "logical_data(empty)";
  std::string text = "logical_data(";
  if (!symbol.empty()) text += "name='" + symbol + "', ";
  if (!self.what) return text + "token)";
  text += std::string("shape=") + nb::repr(self.what->shape).c_str() +
          ", dtype=" + nb::str(self.what->dtype).c_str() +
          ", ndim=" + std::to_string(self.what->dims.size()) +
          ", bytes=" + std::to_string(self.what->bytes);
  return text + (self.data.is_readonly() ? ", read-only)" : ")");
}

py_data empty_like(const py_data& self) {
  check_live(*self.state, "logical_data.empty_like()");
  if (!self.what) return make_token(self.state);
  return {self.state, self.state->core.make_data(self.what->bytes, {}, caller_site()), self.what};
}

// Where the buffer is cannot be chosen, only confirmed. Managed memory is the host's and every
// device's.
void check_place(nb::handle given, data_place home) {
  const data_place wanted = to_data_place(given, "dplace", home);
  if (wanted == home) return;
  if (home == data_place::managed() && wanted.what() != data_place::kind::affine) return;
  throw error(errc::invalid_value, (home == data_place::host() ? std::string("a buffer of the host")
                                                               : "a buffer at " + to_string(home)) +
                                       " cannot be registered at " + nb::repr(given).c_str() +
                                       "; leave dplace out, and tasks get copies where they run");
}

packing to_packing(nb::handle copy) {
  if (copy.is_none()) return packing::refuse;
  if (to_text(copy, "copy") == "pack") return packing::pack;
  throw error(errc::invalid_value, "'copy' is " + short_repr(copy) +
                                       "; pass \"pack\", or leave it out for arrays that are used "
                                       "where they are");
}

// The shortest pattern whose repetition is `element`, or an empty one if it is too long.
std::string_view shortest_pattern(std::string_view element) {
  for (std::size_t bytes = 1; bytes <= longest_pattern && bytes <= element.size(); ++bytes) {
    if (element.size() % bytes != 0) continue;
    if (element.substr(bytes) == element.substr(0, element.size() - bytes)) {
      return element.substr(0, bytes);
    }
  }
  return {};
}

void fill(const std::shared_ptr<context_state>& state, nb::handle target, nb::handle value,
          exec_place place) {
  const task_dep dep = to_task_dep(*state, target, {caller_site(), "logical_data_full()", {}});
  const nb::bytes element(nb::object(value.attr("tobytes")()));
  const std::string_view pattern = shortest_pattern({element.c_str(), element.size()});
  if (!pattern.empty()) {
    const may_block section;
    state->core.fill(dep, std::as_bytes(std::span(pattern)), place, dep.data.symbol());
    return;
  }
  body_arguments call;
  call.who = "logical_data_full()";
  call.function = nb::module_::import_("operator").attr("setitem");
  call.arguments = nb::make_tuple(nb::ellipsis(), value);
  call.kind = task_kind::fill;
  call.place = place;
  if (state->native_memory) {
    // No device repeats a pattern of that size: the host writes it, and devices get copies.
    call.place = exec_place::host();
    const auto& asked = *nb::inst_ptr<py_dep>(target);
    submit_body(state, call, nb::make_tuple(py_dep{asked.ld, asked.mode, {}}));
    return;
  }
  submit_body(state, call, nb::make_tuple(target));
}

// An array of rank 0 with the value.
nb::object element_of(nb::handle value, const nb::object& dtype) {
  try {
    return nb::module_::import_("numpy").attr("full")(nb::tuple(), value, "dtype"_a = dtype);
  } catch (nb::python_error& refused) {
    throw_instead_of(refused, "logical_data_full() cannot make one element of dtype " +
                                  std::string(nb::str(dtype).c_str()) + " out of " +
                                  short_repr(value) + "; pass a scalar that fits the dtype");
  }
}

}  // namespace

// In a forked child the engine of the parent is out of reach, so the handle leaks.
void py_data::let_go() noexcept {
  untyped_data gone = std::move(data);
  if (gone && !state->is_of_this_process()) static_cast<void>(new untyped_data(std::move(gone)));
}

py_data::~py_data() {
  if (data) let_go();
}

std::string name_of(const untyped_data& data) {
  if (!data) return "a logical_data without a context";
  const std::string symbol = data.symbol();
  return symbol.empty() ? "data " + std::to_string(data.id()) : "'" + symbol + "'";
}

namespace {

std::string quoted(std::string_view symbol) {
  return symbol.empty() ? std::string() : "'" + std::string(symbol) + "'";
}

source open_checked(const context_state& state, const register_arguments& what) {
  source found = open_source(what.buffer, state, to_packing(what.copy));
  // NumPy does not say that memory is managed.
  if (found.home == data_place::host() &&
      to_data_place(what.place, "dplace", found.home) == data_place::managed()) {
    found.home = state.on->opened().home_of(found.block);
  }
  check_place(what.place, found.home);
  return found;
}

// The errors come from far inside, where nobody knows whose array it is.
source open_named(const context_state& state, const register_arguments& what,
                  const error_details& details) {
  source found;
  with_details([&] { return details; },
               [&] {
                 try {
                   found = open_checked(state, what);
                 } catch (binding_error& refused) {
                   refused.details = details;
                   throw;
                 }
               });
  return found;
}

}  // namespace

py_data register_buffer(const std::shared_ptr<context_state>& state,
                        const register_arguments& what) {
  const std::string_view symbol = to_name(what.name, "name");
  const source_site site = caller_site();
  source found = open_named(*state, what, {{}, quoted(symbol), site});
  registration request;
  std::vector<std::size_t> extents;
  if (!found.strides.empty()) {
    extents.assign(found.what->dims.begin(), found.what->dims.end());
    request.extents = extents;
    request.strides = found.strides;
    request.element_bytes = found.what->itemsize;
  }
  request.allow_overlap = to_bool(what.allow_overlap);
  request.place = to_data_place(what.place, "dplace", found.home);
  request.producer = found.producer;
  request.block = found.block;
  request.bytes = found.what->bytes;
  request.readonly = found.readonly;
  request.symbol = symbol;
  request.site = site;
  request.owner = std::move(found.owner);
  const may_block section;  // behind data that were dropped and are yet to be written back
  return {state, state->core.register_data(request), std::move(found.what)};
}

py_data make_empty(const std::shared_ptr<context_state>& state, nb::handle shape, nb::handle dtype,
                   nb::handle name) {
  layout_ptr what = make_layout(shape, dtype.is_none() ? nb::handle() : dtype);
  untyped_data data = state->core.make_data(what->bytes, to_name(name, "name"), caller_site());
  return {state, std::move(data), std::move(what)};
}

namespace {

exec_place to_filling_place(nb::handle given) {
  const exec_place place = to_exec_place(given, "exec_place");
  if (place.what() != exec_place::kind::host) return place;
  throw error(errc::not_implemented,
              "exec_place.host() cannot fill data; leave exec_place out, "
              "or submit a function that fills it");
}

void fill_data(const py_context& in, nb::handle target, nb::handle value, nb::handle where,
               nb::handle place) {
  check_live(*in.state, "init_logical_data()");
  const auto* const data = as<py_data>(target);
  if (data == nullptr || !data->what) {
    throw error(errc::invalid_type,
                "init_logical_data() got " +
                    (data == nullptr ? "data of type " + class_name(target)
                                     : name_of(data->data) + " without content") +
                    "; pass a logical_data that is no token");
  }
  const exec_place at = to_filling_place(place);
  fill(in.state, nb::cast(py_dep{nb::borrow(target), access_mode::write, unless_none(where)}),
       element_of(value, data->what->dtype), at);
}

}  // namespace

py_data make_full(const std::shared_ptr<context_state>& state, nb::handle shape,
                  const fill_arguments& fill_with) {
  const nb::module_ numpy = nb::module_::import_("numpy");
  const nb::object dtype = to_dtype(
      fill_with.dtype.is_none() ? nb::object(numpy.attr("array")(fill_with.value).attr("dtype"))
                                : nb::borrow(fill_with.dtype));
  const exec_place place = to_filling_place(fill_with.place);
  const nb::object value = element_of(fill_with.value, dtype);
  py_data made = make_empty(state, shape, dtype, fill_with.name);
  const nb::object handle = nb::cast(std::move(made));
  fill(state, nb::cast(py_dep{handle, access_mode::write, unless_none(fill_with.where)}), value,
       place);
  auto& filled = *nb::inst_ptr<py_data>(handle);
  return {filled.state, filled.data, filled.what};
}

py_data make_token(const std::shared_ptr<context_state>& state) {
  return {state, state->core.make_token({}, caller_site()), nullptr};
}

namespace {

py_data construct(nb::handle context, nb::handle buffer, nb::handle place, nb::handle name) {
  const auto* const in = as<py_context>(context);
  if (in == nullptr && !context.is_none()) {
    throw error(errc::invalid_type,
                "'ctx' is of type " + class_name(context) + "; pass a context, or None");
  }
  if (in == nullptr || buffer.is_none()) return {empty_context(), {}, nullptr};
  check_live(*in->state, "logical_data()");
  return register_buffer(in->state, {buffer, place, name, nb::none(), nb::bool_(false)});
}

// The array that is kept for the datum may lead to this object.
int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const nb::handle buffer = buffer_kept_by(nb::inst_ptr<py_data>(self)->data);
  Py_VISIT(buffer.ptr());
  return 0;
}

// As the last handle that is dropped: writes back if that is due, and never waits.
int clear(PyObject* self) noexcept {
  if (nb::inst_ready(self)) nb::inst_ptr<py_data>(self)->let_go();
  return 0;
}

const std::array<PyType_Slot, 3> collector_slots{{
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {0, nullptr},
}};

}  // namespace

void bind_data(nb::module_& core) {
  core.def("fill_data", &fill_data, "ctx"_a, "ld"_a.none(), "value"_a.none(),
           "data_place"_a = nb::none(), "exec_place"_a = nb::none(),
           nb::sig("def fill_data(ctx: context, ld: logical_data, value: object, "
                   "data_place: data_place | None = None, exec_place: exec_place | None = None) -> "
                   "None"),
           "What `context.logical_data_full` does to its data, for data that is there.");
  nb::class_<py_data>(core, "logical_data", nb::pooled(), nb::is_weak_referenceable(),
                      nb::type_slots(collector_slots.data()),
                      "A value that may have copies in several memories. Contexts make it; "
                      "dropping the last handle queues the write-back to a registered buffer and "
                      "never waits.")
      .def(
          "__init__",
          [](py_data* self, nb::handle context, nb::handle buffer, nb::handle place,
             nb::handle /*shape*/, nb::handle /*dtype*/,
             nb::handle name) { new (self) py_data(construct(context, buffer, place, name)); },
          "ctx"_a = nb::none(), "buf"_a = nb::none(), "dplace"_a = nb::none(),
          "shape"_a = nb::none(), "dtype"_a = nb::none(), "name"_a = nb::none(),
          nb::sig("def __init__(self, ctx: context | None = None, buf: object = None, "
                  "dplace: data_place | None = None, shape: object = None, dtype: object = None, "
                  "name: str | None = None) -> None"),
          "As `context.logical_data`; `shape` and `dtype` are those of the array, whatever is "
          "said here. Without a context or an array the object belongs to none: no task takes "
          "it (ValueError), and what needs a context is a UsageError.")
      .def_static(
          "token",
          [](py_context& ctx) {
            check_live(*ctx.state, "logical_data.token()");
            return make_token(ctx.state);
          },
          "ctx"_a, nb::sig("def token(ctx: context) -> logical_data"), "As `context.token`.")
      .def_static(
          "init_by_shape",
          [](py_context& ctx, nb::handle shape, nb::handle dtype, nb::handle name) {
            check_live(*ctx.state, "logical_data.init_by_shape()");
            return make_empty(ctx.state, shape, dtype, name);
          },
          "ctx"_a, "shape"_a, "dtype"_a.none(), "name"_a = nb::none(),
          nb::sig("def init_by_shape(ctx: context, shape: collections.abc.Iterable[int], "
                  "dtype: object, name: str | None = None) -> logical_data"),
          "As `context.logical_data_empty`.")
      .def("read", &access<access_mode::read>, "dplace"_a = nb::none(),
           nb::sig("def read(self, dplace: data_place | None = None) -> dep"),
           "Read access, for a task. `dplace`: where the copy is wanted.")
      .def("write", &access<access_mode::write>, "dplace"_a = nb::none(),
           nb::sig("def write(self, dplace: data_place | None = None) -> dep"),
           "Write access: the task overwrites the whole content, so no copy is fetched. "
           "ValueError for read-only data.")
      .def("rw", &access<access_mode::rw>, "dplace"_a = nb::none(),
           nb::sig("def rw(self, dplace: data_place | None = None) -> dep"),
           "Read and write access. ValueError for read-only data.")
      .def_prop_ro("dtype", &dtype_of, nb::sig("def dtype(self) -> numpy.dtype[typing.Any] | None"),
                   "Element type; None for a token.")
      .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int, ...] | None"),
                   "Extents, last axis fastest; None for a token.")
      .def_prop_ro("symbol", &symbol_of, nb::sig("def symbol(self) -> str | None"),
                   "Name in messages and graphs, or None.")
      .def_prop_ro(
          "readonly", [](const py_data& self) { return self.data.is_readonly(); },
          "True if the registered buffer may not be written.")
      .def_prop_ro("_readonly", [](const py_data& self) { return self.data.is_readonly(); })
      .def_prop_ro("_is_token", [](const py_data& self) { return self.data.is_token(); })
      .def(
          "set_symbol",
          [](const py_data& self, nb::handle name) { self.data.set_symbol(to_text(name, "name")); },
          "name"_a, nb::sig("def set_symbol(self, name: str) -> None"),
          "Names the datum in messages and graphs.")
      .def(
          "borrow_ctx_handle",
          [](const py_data& self) {
            check_live(*self.state, "borrow_ctx_handle()");
            return new py_context(self.state);
          },
          nb::sig("def borrow_ctx_handle(self) -> context"),
          "The context of the datum as an object that does all but `finalize`, which is a "
          "UsageError; `with` does not finalize it either.")
      .def(
          "get",
          [](const py_data& self) {
            check_live(*self.state, "logical_data.get()");
            return future_of_content(self);
          },
          nb::sig("def get(self) -> "
                  "millstream.Future[numpy.typing.NDArray[typing.Any] | None]"),
          "A future of the content as the tasks submitted so far leave it: a new NumPy array of "
          "the same shape and dtype, None for a token. Later tasks do not change it. Does not "
          "block, unless another thread has a task open that writes the data. It raises what the "
          "failed task raised if nobody has seen that, else PoisonedError; errors that have "
          "nothing to do with the data are left to others. NotWrittenError, OutOfMemoryError, and "
          "UsageError after `finalize`, at once.")
      .def("empty_like", &empty_like, nb::sig("def empty_like(self) -> logical_data"),
           "New data of the same context, shape and dtype, without content and name; of a token, "
           "another token.")
      .def("__repr__", &repr_of);
  const nb::handle type = nb::type<py_data>();
  note_direct_call(type, "read", &access_directly<access_mode::read>);
  note_direct_call(type, "write", &access_directly<access_mode::write>);
  note_direct_call(type, "rw", &access_directly<access_mode::rw>);
}

}  // namespace millstream::python
