// SPDX-License-Identifier: Apache-2.0
#include "context.hpp"

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "body.hpp"
#include "caller.hpp"
#include "convert.hpp"
#include "data.hpp"
#include "direct.hpp"
#include "future.hpp"
#include "graph.hpp"
#include "kernel.hpp"
#include "resources.hpp"
#include "task.hpp"
#include "trace.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

bool traces_by_default() {
  static const bool on = [] {
    const char* const value = std::getenv("MILLSTREAM_TRACE_TASKS");
    return value != nullptr && *value != '\0' && std::string_view(value) != "0";
  }();
  return on;
}

std::shared_ptr<py_machine> to_machine(nb::handle on) {
  if (on.is_none()) return find_machine({});
  if (const auto* const given = as<py_machine>(on); given != nullptr) {
    return find_machine(given->options());
  }
  throw error(errc::invalid_type, "'machine' is of type " + class_name(on) +
                                      "; pass machine(\"host\") or another machine");
}

struct later_options {
  nb::handle use_graph;
  nb::handle borrowed;
  nb::handle handle;
};

void open(py_context* self, later_options later, nb::handle stream, nb::handle on, nb::handle check,
          nb::handle trace) {
  use_direct_calls();
  if (to_bool(later.borrowed)) {
    new (self) py_context(empty_context());
    return;
  }
  context_setup setup;
  if (!stream.is_none()) setup.stream = to_stream(stream);
  setup.stream_object = nb::borrow(stream);
  setup.resources = to_resources(later.handle);
  setup.on = to_machine(on);
  setup.check = to_bool(check);
  setup.trace = to_bool(trace) || traces_by_default();
  setup.use_graph = to_bool(later.use_graph);
  new (self) py_context(setup);
}

// These two have a text that programs look for.
void check_handle(const context_state& state, const char* call) {
  if (!state.finalized.get()) return;
  throw error(errc::usage, std::string(call) +
                               " found that the context handle is NULL: the "
                               "context was finalized; open a new one");
}

// The exception to raise for all failures nobody has seen yet; null for none.
nb::object take_failures(context_state& state, std::size_t most = ~std::size_t{0}) {
  return combine(state.core.take_failures(most));
}

void finalize(py_context& self) {
  context_state& state = *self.state;
  if (self.borrowed) {
    throw error(errc::usage,
                "finalize() cannot finalize borrowed context; finalize the one it comes from");
  }
  if (state.given.get()) return;
  state.finish();
  if (state.caller_stream) return;  // what is known by now says little
  const nb::object failed = take_failures(state);
  state.forget_exceptions();
  state.kernels.clear();
  state.forget_graphs();
  if (failed.is_valid()) throw_python(failed);
}

void check_errors(py_context& self) {
  const nb::object failed =
      self.list == 0 ? take_failures(*self.state, 1) : take_failure_of(self.state->core, self.list);
  if (failed.is_valid()) throw_python(failed);
}

// What the end of a context found becomes notes of the exception that is on its way.
void finalize_behind(py_context& self, nb::handle exception) {
  try {
    finalize(self);
  } catch (nb::python_error& found) {
    if (!found.matches(PyExc_Exception)) throw;
    nb::module_::import_("millstream._errors").attr("_attach")(exception, found.value());
  } catch (const error& refused) {
    if (refused.code() == errc::interrupted) throw;
    nb::module_::import_("millstream._errors")
        .attr("_attach")(exception, to_python(std::current_exception(), {}));
  }
}

bool leave(py_context& self, nb::handle, nb::handle exception, nb::handle) {
  if (self.borrowed) return false;
  if (exception.is_none()) {
    finalize(self);
  } else {
    finalize_behind(self, exception);
  }
  return false;
}

void raise_failures(context_state& state) {
  const nb::object failed = take_failures(state);
  if (failed.is_valid()) throw_python(failed);
}

