// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "convert.hpp"
#include "data.hpp"
#include "direct.hpp"
#include "task.hpp"
#include "view.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

auto details_of(const py_task& self) {
  return [&self] { return error_details{self.core.name(), {}, self.site}; };
}

}  // namespace

void add_dep(py_task& self, nb::handle dep) {
  self.core.add_dep(to_task_dep(*self.state, dep, {self.site, "a task", self.symbol}));
  self.data.push_back(data_object(dep));
}

namespace {

void add_access(py_task& self, const py_dep& access) {
  self.core.add_dep(to_task_dep(*self.state, access, {self.site, "a task", self.symbol}));
  self.data.push_back(access.ld);
}

}  // namespace

void set_symbol(py_task& self, std::string_view symbol) {
  self.core.set_symbol(symbol);
  self.symbol = symbol;
}

void set_exec_place(py_task& self, nb::handle place) {
  if (place.is_none()) {
    throw error(errc::invalid_type, "'place' is None; pass an exec_place");
  }
  self.core.set_place(to_exec_place(place, "place"));
}

void start(py_task& self) {
  with_details(details_of(self), [&self] {
    const may_block section;
    self.core.start();
  });
}

namespace {

std::vector<std::string> data_names(const py_task& self) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < self.data.size(); ++i)
    names.push_back(name_of(nb::inst_ptr<py_data>(self.data[i])->data));
  return names;
}

class in_use {
 public:
  explicit in_use(py_task& task) noexcept : task_(task) { ++task_.uses; }
  ~in_use() { --task_.uses; }
  in_use(const in_use&) = delete;
  in_use& operator=(const in_use&) = delete;

 private:
  py_task& task_;
};

}  // namespace

void check_unused(const py_task& self) {
  if (self.uses == 0) return;
  throw error(errc::usage, self.core.name() +
                               " cannot end while its arrays are being made; end it after the "
                               "call that asks for them");
}

// The data may be let go now, unless somebody else has it.
void close_body(py_task& self) {
  if (self.arguments) {
    self.arguments->close(
        self.site, [&self] { return self.core.name(); }, [&self] { return data_names(self); });
    self.arguments.reset();
  }
  self.tuple = {};
  self.scope.reset();
}

namespace {

void let_go(py_task& self) {
  close_body(self);
  self.data.clear();
}

}  // namespace

void end_task(py_task& self) {
  check_unused(self);
  try {
    with_details(details_of(self), [&self] {
      if (self.scope) self.scope->finish();
      const may_block section;
      self.core.end();
    });
  } catch (...) {
    const nb::error_scope keep_pending;  // of an interrupt
    if (self.core.is_ended()) let_go(self);
    throw;
  }
  let_go(self);
}

void fail_task(py_task& self, nb::handle value) {
  check_unused(self);
  const python_exception cause(nb::borrow(value));
  self.state->keep(cause);
  {
    const may_block section;
    self.core.fail(std::make_exception_ptr(cause));
  }
  if (self.core.is_ended()) let_go(self);  // else another thread is about to end it
}

namespace {

nb::object enter(nb::pointer_and_handle<py_task> self) {
  start(*self.p);
  return nb::borrow(self.h);
}

bool leave(py_task& self, nb::handle type, nb::handle value, nb::handle) {
  if (self.core.is_ended()) return false;
  if (type.is_none()) {
    end_task(self);
  } else {
    fail_task(self, value.is_none() ? type : value);
  }
  return false;
}

}  // namespace

// A body that looks at nothing launches nothing, and pays nothing.
body_scope& scope_of(py_task& self, const body_call& call) {
  if (!self.scope) self.scope.emplace(*self.state, call);
  return *self.scope;
}

