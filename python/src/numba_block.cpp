// SPDX-License-Identifier: Apache-2.0
// The Python classes `numba_task` and `configured_kernel`. The rest of the adapter is
// millstream/interop/numba.py.
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "convert.hpp"
#include "data.hpp"
#include "direct.hpp"
#include "framework_block.hpp"
#include "locks.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

constexpr const char* adapter = "millstream.interop.numba";

// Makes the array that is kept with an instance.
nb::object describe() {
  static constinit module_name name(adapter, "_to_array");
  return name.get();
}

// One array for each dependency but tokens, where not all of them are memory of devices.
nb::object make_arrays(nb::handle task) {
  static constinit module_name name(adapter, "_arrays_of");
  return call_python(name.get(), task);
}

// --- the block

struct numba_block : framework_block {
  using framework_block::framework_block;
};

nb::object enter(nb::pointer_and_handle<numba_block> block) {
  numba_block& self = *block.p;
  if (self.others.is_valid()) return call_python(self.others.attr("__enter__"));
  start(self);
  return or_fail(self, [&]() -> nb::object {
    nb::object arrays = described(self, describe());
    if (arrays.is_none()) arrays = make_arrays(task_inside({block.p, block.h}));
    return nb::make_tuple(arrays, from_stream(stream_of(self)));
  });
}

void leave(numba_block& self, nb::handle type, nb::handle value, nb::handle traceback) {
  if (self.others.is_valid()) {
    call_python(self.others.attr("__exit__"), type, value, traceback);
  } else if (!type.is_none()) {
    fail_quietly(self, value.is_none() ? type : value);
  } else {
    end_task(self);
  }
}

void bind_block(nb::module_& core) {
  nb::class_<numba_block>(
      core, "numba_task", nb::pooled(),
      "A task around a ``with`` block.\n\n"
      "``with numba_task(ctx, *args, symbol=None) as (arrays, stream)``: the arguments are those "
      "of `context.task`. `arrays` is a tuple with one array for each dependency that is no token "
      "(see `get_arg_numba`); `stream` is ``task.stream_ptr()``, which the algorithms of "
      "`cuda.compute` take, and kernels through `external_stream`. What raises in the block fails "
      "the task; an error of its end is raised only after a clean block.\n\n"
      "Raises what `context.task` and `task.start` raise, and ImportError without Numba.")
      .def(
          "__init__",
          [](numba_block* self, nb::handle ctx, const nb::args& parts, nb::handle symbol) {
            static constinit module_name of_others(adapter, "_block_of_others");
            new (self) numba_block(ctx, parts, symbol, of_others);
          },
          "ctx"_a.none(), "args"_a, "symbol"_a = nb::none(),
          nb::sig("def __init__(self, ctx: millstream.context, *args: object, "
                  "symbol: str | None = None) -> None"),
          "Makes the task.")
      .def("__enter__", locked(&enter),
           nb::sig("def __enter__(self) -> tuple[tuple[typing.Any, ...], millstream.CudaStream]"),
           "Starts the task; its arrays and its stream.")
      .def("__exit__", locked(&leave), "exc_type"_a.none(), "exc"_a.none(), "traceback"_a.none(),
           nb::sig("def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> "
                   "None"),
           "Ends the task.")
      .def("__repr__", locked(+[](numba_block& self) { return shown_block(self, "numba_task"); }));
  const nb::handle type = nb::type<numba_block>();
  note_direct_call(type, "__enter__", &enter_directly<numba_block, &enter>);
  note_direct_call(type, "__exit__", &leave_directly<numba_block, &leave>);
}

// --- kernels

struct configured_kernel {
  nb::object kernel;  // a stf_kernel_decorator
  nb::object grid;
  nb::object block;
  nb::object place;  // or None
  nb::object ctx;    // or None
};