// A copy; the datum has its say before there is memory for that.
nb::object content_of(context_state& state, const py_data& data) {
  {
    const may_block section;
    state.core.await_content(data.data);
  }
  if (!data.what) return nb::none();
  nb::object copy = new_array(*data.what);
  if (!copy.is_valid()) {
    throw error(errc::out_of_memory, "wait() has no memory for a copy of " + name_of(data.data) +
                                         " with " + std::to_string(data.what->bytes) +
                                         " bytes; free some, or use the data in a task");
  }
  void* const to = address_of(copy);
  const may_block section;
  state.core.read_back(data.data, to);
  return copy;
}

nb::object wait(py_context& self, nb::handle ld) {
  context_state& state = *self.state;
  check_handle(state, "wait()");
  const auto* const data = as<py_data>(ld);
  if (data == nullptr) {
    throw error(errc::invalid_type,
                "wait() got an argument of type " + class_name(ld) + "; pass a logical_data");
  }
  const auto details = [&] { return error_details{{}, name_of(data->data), caller_site()}; };
  if (data->state != self.state) {
    throw binding_error(errc::invalid_value,
                        name_of(data->data) +
                            " belongs to a different context than the one that waits; call "
                            "wait() of its own context",
                        details());
  }
  nb::object result;
  with_details(details, [&] {
    try {
      result = content_of(state, *data);
    } catch (const error& refused) {
      // Better the exceptions themselves than that data are poisoned by them.
      if (refused.code() == errc::poisoned) raise_failures(state);
      throw;
    }
    raise_failures(state);
  });
  return result;
}

std::uint64_t fence(py_context& self) {
  check_handle(*self.state, "fence()");
  const may_block section;
  const std::uint64_t number = self.state->core.fence();
  return self.state->caller_stream.value_or(number);  // 0 stays 0
}

py_task task(py_context& self, const nb::args& parts, nb::handle symbol) {
  check_live(*self.state, "task()");
  return make_task(self.state, parts, symbol);
}

nb::object task_directly(call_arguments given) {
  auto* const self = given.empty() ? nullptr : as<py_context>(given[0]);
  if (self == nullptr) return {};
  check_live(*self->state, "task()");
  return make_instance<py_task>([&] { return make_task(self->state, given.subspan(1), Py_None); });
}

py_data logical_data_empty(py_context& self, nb::handle shape, nb::handle dtype, nb::handle name) {
  check_live(*self.state, "logical_data_empty()");
  return make_empty(self.state, shape, dtype, name);
}

nb::object logical_data_empty_directly(call_arguments given) {
  auto* const self = given.size() < 2 || given.size() > 4 ? nullptr : as<py_context>(given[0]);
  if (self == nullptr) return {};
  const auto later = [&](std::size_t i) { return i < given.size() ? given[i] : Py_None; };
  return make_instance<py_data>(
      [&] { return logical_data_empty(*self, given[1], later(2), later(3)); });
}

void check_callable(nb::handle function, const char* who) {
  if (PyCallable_Check(function.ptr()) != 0) return;
  throw error(errc::invalid_type, std::string(who) + " got a function of type " +
                                      class_name(function) + "; pass a callable");
}

nb::object to_tuple(nb::handle arguments, const char* who) {
  PyObject* const iterator = PyObject_GetIter(arguments.ptr());
  if (iterator == nullptr) {
    clear_type_error();
    throw error(errc::invalid_type, std::string(who) + " got 'args' of type " +
                                        class_name(arguments) + "; pass a tuple such as (x,)");
  }
  const nb::object items = nb::steal(iterator);
  PyObject* const tuple = PySequence_Tuple(iterator);
  if (tuple == nullptr) throw nb::python_error();
  return nb::steal(tuple);
}

body_arguments submission_of(const py_context& self, nb::handle function) {
  check_live(*self.state, "submit()");
  check_callable(function, "submit()");
  body_arguments what;
  what.who = "submit()";
  what.function = nb::borrow(function);
  what.kind = task_kind::submit;
  what.list = self.list;
  return what;
}

void submit(py_context& self, nb::handle function, const nb::args& deps, nb::handle arguments,
            nb::handle place, nb::handle symbol, nb::handle uses_device) {
  body_arguments what = submission_of(self, function);
  what.arguments = to_tuple(arguments, what.who);
  what.place = to_exec_place(place, "place");
  what.symbol = to_name(symbol, "symbol");
  what.uses_device = to_bool(uses_device);
  submit_body(self.state, what, deps);
}

