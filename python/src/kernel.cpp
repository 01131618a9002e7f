// SPDX-License-Identifier: Apache-2.0
#include "kernel.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/string.h>

#include <millstream/kernel.hpp>

#include "bind.hpp"
#include "convert.hpp"
#include "direct.hpp"
#include "kernel_arguments.hpp"
#include "kernel_table.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

// A launch on the host machine: a function and the arguments of the launch.
class host_call final : public body {
 public:
  host_call(std::shared_ptr<context_state> state, nb::object function, nb::object arguments)
      : state_(std::move(state)),
        function_(std::move(function)),
        arguments_(std::move(arguments)) {}

  void run(const body_call& /*call*/) override {
    const interpreter_lock lock;
    if (!lock) return;
    std::vector<PyObject*> values;
    for (const nb::handle each : nb::borrow<nb::tuple>(arguments_.get()))
      values.push_back(each.ptr());
    PyObject* const result = call_or_park(function_.get(), values.data(), values.size());
    if (result != nullptr) {
      Py_DECREF(result);
      return;
    }
    const python_exception failed = python_exception::fetch();
    state_->keep(failed);
    throw failed;
  }
  void destroy() noexcept override {
    const interpreter_lock lock;
    if (lock) delete this;
  }

 private:
  std::shared_ptr<context_state> state_;
  py_ref function_;
  py_ref arguments_;
};

std::int64_t to_extent(nb::handle given, const char* what) {
  if (PyLong_CheckExact(given.ptr()) != 0) return to_integer(given, what);
  PyObject* const whole = PyNumber_Long(given.ptr());
  if (whole == nullptr) throw nb::python_error();
  return to_integer(nb::steal(whole), what);
}

// What most extents are, a plain int that is positive; else 0.
std::int64_t one_extent(nb::handle given) noexcept {
  if (PyLong_CheckExact(given.ptr()) == 0) return 0;
  int overflow = 0;
  return std::max(PyLong_AsLongLongAndOverflow(given.ptr(), &overflow), 0LL);
}

// What is one number, as that; else null. Arrays of NumPy look like numbers and are only if they
// have one element and no dimension.
nb::object to_whole(nb::handle given) {
  if (PyIndex_Check(given.ptr()) == 0) return {};
  nb::object whole = nb::steal(index_or_park(given));
  if (!whole.is_valid()) {
    if (PySequence_Check(given.ptr()) == 0) throw nb::python_error();
    clear_type_error();
  }
  return whole;
}

dims to_dims(nb::handle given, const char* what) {
  if (const std::int64_t one = one_extent(given)) return {one};
  std::array<std::int64_t, 3> extents{1, 1, 1};
  std::size_t count = 0;
  if (const nb::object whole = to_whole(given); whole.is_valid()) {
    extents[count++] = to_integer(whole, what);
  } else if (PySequence_Check(given.ptr()) != 0) {
    for (const nb::handle each : nb::borrow<nb::sequence>(given)) {
      const std::int64_t extent = to_extent(each, what);
      if (count < extents.size()) extents[count] = extent;
      ++count;
    }
  } else {
    throw error(errc::invalid_type, std::string("'") + what + "' is of type " + class_name(given) +
                                        "; pass an int or up to three of them");
  }
  if (count == 0 || count > extents.size()) {
    throw error(errc::invalid_value, std::string("'") + what + "' has " + std::to_string(count) +
                                         " entries; give 1 to 3");
  }
  for (const std::int64_t each : extents) {
    if (each > 0) continue;
    throw error(errc::invalid_value, std::string("'") + what + "' is " + short_repr(given) +
                                         "; all its entries must be positive");
  }
  return {extents[0], extents[1], extents[2]};
}

// Null for what was not given: then it is as the kernel has it.
struct launch_handles {
  nb::handle kernel;
  nb::handle grid;
  nb::handle block;
  nb::handle args;
  nb::handle shmem;
  nb::handle cluster;
  nb::handle cooperative;
  nb::handle programmatic;
};