configured_kernel configure(nb::handle kernel, nb::handle how) {
  if (PyTuple_CheckExact(how.ptr()) != 0 && PyTuple_Size(how.ptr()) == 2) {
    return {nb::borrow(kernel), how[0], how[1], nb::none(), nb::none()};
  }
  static constinit module_name read(adapter, "_read_configuration");
  const nb::object all = call_python(read.get(), kernel, how);
  return {nb::borrow(kernel), all[0], all[1], all[2], all[3]};
}

nb::object attribute(nb::handle object, lazy_text& name) {
  return result_of(PyObject_GetAttr(object.ptr(), name.get().ptr()));
}

std::vector<PyObject*> deps_among(const nb::args& arguments) {
  std::vector<PyObject*> deps;
  deps.reserve(arguments.size());
  for (const nb::handle each : arguments) {
    if (as<py_dep>(each) != nullptr) deps.push_back(each.ptr());
  }
  return deps;
}

// Of a launch that this file knows how to do: on GPUs, in a context of ours. Else null.
std::shared_ptr<context_state> context_of(const configured_kernel& self,
                                          const std::vector<PyObject*>& deps) {
  std::shared_ptr<context_state> state;
  if (!self.ctx.is_none()) {
    const auto* const named = as<py_context>(self.ctx);
    if (named != nullptr && self.ctx.type().is(nb::type<py_context>())) state = named->state;
  } else if (!deps.empty()) {
    const auto* const data = as<py_data>(data_object(deps[0]));
    if (data != nullptr) state = data->state;
  }
  return state && state->native_memory && !state->finalized.get() ? state : nullptr;
}

nb::args parts_of(const configured_kernel& self, const nb::args& arguments,
                  const std::vector<PyObject*>& deps) {
  const std::size_t places = self.place.is_none() ? 0 : 1;
  if (places == 0 && deps.size() == arguments.size()) return arguments;
  return nb::borrow<nb::args>(make_tuple_of(places + deps.size(), [&](std::size_t i) {
    return i < places ? self.place : nb::borrow(deps[i - places]);
  }));
}

nb::object compiled_of(nb::handle kernel) {
  static constinit lazy_text compiled("_compiled");
  nb::object known = attribute(kernel, compiled);
  return known.is_none() ? call_python(kernel.attr("_get_compiled_kernel")) : known;
}

// What Numba gives for the grid, the block and this stream.
nb::object launcher_of(const configured_kernel& self, nb::handle compiled, nb::handle stream) {
  static constinit lazy_text launchers("_launchers");
  static constinit module_name configure(adapter, "_configure");
  const nb::object known = attribute(self.kernel, launchers);
  const nb::tuple key = nb::make_tuple(self.grid, self.block, stream);
  if (nb::object found = find_item(known, key); found.is_valid()) return found;
  return call_python(configure.get(), self.kernel, compiled, key);
}

// The arguments, with arrays in place of deps.
std::vector<PyObject*> values_of(const nb::args& arguments, nb::handle arrays) {
  std::vector<PyObject*> values;
  values.reserve(arguments.size());
  Py_ssize_t next = 0;
  for (const nb::handle each : arguments) {
    const bool is_dep = as<py_dep>(each) != nullptr;
    values.push_back(is_dep ? PyTuple_GetItem(arrays.ptr(), next++) : each.ptr());
    if (values.back() == nullptr) throw nb::python_error();
  }
  return values;
}

void call_launcher(nb::handle launcher, const std::vector<PyObject*>& values,
                   const nb::kwargs& options) {
  nb::object result;
  if (PyDict_Size(options.ptr()) == 0) {
    result = result_of(call_or_park(launcher, values.data(), values.size()));
  } else {
    const nb::object all =
        make_tuple_of(values.size(), [&](std::size_t i) { return nb::borrow(values[i]); });
    result = result_of(call_or_park(launcher, all, options));
  }
}

struct launch_call {
  const configured_kernel& what;
  const nb::args& arguments;
  const nb::kwargs& options;
  nb::object compiled;