nb::object submit_directly(call_arguments given) {
  auto* const self = given.size() < 2 ? nullptr : as<py_context>(given[0]);
  if (self == nullptr) return {};
  body_arguments what = submission_of(*self, given[1]);
  what.arguments = nb::tuple();
  submit_body(self->state, what, given.subspan(2));
  return nb::none();
}

void host_launch(py_context& self, const nb::args& deps, nb::handle function, nb::handle arguments,
                 nb::handle symbol, nb::handle uses_device) {
  check_live(*self.state, "host_launch()");
  check_callable(function, "host_launch()");
  body_arguments what;
  what.who = "host_launch()";
  what.function = nb::borrow(function);
  what.arguments = arguments.is_none() ? nb::object(nb::tuple()) : to_tuple(arguments, what.who);
  what.kind = task_kind::host_launch;
  what.list = self.list;
  what.place = exec_place::host();
  what.symbol = to_name(symbol, "symbol");
  what.uses_device = to_bool(uses_device);
  submit_body(self.state, what, deps);
}

nb::dict by_reason(const recording_misses& now) {
  nb::dict made;
  made["new shape"] = now.new_shape;
  made["evicted"] = now.evicted;
  made["too large"] = now.too_large;
  made["policy"] = now.policy;
  made["busy"] = now.busy;
  made["refused"] = now.refused;
  made["lost"] = now.lost;
  return made;
}

void add_recording(nb::dict& to, const recording_stats& now) {
  to["stages"] = now.stages;
  to["stage_breaks"] = now.stage_breaks;
  to["nodes"] = now.nodes;
  to["child_graphs"] = now.child_graphs;
  to["hits"] = now.hits;
  to["instantiations"] = now.instantiations;
  to["updates"] = now.updates;
  to["refused_updates"] = now.refused_updates;
  to["misses"] = by_reason(now.misses);
  to["last_miss"] = now.last_miss;
}

nb::dict stats(const py_context& self) {
  const context_stats now = self.state->core.stats();
  nb::dict made;
  made["tasks"] = now.tasks;
  made["skipped"] = now.skipped;
  made["failed"] = now.failed;
  made["copies"] = now.copies;
  made["copied_bytes"] = now.copied_bytes;
  made["records"] = now.records;
  made["waits"] = now.waits;
  made["host_waits"] = now.host_waits;
  made["allocations"] = now.allocations;
  made["reused_blocks"] = now.reused_blocks;
  made["queues"] = now.queues;
  if (self.state->use_graph) add_recording(made, now.recording);
  return made;
}

nb::dict trace_snapshot(const py_context& self, const char* call) {
  if (!self.state->recorder) {
    throw error(errc::usage, std::string(call) +
                                 " has nothing to show, because the context keeps "
                                 "no trace; open it with context(trace=True) or "
                                 "set MILLSTREAM_TRACE_TASKS=1");
  }
  nb::dict made = to_dict(self.state->recorder->snapshot(), self.state->on->opened());
  if (self.state->use_graph) made["native_dot"] = self.state->core.native_dot();
  return made;
}

nb::object from_viz(const py_context& self, const char* name, const char* call) {
  const nb::dict snapshot = trace_snapshot(self, call);
  return nb::module_::import_("millstream.viz").attr(name)(snapshot);
}

std::string repr_of(const py_context& self) {
  const context_state& state = *self.state;
  if (state.empty) return "context(empty, borrowed)";
  return "context(" + state.on->repr() + (state.check ? ", check=True" : "") +
         (state.recorder ? ", trace=True" : "") + (self.borrowed ? ", borrowed" : "") +
         (state.finalized.get() ? ", finalized)" : ", live)");
}

