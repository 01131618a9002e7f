// SPDX-License-Identifier: Apache-2.0
#include "graph.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include "bind.hpp"
#include "body.hpp"
#include "caller.hpp"
#include "convert.hpp"
#include "data.hpp"
#include "task.hpp"

namespace millstream::python {
namespace {

using namespace nb::literals;

std::uint64_t native_handle(context_state& state, nb::handle graph) {
  if (PyLong_Check(graph.ptr()) != 0 && PyBool_Check(graph.ptr()) == 0) {
    return to_index(graph, "graph");
  }
  static constinit lazy_name find("millstream._graph", "find");
  const auto handle = nb::cast<std::uint64_t>(nb::object(find.get()(graph)));
  state.keep_graph(graph);  // with the memory that its nodes use
  return handle;
}

void add_graph(py_context& self, nb::handle graph, const nb::args& deps, nb::handle place,
               nb::handle symbol) {
  context_state& state = *self.state;
  check_live(state, "add_graph()");
  const source_site site = caller_site();
  const std::string_view name = to_name(symbol, "symbol");
  std::vector<task_dep> accesses;
  for (const nb::handle each : deps)
    accesses.push_back(to_task_dep(state, each, {site, "add_graph()", name}));
  task_spec spec;
  spec.place = to_exec_place(place, "place");
  spec.symbol = name;
  spec.site = site;
  spec.deps = accesses;
  const auto* const ours = as<py_graph>(graph);
  with_details([&] { return error_details{std::string(name), {}, site}; },
               [&] {
                 const std::uint64_t native = ours == nullptr ? native_handle(state, graph) : 0;
                 const may_block section;
                 if (ours != nullptr) {
                   state.core.add_graph(spec, ours->graph);
                 } else {
                   state.core.add_graph(spec, native);
                 }
               });
}

nb::object to_graph(py_context& self) {
  check_live(*self.state, "to_graph()");
  if (self.borrowed) {
    throw error(errc::usage,
                "to_graph() would end a borrowed context; call it on the one it comes from");
  }
  context_state& state = *self.state;
  const nb::object failed = combine(state.core.take_failures());
  if (failed.is_valid()) throw_python(failed);
  recorded_graph given;
  {
    const may_block section;
    given = state.core.give_graph(self.state);
  }
  state.finalized.set(true);
  state.given.set(true);
  return nb::cast(std::make_unique<py_graph>(self.state, std::move(given)).release(),
                  nb::rv_policy::take_ownership);
}

nb::object launch(py_graph& self, nb::handle stream) {
  std::optional<std::uint64_t> on;
  if (!stream.is_none()) on = to_stream(stream);
  std::uint64_t number = 0;
  {
    const may_block section;
    number = self.graph.launch(on);
  }
  return from_stream(number);
}

void check_errors(py_graph& self) {
  const nb::object failed = combine(self.graph.take_failures(1));
  if (failed.is_valid()) throw_python(failed);
}

std::string repr_of(const py_graph& self) {
  return "recorded_graph(" + std::to_string(self.graph.node_count()) + " nodes, " +
         self.from->on->repr() + ")";
}

}  // namespace

py_graph::~py_graph() {
  if (!from->is_of_this_process()) {
    static_cast<void>(new recorded_graph(std::move(graph)));
    static_cast<void>(new std::shared_ptr<context_state>(std::move(from)));
    return;
  }
  from->warn_of_unseen();
}

void bind_graphs(nb::class_<py_context>& context) {
  context
      .def(
          "add_graph", &add_graph, "graph"_a.none(), "deps"_a, "place"_a = nb::none(),
          "symbol"_a = nb::none(),
          nb::sig("def add_graph(self, graph: object, *deps: dep, "
                  "place: millstream.exec_place | None = None, symbol: str | None = None) -> None"),
          "A graph that was made elsewhere as one task, which uses the data of `deps`. It does so "
          "at addresses of its own, so declare each at the place of its buffer, a NumPy array as "
          "`data.rw(data_place.host())`. `graph`: what `to_graph` gave, or a CUgraph, as an int or "
          "as an "
          "object "
          "that has one (of cuda.core, cuda.bindings, or a torch.cuda.CUDAGraph that keeps its "
          "graph). With `use_graph` it becomes one node, a copy of the graph as it is now; else it "
          "is instantiated, or an executable of the same shape is updated, and launched; on a GPU "
          "that waits until such an array has its content, and ends the stage of a context with "
          "`use_graph` in which host functions are nodes (`uses_device=False`). The graph "
          "stays the caller's, and a handle may be destroyed after this; an object is kept until "
          "the context is finalized. TypeError for other objects, ValueError for the host place "
          "and for what is no graph of this machine, UnsupportedError (a RuntimeError), naming the "
          "task, for handles on host machines and for nodes that no recording takes (allocations, "
          "frees, conditions).")
      .def("to_graph", &to_graph, nb::sig("def to_graph(self) -> millstream.recorded_graph"),
           "Ends a context with `use_graph` without launching it: what was recorded, write-backs "
           "included, becomes a graph that owns all that it uses. Each launch does all of it once: "
           "it reads the registered arrays as they are then, and writes them. The context is "
           "finalized. Raises what tasks raised and nobody has seen yet. UsageError, and the "
           "context "
           "goes on: without `use_graph` or on a caller's stream, while a task is open, after "
           "something was launched (`fence`, `wait`) or ran by itself (a `with` body on host "
           "machines, where `submit` is recorded, or a host function on a GPU machine).");
}

void bind_graph(nb::module_& core) {
  nb::class_<py_graph>(
      core, "recorded_graph", nb::is_weak_referenceable(),
      "A graph that `context.to_graph` gave. It keeps what its nodes use, memory, "
      "functions, arrays, "
      "until it is gone and so are all graphs and executables that were made of "
      "it, by whomever; one of them that leads to this object keeps it for good. Two "
      "launches by `launch` never overlap; copies in other graphs share its "
      "memory and are ordered by who makes them. Any thread may use it.")
      .def(
          "launch", &launch, "stream"_a = nb::none(),
          nb::sig("def launch(self, stream: object = None) -> millstream.CudaStream"),
          "Queues one launch on a stream of the caller's (None: one of ours), and "
          "gives the stream, for `synchronize`. Does not wait for the launch, but on a GPU for the "
          "one before if the graph has host functions, and perhaps, as its driver does, for copies "
          "to arrays that are not page-locked. On host machines a stream is the number of a "
          "queue. "
          "On a stream that is captured it becomes one node of what is captured.")
      .def_prop_ro(
          "handle", [](const py_graph& self) { return self.graph.handle(); },
          nb::sig("def handle(self) -> int"),
          "The CUgraph, which stays this object's: instantiate or copy it, but neither change nor "
          "destroy it. 0 on host machines.")
      .def_prop_ro(
          "node_count", [](const py_graph& self) { return self.graph.node_count(); },
          nb::sig("def node_count(self) -> int"), "Nodes as recorded.")
      .def(
          "native_dot", [](const py_graph& self) { return self.graph.native_dot(); },
          "The graph as the machine sees it, in the DOT language.")
      .def(
          "check_errors", &check_errors,
          "Raises the oldest exception of a task in a launch that nobody has seen yet, if there is "
          "one. A failed task spoils its launch only: what comes after it there is skipped, and "
          "the arrays of these are not written. What is never asked for becomes a "
          "TaskFailedWarning.")
      .def_prop_ro(
          "machine", [](const py_graph& self) { return self.from->on; },
          nb::sig("def machine(self) -> millstream.machine"), "The machine of the graph.")
      .def("__repr__", &repr_of);
}

}  // namespace millstream::python