  void run(py_task& task, nb::handle arrays) const {
    if (nb::len(arrays) < task.data.size()) {  // a token, which is refused here
      for (std::size_t i = 0; i < task.data.size(); ++i)
        static_cast<void>(get_arg_cai(task, nb::int_(i)));
    }
    const nb::object launcher = launcher_of(what, compiled, from_stream(stream_of(task)));
    call_launcher(launcher, values_of(arguments, arrays), options);
  }
};

void run_and_end(py_task& task, nb::handle as_object, nb::object arrays, const launch_call& call) {
  const call_guard held(task.lock);
  or_fail(task, [&] {
    if (arrays.is_none()) arrays = make_arrays(as_object);
    call.run(task, arrays);
  });
  if (!task.core.is_ended()) end_task(task);
}

void launch(const configured_kernel& self, const nb::args& arguments, const nb::kwargs& options) {
  const std::vector<PyObject*> deps = deps_among(arguments);
  const std::shared_ptr<context_state> state = context_of(self, deps);
  if (!state) {
    static constinit module_name launch(adapter, "_launch");
    call_python(launch.get(), self.kernel,
                nb::make_tuple(self.grid, self.block, self.place, self.ctx), arguments, options);
    return;
  }
  static constinit lazy_text name("__name__");
  const launch_call call{self, arguments, options, compiled_of(self.kernel)};
  py_task task = make_task(state, parts_of(self, arguments, deps), attribute(self.kernel, name));
  start(task);
  nb::object arrays = or_fail(task, [&] { return described(task, describe()); });
  if (!arrays.is_none()) return run_and_end(task, {}, std::move(arrays), call);
  const nb::object as_object = nb::cast(std::move(task));
  run_and_end(*nb::inst_ptr<py_task>(as_object), as_object, std::move(arrays), call);
}

std::string shown_kernel(const configured_kernel& self) {
  std::string text = "configured_kernel(" + short_repr(self.kernel.attr("__name__")) +
                     ", grid=" + short_repr(self.grid) + ", block=" + short_repr(self.block);
  if (!self.place.is_none()) text += ", " + short_repr(self.place);
  if (!self.ctx.is_none()) text += ", " + short_repr(self.ctx);
  return text + ")";
}

// It cannot be cleared, as it does not change; in a cycle something else can.
int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const auto& kernel = *nb::inst_ptr<configured_kernel>(self);
  for (const nb::object* each :
       {&kernel.kernel, &kernel.grid, &kernel.block, &kernel.place, &kernel.ctx})
    Py_VISIT(each->ptr());
  return 0;
}

const std::array<PyType_Slot, 2> collector_slots{{
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
    {0, nullptr},
}};

void bind_configured_kernel(nb::module_& core) {
  nb::class_<configured_kernel>(
      core, "configured_kernel", nb::pooled(), nb::type_slots(collector_slots.data()),
      "A kernel of `millstream.interop.numba.jit` with a grid, a block, and maybe a place and a "
      "context. Does not change.")
      .def(
          "__init__",
          [](configured_kernel* self, nb::handle kernel, nb::handle configuration) {
            new (self) configured_kernel(configure(kernel, configuration));
          },
          "kernel"_a, "configuration"_a.none(),
          nb::sig("def __init__(self, kernel: object, configuration: object) -> None"),
          "TypeError unless the configuration is ``grid, block``, with a place and a context if "
          "wanted.")
      .def("__call__", &launch, "args"_a, "options"_a,
           nb::sig("def __call__(self, *args: typing.Any, **options: typing.Any) -> None"),
           "Launches the kernel as a task; its positional deps become arrays.")
      .def("__repr__", &shown_kernel);
}

}  // namespace

void bind_numba_block(nb::module_& core) {
  bind_block(core);
  bind_configured_kernel(core);
}

}  // namespace millstream::python