void bind_making(nb::class_<py_context>& type) {
  type.def(
          "logical_data",
          [](py_context& self, nb::handle buffer, nb::handle place, nb::handle name,
             nb::handle copy, nb::handle allow_overlap) {
            check_live(*self.state, "logical_data()");
            return register_buffer(self.state, {buffer, place, name, copy, allow_overlap});
          },
          "buf"_a.none(), "dplace"_a = nb::none(), "name"_a = nb::none(), nb::kw_only(),
          "copy"_a = nb::none(), "allow_overlap"_a.none() = false,
          nb::sig("def logical_data(self, buf: object, dplace: data_place | None = None, "
                  "name: str | None = None, *, copy: typing.Literal['pack'] | None = None, "
                  "allow_overlap: bool = False) -> millstream.logical_data"),
          "Registers an array: one with the CUDA Array Interface, NumPy's, DLPack's or one with "
          "`__array_interface__`, or any object with the buffer protocol. Its shape and dtype are "
          "those of the datum. It is kept alive and gets the result when the context is finalized "
          "or the last handle is dropped. Where it lives is asked of the machine; `dplace` only "
          "confirms it. Device memory may still be written by its producer: the first task is "
          "ordered behind the stream that the array names (entry ``stream`` of the interface, or "
          "the stream DLPack is asked for), and nothing waits on the host. "
          "`copy`: ``\"pack\"`` takes arrays that are not C-contiguous (strided, reversed, "
          "transposed, in Fortran order): tasks see packed copies of the same shape, and results "
          "go "
          "back element by element. An array in which one element has several indices (broadcast, "
          "sliding windows) is then read-only data. Without it such arrays are a ValueError "
          "(LayoutError). `allow_overlap`: arrays that have elements in common with other live "
          "data "
          "of the context are a ValueError unless both are read-only, or this is True: then they "
          "get one order, and what a task writes to one is seen in the other (one task cannot "
          "write "
          "one and use the other). ValueError, too, for stream 0, for device memory on a machine "
          "without GPUs and for another place than the array's; TypeError for other objects and "
          "for elements that are Python objects.")
      .def("logical_data_empty", &logical_data_empty, "shape"_a.none(), "dtype"_a = nb::none(),
           "name"_a = nb::none(),
           nb::sig("def logical_data_empty(self, shape: collections.abc.Iterable[int], "
                   "dtype: object = None, name: str | None = None) -> millstream.logical_data"),
           "Data without content; the first access must be `write`. `dtype`: None is float64. "
           "ValueError unless `shape` has at least one dimension and positive extents.")
      .def(
          "logical_data_full",
          [](py_context& self, nb::handle shape, nb::handle value, nb::handle dtype,
             nb::handle where, nb::handle place, nb::handle name) {
            check_live(*self.state, "logical_data_full()");
            return make_full(self.state, shape, {value, dtype, where, place, name});
          },
          "shape"_a.none(), "fill_value"_a.none(), "dtype"_a = nb::none(), "where"_a = nb::none(),
          "exec_place"_a = nb::none(), "name"_a = nb::none(),
          nb::sig("def logical_data_full(self, shape: collections.abc.Iterable[int], "
                  "fill_value: object, dtype: object = None, where: data_place | None = None, "
                  "exec_place: millstream.exec_place | None = None, name: str | None = None) -> "
                  "millstream.logical_data"),
          "Data filled with a scalar, as numpy.full. `dtype`: None is that of the value. `where`: "
          "memory of the first copy. `exec_place`: the device that fills; the host is a "
          "NotImplementedError.");
}

void bind_filling(nb::class_<py_context>& type) {
  const auto filled = [&type](const char* name, const char* sig, const char* doc, int value) {
    type.def(
        name,
        [name, value](py_context& self, nb::handle shape, nb::handle dtype, nb::handle where,
                      nb::handle place, nb::handle symbol) {
          check_live(*self.state, name);
          const nb::object float64 = to_dtype({});
          const nb::object number = nb::int_(value);
          return make_full(
              self.state, shape,
              {number, dtype.is_none() ? nb::handle(float64) : dtype, where, place, symbol});
        },
        "shape"_a.none(), "dtype"_a = nb::none(), "where"_a = nb::none(),
        "exec_place"_a = nb::none(), "name"_a = nb::none(), nb::sig(sig), doc);
  };
  filled("logical_data_zeros",
         "def logical_data_zeros(self, shape: collections.abc.Iterable[int], dtype: object = None, "
         "where: data_place | None = None, exec_place: millstream.exec_place | None = None, "
         "name: str | None = None) -> millstream.logical_data",
         "`logical_data_full` with 0; `dtype`: None is float64.", 0);
  filled("logical_data_ones",
         "def logical_data_ones(self, shape: collections.abc.Iterable[int], dtype: object = None, "
         "where: data_place | None = None, exec_place: millstream.exec_place | None = None, "
         "name: str | None = None) -> millstream.logical_data",
         "`logical_data_full` with 1; `dtype`: None is float64.", 1);
  type.def(
      "token",
      [](py_context& self) {
        check_live(*self.state, "token()");
        return make_token(self.state);
      },
      nb::sig("def token(self) -> millstream.logical_data"),
      "Data without content, for order only; may be read at once.");
}