namespace {

argument_list& arguments(py_task& self) {
  if (self.arguments) return *self.arguments;
  const body_call call = self.core.call();
  if (self.state->native_memory) scope_of(self, call);
  std::vector<argument_list::entry> entries;
  entries.reserve(self.data.size());
  for (std::size_t i = 0; i < self.data.size(); ++i) {
    const auto& data = *nb::inst_ptr<py_data>(self.data[i]);
    const task_dep& dep = self.core.dep(i);
    entries.push_back({data.what,
                       data.data.state(),
                       call.pointers[i],
                       writes(dep.mode),
                       home_of(*self.state, dep.place, call.device),
                       self.data[i],
                       {},
                       {}});
  }
  self.arguments.emplace(std::move(entries), self.state, call.queue);
  return *self.arguments;
}

// A collection of garbage inside of `get` may run code that ends the task.
template <class Get>
nb::object of_arguments(py_task& self, Get&& get) {
  argument_list& list = arguments(self);
  const in_use now(self);
  return get(list);
}

}  // namespace

nb::object get_arg_cai(py_task& self, nb::handle index) {
  const std::size_t number = to_index(index, "index");  // may end the task
  return of_arguments(self, [&](argument_list& list) { return list.view(number); });
}

namespace {

// As `described`, where all of them are kept; else null. Needs no list of arguments.
nb::object kept_descriptions(const py_task& self, const body_call& call, nb::handle maker) {
  const context_state& in = *self.state;
  std::array<nb::object, 16> found;  // what collects garbage may drop them
  std::size_t count = 0;
  for (std::size_t i = 0; i < self.data.size(); ++i) {
    const layout_ptr& what = nb::inst_ptr<py_data>(self.data[i])->what;
    if (!what) continue;
    const argument_home home = home_of(in, self.core.dep(i).place, call.device);
    if (!is_device_memory(in, home) || count == found.size()) return {};
    found[count] = kept_description(*what, call.pointers[i], home.place.index(), maker);
    if (!found[count++].is_valid()) return {};
  }
  return make_tuple_of(count, [&](std::size_t i) { return std::move(found[i]); });
}

}  // namespace

nb::object described(py_task& self, nb::handle maker) {
  if (!self.arguments && self.state->native_memory) {
    const body_call call = self.core.call();
    scope_of(self, call);
    const in_use now(self);
    nb::object known = kept_descriptions(self, call, maker);
    if (known.is_valid()) return known;
  }
  return of_arguments(self, [&](argument_list& list) { return list.described(maker); });
}

std::uint64_t stream_of(py_task& self) {
  if (self.scope && self.core.is_open()) return self.scope->stream();
  const body_call call = self.core.call();
  return self.state->native_memory ? scope_of(self, call).stream() : call.queue;
}

namespace {

nb::object args(py_task& self) {
  if (!self.tuple.is_valid()) {
    self.tuple = of_arguments(self, [](argument_list& list) { return list.arrays(); });
  }
  return self.tuple;
}

nb::object stream_ptr(py_task& self) {
  return from_stream(stream_of(self));
}

// For the adapters: what they ask of each task, in one call.
nb::object where(py_task& self) {
  const nb::object stream = stream_ptr(self);
  if (!self.state->native_memory) return nb::make_tuple(stream, nb::none());
  return nb::make_tuple(stream, self.core.call().device);
}

// Places have one member each as yet.
nb::object get_stream_ptrs(py_task& self) {
  nb::list all;
  all.append(stream_ptr(self));
  return all;
}

void get_stream_at_index(py_task& self, nb::handle index) {
  static_cast<void>(to_index(index, "index"));
  static_cast<void>(self.core.call());
  throw error(errc::usage, "the place of " + self.core.name() +
                               " is no grid, so that it has one stream only; use stream_ptr()");
}

std::uintptr_t get_arg(py_task& self, nb::handle index) {
  const std::size_t number = to_index(index, "index");
  const auto address = reinterpret_cast<std::uintptr_t>(self.core.pointer(number));
  if (self.state->native_memory && !self.scope) scope_of(self, self.core.call());
  return address;
}

nb::object args_cai(py_task& self) {
  return of_arguments(self, [](argument_list& list) { return list.views(); });
}

// Of a call with an index.
py_task* of_indexed_call(call_arguments given) {
  return given.size() != 2 || given[1] == Py_None ? nullptr : as<py_task>(given[0]);
}

nb::object get_arg_directly(call_arguments given) {
  auto* const self = of_indexed_call(given);
  if (self == nullptr) return {};
  const call_guard held(self->lock);
  return nb::int_(get_arg(*self, given[1]));
}

nb::object get_arg_cai_directly(call_arguments given) {
  auto* const self = of_indexed_call(given);
  if (self == nullptr) return {};
  const call_guard held(self->lock);
  return get_arg_cai(*self, given[1]);
}

nb::object args_cai_directly(call_arguments given) {
  auto* const self = given.size() == 1 ? as<py_task>(given[0]) : nullptr;
  if (self == nullptr) return {};
  const call_guard held(self->lock);
  return args_cai(*self);
}

nb::object stream_ptr_directly(call_arguments given) {
  auto* const self = given.size() == 1 ? as<py_task>(given[0]) : nullptr;
  if (self == nullptr) return {};
  const call_guard held(self->lock);
  return stream_ptr(*self);
}

}  // namespace