// The fields of _kernel.Found, in their order.
found_kernel ask_its_package(py_task& task, nb::handle kernel, const body_call& call) {
  // Packages look a kernel up, or compile it, for the current device.
  scope_of(task, call);
  static constinit lazy_name ask("millstream._kernel", "find");
  const nb::object answer = call_python(ask.get(), kernel);
  kernel_facts facts;
  nb::object convert;
  facts.what = device_kernel(nb::cast<std::uint64_t>(nb::object(answer[0])));
  if (!answer[1].is_none()) convert = answer[1];
  if (!answer[2].is_none()) facts.threads = to_integer(nb::object(answer[2]), "block");
  if (!answer[3].is_none()) facts.shared_bytes = to_index(nb::object(answer[3]), "shmem");
  if (!answer[4].is_none()) facts.cluster = to_dims(nb::object(answer[4]), "cluster");
  facts.cooperative = to_bool(nb::object(answer[5]));
  facts.programmatic = to_bool(nb::object(answer[6]));
  return {std::make_shared<const kernel_facts>(std::move(facts)), std::move(convert)};
}

// The handle of a kernel of cuda.core, which serves every device.
std::optional<std::uint64_t> handle_of(nb::handle kernel) {
  PyObject* const handle = attribute_or_park(kernel, "_handle");
  if (handle == nullptr) {
    PyErr_Clear();
    return {};
  }
  const nb::object own = nb::steal(handle);
  const nb::object number = nb::steal(PyNumber_Long(own.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  return to_index(number, "kernel");
}

found_kernel find_kernel(py_task& task, nb::handle kernel) {
  kernel_table& known = task.state->kernels;
  if (PyLong_Check(kernel.ptr()) != 0 && PyBool_Check(kernel.ptr()) == 0) {
    return known.by_handle(to_index(kernel, "kernel"));
  }
  if (auto found = known.find(kernel, kernel_table::any_device)) return *std::move(found);
  const body_call call = task.core.call();
  if (auto found = known.find(kernel, call.device)) return *std::move(found);
  found_kernel fresh;
  int device = kernel_table::any_device;
  if (const auto handle = handle_of(kernel)) {
    kernel_facts facts;
    facts.what = device_kernel(*handle);
    fresh.facts = std::make_shared<const kernel_facts>(std::move(facts));
  } else {
    fresh = ask_its_package(task, kernel, call);
    device = call.device;
  }
  known.add(kernel, device, fresh);
  return fresh;
}

dims block_of(const kernel_facts& found, nb::handle given) {
  if (!found.threads) return to_dims(given, "block");
  if (!given.is_none()) {
    const dims asked = to_dims(given, "block");
    if (asked.x * asked.y * asked.z != *found.threads) {
      throw error(errc::invalid_value, "'block' is " + short_repr(given) +
                                           ", but the kernel was compiled for " +
                                           std::to_string(*found.threads) + " threads; give None");
    }
  }
  return {*found.threads};
}

bool is_true(nb::handle given) {
  return given.is_valid() && to_bool(given);
}

launch_config config_of(const kernel_facts& found, const launch_handles& given) {
  launch_config how;
  how.grid = to_dims(given.grid, "grid");
  how.block = block_of(found, given.block);
  if (given.shmem.is_valid()) how.shared_bytes = to_index(given.shmem, "shmem");
  if (found.shared_bytes && how.shared_bytes == 0) how.shared_bytes = *found.shared_bytes;
  if (given.cluster.is_valid() && !given.cluster.is_none()) {
    how.cluster = to_dims(given.cluster, "cluster");
  } else if (found.cluster) {
    how.cluster = *found.cluster;
    how.grid = {how.grid.x * how.cluster.x, how.grid.y * how.cluster.y, how.grid.z * how.cluster.z};
  }
  how.cooperative = is_true(given.cooperative) || found.cooperative;
  how.programmatic = is_true(given.programmatic) || found.programmatic;
  return how;
}

nb::object to_sequence(nb::handle args) {
  PyObject* const list = PySequence_Check(args.ptr()) != 0 && PyUnicode_Check(args.ptr()) == 0
                             ? PySequence_Tuple(args.ptr())
                             : nullptr;
  if (list != nullptr) return nb::steal(list);
  if (PyErr_Occurred()) throw nb::python_error();
  throw error(errc::invalid_type,
              "'args' is of type " + class_name(args) + "; pass a sequence such as [x, y]");
}

void launch_native(py_task& task, const launch_handles& given) {
  const found_kernel found = find_kernel(task, given.kernel);
  const launch_config how = config_of(*found.facts, given);
  nb::object args = to_sequence(given.args);
  if (found.convert.is_valid()) args = nb::tuple(call_python(found.convert, args));
  const auto list = nb::borrow<nb::tuple>(args);
  kernel_arguments packed(nb::len(list));
  for (const nb::handle each : list)
    packed.add(each);
  task.core.launch({&found.facts->what, how, packed.list(), nullptr});
}

void launch_on_host(py_task& task, const launch_handles& given) {
  static constinit lazy_name find("millstream._kernel", "host_function");
  static constinit lazy_name bind("millstream._kernel", "bind");
  const nb::object function = call_python(find.get(), given.kernel);
  const launch_config how = config_of({}, given);
  const nb::object bound = call_python(bind.get(), function, to_sequence(given.args));
  const device_kernel none;
  body_ptr call(new host_call(task.state, bound[0], bound[1]));
  task.core.launch({&none, how, {}, std::move(call)});
}

auto details_of(const py_kernel& self) {
  return [&self] { return error_details{self.task.core.name(), {}, self.task.site}; };
}

void launch(py_kernel& self, const launch_handles& given) {
  py_task& task = self.task;
  try {
    with_details(details_of(self), [&] {
      if (!task.core.is_open()) task.core.launch({});  // says so
      if (task.state->native_memory) {
        launch_native(task, given);
      } else {
        launch_on_host(task, given);
      }
    });
  } catch (nb::python_error& raised) {
    if (task.core.is_open()) self.refused = nb::borrow(raised.value());
    throw;
  }
  ++self.launches;
}

void let_go(py_kernel& self) {
  close_body(self.task);
  self.task.data.clear();
  self.refused = {};
}

void end(py_kernel& self) {
  check_unused(self.task);
  try {
    with_details(details_of(self), [&] {
      const may_block section;
      self.task.core.end();
    });
  } catch (...) {
    const nb::error_scope keep_pending;  // of an interrupt
    if (self.task.core.is_ended()) let_go(self);
    throw;
  }
  let_go(self);
}

// A launch that was refused has done nothing, and those before it have not begun.
void fail(py_kernel& self, nb::handle value) {
  check_unused(self.task);
  if (self.refused.is_valid() && value.is(self.refused)) {
    self.task.core.abandon();
  } else {
    const python_exception cause(nb::borrow(value));
    self.task.state->keep(cause);
    const may_block section;
    self.task.core.fail(std::make_exception_ptr(cause));
  }
  if (self.task.core.is_ended()) let_go(self);  // else another thread is about to end it
}

nb::object enter(nb::pointer_and_handle<py_kernel> self) {
  start(self.p->task);
  return nb::borrow(self.h);
}

bool leave(py_kernel& self, nb::handle type, nb::handle value, nb::handle) {
  if (self.task.core.is_ended()) return false;
  if (type.is_none()) {
    end(self);
  } else {
    fail(self, value.is_none() ? type : value);
  }
  return false;
}

std::uintptr_t get_arg(py_kernel& self, nb::handle index) {
  return reinterpret_cast<std::uintptr_t>(self.task.core.pointer(to_index(index, "index")));
}

std::string repr_of(py_kernel& self) {
  const untyped_task& core = self.task.core;
  const char* state = core.is_open() ? "open" : core.is_ended() ? "ended" : "not started";
  return "cuda_kernel(" + core.name() + ", " + std::to_string(core.dep_count()) + " deps, " +
         std::to_string(self.launches) + " launches, " + state + ")";
}

template <class Parts>
py_task make_kernel_task(const py_context& in, const Parts& parts, nb::handle symbol) {
  check_live(*in.state, "cuda_kernel()");
  py_task made = make_task(in.state, parts, symbol);
  made.core.set_kind(task_kind::cuda_kernel);
  return made;
}

py_kernel make_kernel(py_context& self, const nb::args& parts, nb::handle symbol) {
  return py_kernel([&] { return make_kernel_task(self, parts, symbol); });
}

nb::object make_kernel_directly(call_arguments given) {
  auto* const in = given.empty() ? nullptr : as<py_context>(given[0]);
  if (in == nullptr) return {};
  return make_instance<py_kernel>(
      [&] { return py_kernel([&] { return make_kernel_task(*in, given.subspan(1), Py_None); }); });
}

// launch(kernel, grid, block, args) and perhaps shmem.
nb::object launch_directly(call_arguments given) {
  if (given.size() < 5 || given.size() > 6) return {};
  constexpr std::size_t block = 3;
  for (std::size_t i = 1; i < given.size(); ++i) {
    if (given[i] == Py_None && i != block) return {};
  }
  auto* const self = as<py_kernel>(given[0]);
  if (self == nullptr) return {};
  launch_handles what{given[1], given[2], given[block], given[4], {}, {}, {}, {}};
  if (given.size() > 5) what.shmem = given[5];
  const call_guard held(self->task.lock);
  launch(*self, what);
  return nb::none();
}

nb::object get_arg_directly(call_arguments given) {
  if (given.size() != 2 || given[1] == Py_None) return {};
  auto* const self = as<py_kernel>(given[0]);
  if (self == nullptr) return {};
  const call_guard held(self->task.lock);
  return nb::int_(get_arg(*self, given[1]));
}

void bind_building(nb::class_<py_kernel>& type) {
  type.def("add_dep", locked(+[](py_kernel& self, nb::handle dep) { add_dep(self.task, dep); }),
           "dep"_a, nb::sig("def add_dep(self, dep: dep) -> None"),
           "Adds an access, before `start`; errors as in `task.add_dep`.")
      .def("set_exec_place",
           locked(+[](py_kernel& self, nb::handle place) { set_exec_place(self.task, place); }),
           "place"_a, nb::sig("def set_exec_place(self, place: exec_place) -> None"),
           "The device that runs the kernels; before `start`.")
      .def("set_symbol", locked(+[](py_kernel& self, nb::handle name) {
             set_symbol(self.task, to_text(name, "name"));
           }),
           "name"_a, nb::sig("def set_symbol(self, name: str) -> None"),
           "Names the task in messages and graphs; before `start`.")
      .def(
          "get_arg", locked(&get_arg), "index"_a, nb::sig("def get_arg(self, index: int) -> int"),
          "Address that dependency `index` will have, tokens counted; 0 in a task that is skipped. "
          "IndexError past the list, RuntimeError for a token or when the task is not open.")
      .def("get_arg_cai",
           locked(+[](py_kernel& self, nb::handle index) { return get_arg_cai(self.task, index); }),
           "index"_a, nb::sig("def get_arg_cai(self, index: int) -> stf_cai"),
           "View of dependency `index`, to be passed to `launch`; errors as `get_arg`.");
}

void bind_running(nb::class_<py_kernel>& type) {
  type.def(
          "launch",
          [](py_kernel& self, nb::handle kernel, nb::handle grid, nb::handle block, nb::handle args,
             nb::handle shmem, nb::handle cluster, nb::handle cooperative,
             nb::handle programmatic) {
            const call_guard held(self.task.lock);
            launch(self, {kernel, grid, block, args, shmem, cluster, cooperative, programmatic});
          },
          "kernel"_a.none(), "grid"_a.none(), "block"_a.none(), "args"_a.none(),
          "shmem"_a.none() = 0, nb::kw_only(), "cluster"_a = nb::none(),
          "cooperative"_a.none() = false, "programmatic"_a.none() = false,
          nb::sig("def launch(self, kernel: object, "
                  "grid: int | collections.abc.Sequence[int], "
                  "block: int | collections.abc.Sequence[int] | None, "
                  "args: collections.abc.Sequence[object], shmem: int = 0, *, "
                  "cluster: int | collections.abc.Sequence[int] | None = None, "
                  "cooperative: bool = False, programmatic: bool = False) -> None"),
          "Describes one launch; those of a task run one after the other, in the order of the "
          "calls. `kernel`: a kernel of cuda.core, CuPy (RawKernel), Numba (compiled for one "
          "signature) or Triton (compiled; `block` is None), or the handle of a CUfunction or "
          "CUkernel as an int; it is kept until the context is finalized. On host machines a "
          "function of ctypes, or the address of one, which is called once per launch with "
          "exactly `args`. `grid`, `block`, `cluster`: up to three positive extents. `args` are "
          "copied: an int has the size of the kernel's parameter (a pointer's where the driver "
          "does not tell), a float is a double; scalars of ctypes and NumPy and structures of "
          "ctypes have their own types; views and device arrays are addresses. `shmem`: bytes of "
          "dynamic shared memory. `programmatic`: it may begin before the kernels that it comes "
          "after "
          "have ended, where these allow it, and waits for them by itself (`griddepcontrol.wait`) "
          "before it uses memory. ValueError and TypeError for what cannot be launched; the task "
          "goes on without it, and if the exception leaves the block, its data are as before.")
      .def(
          "start", locked(+[](py_kernel& self) { start(self.task); }),
          "Orders the task behind its data; waits for nothing. A task with a poisoned input is "
          "skipped: what it launches does not run, and its outputs are poisoned, too. Errors as in "
          "`task.start`, and ValueError for the host place.")
      .def("end", locked(&end),
           "Hands over what was described; does not wait. UsageError unless started, DeviceError "
           "if the device refuses.")
      .def("__enter__", locked(&enter), nb::sig("def __enter__(self) -> millstream.cuda_kernel"),
           "`start`, then the task.")
      .def("__exit__", locked(&leave), "exc_type"_a.none(), "exc"_a.none(), "traceback"_a.none(),
           nb::sig("def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> "
                   "typing.Literal[False]"),
           "`end`. After an exception of `launch` the data are as before the task; after another "
           "one the task has failed. The exception goes on.")
      .def("__repr__", locked(&repr_of));
}

}  // namespace

void bind_kernels(nb::class_<py_context>& context) {
  context.def(
      "cuda_kernel", &make_kernel, "args"_a, "symbol"_a = nb::none(),
      nb::sig("def cuda_kernel(self, *args: dep | exec_place | object, "
              "symbol: str | None = None) -> millstream.cuda_kernel"),
      "A task that launches kernels which are described to us, for `with` or `start` and `end`. "
      "Arguments as those of `task`.");
  note_direct_call(context, "cuda_kernel", &make_kernel_directly);
}

void bind_kernel(nb::module_& core) {
  nb::class_<py_kernel> type(
      core, "cuda_kernel", nb::pooled(),
      "A task whose kernels are described between `start` and `end`, or inside `with`, and "
      "launched by us: one node each in a recorded context, without any capture.");
  bind_building(type);
  bind_running(type);
  note_direct_call(type, "__enter__", &enter_directly<py_kernel, &enter>);
  note_direct_call(type, "__exit__", &leave_directly<py_kernel, &leave>);
  note_direct_call(type, "launch", &launch_directly);
  note_direct_call(type, "get_arg", &get_arg_directly);
}

}  // namespace millstream::python