void bind_working(nb::class_<py_context>& type) {
  type.def("task", &task, "args"_a, "symbol"_a = nb::none(),
           nb::sig("def task(self, *args: dep | exec_place | object, symbol: str | None = None) -> "
                   "millstream.task"),
           "A task to be used with `with`, or `start` and `end`. Arguments: accesses such as "
           "`data.read()`, in order, and at most one execution place. Without one the task runs on "
           "the device that is current in this thread now, on host machines on device 0. "
           "TypeError for others, None among them, ValueError for two places or data of a "
           "different context.")
      .def("submit", &submit, "fn"_a.none(), "deps"_a, "args"_a.none() = nb::tuple(),
           "place"_a = nb::none(), "symbol"_a = nb::none(), "uses_device"_a = true,
           nb::sig("def submit(self, fn: collections.abc.Callable[..., object], *deps: dep, "
                   "args: collections.abc.Iterable[object] = (), "
                   "place: millstream.exec_place | None = None, symbol: str | None = None, "
                   "uses_device: bool = True) -> None"),
           "Hands a function over and returns. It is called with one array per dependency that is "
           "no token (NumPy on host devices, else the views of `task.args_cai`), then `args`: "
           "later, on the queue of its device, on host machines; before `submit` returns on "
           "others. Arrays are valid during the call. What it returns is ignored; what it raises "
           "comes from the next `wait`, `finalize` or `check_errors`. `uses_device`: see "
           "`host_launch`; ValueError if false for a device.")
      .def(
          "host_launch", &host_launch, "deps"_a, "fn"_a.none(), "args"_a = nb::none(),
          "symbol"_a = nb::none(), "uses_device"_a = true,
          nb::sig("def host_launch(self, *deps: dep, fn: collections.abc.Callable[..., object], "
                  "args: collections.abc.Iterable[object] | None = None, "
                  "symbol: str | None = None, uses_device: bool = True) -> None"),
          "`submit` to a worker thread of the host: `fn` gets NumPy arrays (read-only for `read` "
          "accesses), then `args`. It may take long, and may use a GPU and wait for it. A task for "
          "a GPU that comes after it begins when it has ended, and that call returns then. "
          "``uses_device=False`` declares that `fn` neither uses a GPU, nor this library on a GPU "
          "machine, nor waits for a thread that does: with `use_graph` on a GPU it is a node of "
          "the "
          "recording then, called on a thread of the driver's, and does not end the stage. Such "
          "calls in it raise UsageError. Elsewhere it changes nothing.")
      .def("wait", &wait, "ld"_a.none(),
           nb::sig("def wait(self, ld: millstream.logical_data) -> "
                   "numpy.typing.NDArray[typing.Any] | None"),
           "Blocks until the content of `ld` is known and gives a copy; None for a token. Raises "
           "what tasks raised and nobody has seen yet: one as itself, several as an "
           "ExceptionGroup. PoisonedError, NotWrittenError, OutOfMemoryError. Other threads run, "
           "Ctrl-C works, and "
           "the context goes on.")
      .def(
          "done",
          [](py_context& self) {
            check_live(*self.state, "done()");
            return future_of_all(self.state);
          },
          nb::sig("def done(self) -> millstream.Future[None]"),
          "A future of all tasks that were submitted or ended so far (not of tasks that are open, "
          "nor of what those tasks submit later). Does not block. Its value is None; it raises "
          "what these tasks raised and nobody has seen when it completes: one as itself, several "
          "as an ExceptionGroup. UsageError after `finalize` and while the caller's stream is "
          "being captured.")
      .def("fence", &fence,
           "Number of a stream that ends when everything submitted so far has ended, on a caller's "
           "stream that one. Does not block, but on a GPU machine until the host functions "
           "submitted "
           "so far have ended; see `synchronize`.")
      .def("check_errors", &check_errors,
           "Raises the oldest exception of a task that nobody has seen yet, if there is one.")
      .def("finalize", &finalize,
           "Blocks until all work has ended, writes back to the registered buffers, lets go of "
           "the data; then raises what tasks raised and nobody has seen yet: one as itself, "
           "several as an ExceptionGroup. A second call does nothing, and one of another thread at "
           "the same time waits for the first. From its begin on, only this thread, submitted "
           "functions and callbacks of futures can submit to the context or ask it for anything; "
           "others get the UsageError of a finalized one. On a caller's stream it "
           "queues all that there instead and returns at once: wait for the stream before you look "
           "at the buffers, and ask `check_errors` (what is never asked for becomes a "
           "TaskFailedWarning). UsageError while a task is open, DeadlockError inside a body of "
           "this context.");
}