std::string shown(const py_task& self, const char* class_name) {
  const char* state = "not started";
  if (self.core.is_open()) state = "open";
  if (self.core.is_ended()) state = "ended";
  return std::string(class_name) + "(" + self.core.name() + ", " +
         std::to_string(self.core.dep_count()) + " deps, " + state + ")";
}

py_task::py_task(std::shared_ptr<context_state> in, source_site at)
    : state(std::move(in)), core(state->core, at), site(at) {}

// In a forked child the engine of the parent is out of reach, so the task leaks.
py_task::~py_task() {
  if (state && !state->is_of_this_process()) static_cast<void>(new untyped_task(std::move(core)));
}

void add_part(py_task& self, nb::handle part, bool& placed) {
  if (const auto* const access = as<py_dep>(part)) return add_access(self, *access);
  nb::object keep;
  const exec_place* const place = find_exec_place(part, keep);
  if (place == nullptr) add_dep(self, part);  // says what is wrong with it
  if (placed) {
    throw error(errc::invalid_value, "a task got two execution places; pass one");
  }
  self.core.set_place(*place);
  placed = true;
}

void bind_task(nb::module_& core) {
  nb::class_<py_task>(
      core, "task", nb::pooled(),
      "A task whose body is written between `start` and `end`, or inside `with`. "
      "On a GPU it launches work on `stream_ptr`; from the first look at that or at "
      "an argument until the end, the device of the task is current. "
      "On host devices the body is ordinary Python: `start` waits until the data "
      "are ready. A body that raises fails the task: data it was to write are "
      "poisoned.")
      .def("add_dep", locked(&add_dep), "dep"_a, nb::sig("def add_dep(self, dep: dep) -> None"),
           "Adds an access, before `start`. TypeError for what is no dep of a logical_data, "
           "ValueError for data of a different context or writing to read-only data.")
      .def("set_exec_place", locked(&set_exec_place), "place"_a,
           nb::sig("def set_exec_place(self, place: exec_place) -> None"),
           "Where the task runs; before `start`.")
      .def("set_symbol",
           locked(+[](py_task& self, nb::handle name) { set_symbol(self, to_text(name, "name")); }),
           "name"_a, nb::sig("def set_symbol(self, name: str) -> None"),
           "Names the task in messages and graphs; before `start`.")
      .def("start", locked(&start),
           "Makes the data ready. Waits for them on host devices, letting other threads run. "
           "PoisonedError if an input is, NotWrittenError if nothing has written it, "
           "OutOfMemoryError, DeadlockError, UsageError when started twice or when this thread has "
           "a conflicting task open.")
      .def("end", locked(&end_task),
           "Ends the task; does not wait, but where it is recorded beside a task that another "
           "thread "
           "has open, for that one's end. UsageError unless started.")
      .def("__enter__", locked(&enter), nb::sig("def __enter__(self) -> millstream.task"),
           "`start`, then the task itself.")
      .def("__exit__", locked(&leave), "exc_type"_a.none(), "exc"_a.none(), "traceback"_a.none(),
           nb::sig("def __exit__(self, exc_type: object, exc: object, traceback: object, /) -> "
                   "typing.Literal[False]"),
           "`end`; after an exception the task has failed, and the exception goes on. If Ctrl-C "
           "ends "
           "a wait of `end`, the task has failed, too.")
      .def("__iter__", locked(+[](py_task& self) { return nb::iter(args(self)); }),
           nb::sig("def __iter__(self) -> collections.abc.Iterator[typing.Any]"),
           "Iterates over `args()`, so that ``with ctx.task(a.read()) as (x,):`` works.")
      .def("__getitem__", locked(+[](py_task& self, nb::handle key) {
             const auto wanted = argument_list::to_key(key);
             return of_arguments(self, [&](argument_list& list) { return list.item(wanted); });
           }),
           "key"_a, nb::sig("def __getitem__(self, key: int | logical_data) -> typing.Any"),
           "Array of a dependency, by position (tokens counted) or by datum. IndexError past the "
           "list, KeyError for other data, RuntimeError for a token.")
      .def("args", locked(&args), nb::sig("def args(self) -> tuple[typing.Any, ...]"),
           "One array per dependency that is no token: NumPy arrays on host devices (read-only "
           "for `read` accesses), else the views of `args_cai`. Valid until the task ends.")
      .def("stream_ptr", locked(&stream_ptr),
           nb::sig("def stream_ptr(self) -> millstream.CudaStream"),
           "Stream of the task, never 0: a raw handle on a GPU machine, else the number of its "
           "queue. On the host of a GPU machine it is a stream of the current device, and `end` "
           "waits for what the body queued there. Only while the task is open.")
      .def("get_stream_ptrs", locked(&get_stream_ptrs),
           nb::sig("def get_stream_ptrs(self) -> list[millstream.CudaStream]"),
           "The streams of the members of the place: a list with `stream_ptr()`. Only while the "
           "task is open.")
      .def("get_stream_at_index", locked(&get_stream_at_index), "index"_a,
           nb::sig("def get_stream_at_index(self, index: int) -> int"),
           "The stream of member `index` of a grid. RuntimeError for a place that is none, as all "
           "are in this version.")
      .def("get_grid_dims", locked(+[](py_task& self) { static_cast<void>(self.core.call()); }),
           nb::sig("def get_grid_dims(self) -> tuple[int, ...] | None"),
           "Extents of the place as a grid; None for a place with one member. Only while the task "
           "is open.")
      .def("get_arg", locked(&get_arg), "index"_a, nb::sig("def get_arg(self, index: int) -> int"),
           "Address of dependency `index`, tokens counted. IndexError past the list, RuntimeError "
           "for a token or when the task is not open.")
      .def("get_arg_cai", locked(&get_arg_cai), "index"_a,
           nb::sig("def get_arg_cai(self, index: int) -> stf_cai"),
           "View of dependency `index`; errors as `get_arg`.")
      .def("args_cai", locked(&args_cai),
           nb::sig("def args_cai(self) -> stf_cai | tuple[stf_cai, ...] | None"),
           "Views of all dependencies but tokens: None, one view, or a tuple.")
      .def("_where", locked(&where),
           nb::sig("def _where(self) -> tuple[millstream.CudaStream, int | None]"),
           "`stream_ptr`, and the device: -1 for the host, None on machines without GPU streams.")
      .def(
          "_capsules", locked(+[](py_task& self) {
            return of_arguments(self, [](argument_list& list) { return list.capsules(); });
          }),
          nb::sig("def _capsules(self) -> tuple[object, ...] | None"),
          "DLPack capsules of all dependencies but tokens, without an order of streams; None where "
          "one of them has none that a GPU library takes.")
      .def(
          "_described", locked(&described), "maker"_a,
          nb::sig("def _described(self, maker: collections.abc.Callable[[stf_cai], typing.Any]) -> "
                  "tuple[typing.Any, ...] | None"),
          "What `maker` made of the view of each dependency but tokens, once for each address; "
          "None unless all are memory of devices.")
      .def("__repr__", locked(+[](py_task& self) { return shown(self, "task"); }));
  const nb::handle type = nb::type<py_task>();
  note_direct_call(type, "__enter__", &enter_directly<py_task, &enter>);
  note_direct_call(type, "__exit__", &leave_directly<py_task, &leave>);
  note_direct_call(type, "get_arg", &get_arg_directly);
  note_direct_call(type, "get_arg_cai", &get_arg_cai_directly);
  note_direct_call(type, "args_cai", &args_cai_directly);
  note_direct_call(type, "stream_ptr", &stream_ptr_directly);
}

}  // namespace millstream::python
