// SPDX-License-Identifier: Apache-2.0
/// The Python class `recorded_graph`, and what contexts do with graphs.
#pragma once

#include <memory>

#include <millstream/untyped.hpp>

#include "context.hpp"

namespace millstream::python {

/// The context's state is kept by what the graph uses, and here for those failures of launches that
/// nobody has asked for when the last handle goes.
struct py_graph {
  std::shared_ptr<context_state> from;
  recorded_graph graph;

  py_graph(std::shared_ptr<context_state> context, recorded_graph recorded)
      : from(std::move(context)), graph(std::move(recorded)) {}
  py_graph(const py_graph&) = delete;
  py_graph& operator=(const py_graph&) = delete;
  ~py_graph();
};

/// `add_graph` and `to_graph`.
void bind_graphs(nb::class_<py_context>& context);

}  // namespace millstream::python