void bind_watching(nb::class_<py_context>& type) {
  type.def(
          "graph", [](py_context& self) { return from_viz(self, "Graph", "graph()"); },
          nb::sig("def graph(self) -> millstream.viz.Graph"),
          "The tasks so far and what orders them. Needs ``context(trace=True)``.")
      .def(
          "trace", [](py_context& self) { return from_viz(self, "Trace", "trace()"); },
          nb::sig("def trace(self) -> millstream.viz.Trace"),
          "When and where the tasks so far ran. Needs ``context(trace=True)``.")
      .def(
          "_trace_snapshot",
          [](py_context& self) { return trace_snapshot(self, "_trace_snapshot()"); },
          nb::sig("def _trace_snapshot(self) -> dict[str, typing.Any]"),
          "What was recorded, as plain lists and dictionaries.")
      .def("stats", &stats, nb::sig("def stats(self) -> dict[str, typing.Any]"),
           "Counts since the context was opened: tasks, copies, bytes, waits, blocks of memory. "
           "With "
           "`use_graph` also of its recordings: `stages` launched, `stage_breaks` (of these, "
           "because "
           "a body had to run in the caller's thread), `nodes`, `child_graphs`, `hits` (launches "
           "by an executable "
           "that was kept), `instantiations` (by one that was made), `updates` (one for each hit), "
           "`refused_updates` (tried before, of stages that look alike), `misses` (why executables "
           "had to be made: counts by 'new shape', 'evicted' by the limit of bytes, 'too large' "
           "for it, "
           "'policy', 'busy' in another context, 'refused' updates, 'lost' to a failure), and "
           "`last_miss`, the reason of the last instantiation in words.")
      .def_prop_ro(
          "_records_calls",
          [](const py_context& self) { return self.state->use_graph && self.state->host_memory; },
          nb::sig("def _records_calls(self) -> bool"),
          "Whether functions become nodes that call them.")
      .def_prop_ro(
          "machine", [](const py_context& self) { return self.state->on; },
          nb::sig("def machine(self) -> millstream.machine"), "The machine of the context.")
      .def(
          "__enter__",
          [](nb::pointer_and_handle<py_context> self) {
            if (!self.p->state->empty) check_live(*self.p->state, "with");
            return nb::borrow(self.h);
          },
          nb::sig("def __enter__(self) -> millstream.context"),
          "The context itself; UsageError after `finalize`.")
      .def("__exit__", &leave, "exc_type"_a.none(), "exc"_a.none(), "traceback"_a.none(),
           nb::sig("def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> "
                   "typing.Literal[False]"),
           "`finalize`. After an exception that exception goes on, and what tasks raised and "
           "nobody has seen yet becomes notes of it.")
      .def("__repr__", &repr_of);
}

}  // namespace

py_context::py_context(std::shared_ptr<context_state> lent)
    : state(std::move(lent)), borrowed(true), list([] {
        static constinit std::atomic<std::uint64_t> last{0};
        return ++last;
      }()) {}

py_context::~py_context() {
  if (!state->is_of_this_process()) {
    static_cast<void>(new std::shared_ptr<context_state>(std::move(state)));
    return;
  }
  if (borrowed) return;
  if (state->finalized.get()) {
    if (state->caller_stream) state->warn_of_unseen();
    return;
  }
  {
    const nb::error_scope keep_pending;
    if (PyErr_ResourceWarning(nullptr, 1,
                              "a context was dropped without an explicit finalize; its results "
                              "are not written back") != 0) {
      PyErr_WriteUnraisable(nullptr);
    }
  }
  state->core.abandon();
  state->forget_exceptions();
}

namespace {

// The exceptions of bodies lead through their frames to the context that keeps them.
int traverse(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  if (nb::inst_ptr<py_context>(self)->borrowed) return 0;  // each exception is visited once
  const auto& state = nb::inst_ptr<py_context>(self)->state;
  return state->visit(visit, arg, state.use_count() == 1);
}

int clear(PyObject* self) noexcept {
  if (!nb::inst_ready(self)) return 0;
  const auto& context = *nb::inst_ptr<py_context>(self);
  if (!context.borrowed) context.state->forget_exceptions();
  return 0;
}

const std::array<PyType_Slot, 3> collector_slots{{
    {Py_tp_traverse, reinterpret_cast<void*>(&traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&clear)},
    {0, nullptr},
}};

}  // namespace

void bind_context(nb::module_& core) {
  nb::class_<py_context> type(
      core, "context", nb::is_weak_referenceable(), nb::type_slots(collector_slots.data()),
      "Orders tasks and owns data. Any thread may use it. Use it with `with`, or call `finalize`: "
      "a context that is dropped without gives a ResourceWarning and writes nothing back.");
  type.def(
      "__init__",
      [](py_context* self, nb::handle use_graph, nb::handle borrowed, nb::handle stream,
         nb::handle handle, nb::handle on, nb::handle check,
         nb::handle trace) { open(self, {use_graph, borrowed, handle}, stream, on, check, trace); },
      "use_graph"_a.none() = false, "borrowed"_a.none() = false, "stream"_a = nb::none(),
      "handle"_a = nb::none(), nb::kw_only(), "machine"_a = nb::none(), "check"_a.none() = false,
      "trace"_a.none() = false,
      nb::sig("def __init__(self, use_graph: bool = False, borrowed: bool = False, "
              "stream: object = None, handle: millstream.async_resources | None = None, *, "
              "machine: millstream.machine | None = None, check: bool = False, "
              "trace: bool = False) -> None"),
      "`stream`: a stream of the caller's (a handle, 0 for the default stream, or an object with "
      "`__cuda_stream__`); everything is ordered behind its work of now, and `finalize` queues the "
      "rest on it and returns at once. On host machines only the number of a queue, as from "
      "`fence`, is a stream; ValueError for others. `machine`: None is the default machine. "
      "`check`: checker mode. A body that changes what it "
      "only reads has failed; what it only writes holds a pattern before; an array used after its "
      "task raises UsageError, and a function that keeps one gives a ContractWarning. `trace`: "
      "keep what `graph` and `trace` show. `handle`: an `async_resources`, kept alive, or None. "
      "`borrowed`: True makes an object without a context, of which nothing can be asked (see "
      "`logical_data.borrow_ctx_handle`). `use_graph`: tasks are recorded into a graph of the "
      "machine, "
      "which `fence`, `wait`, `finalize`, and on host machines a task with a `with` body, launch; "
      "the same shape again costs an update of an executable graph instead of a new one.");
  bind_making(type);
  bind_filling(type);
  bind_working(type);
  bind_kernels(type);
  bind_graphs(type);
  bind_watching(type);
  note_direct_call(type, "logical_data_empty", &logical_data_empty_directly);
  note_direct_call(type, "task", &task_directly);
  note_direct_call(type, "submit", &submit_directly);
}

}  // namespace millstream::python
