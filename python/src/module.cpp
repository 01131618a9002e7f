// SPDX-License-Identifier: Apache-2.0
/// The extension module `millstream._core`: conversions between Python and the public C++ API.
#include <nanobind/nanobind.h>

#include <millstream/version.hpp>

#include "bind.hpp"

NB_MODULE(_core, core) {
  using namespace millstream::python;
  // Users keep objects alive until the interpreter ends; that is no fault. Tests turn it on.
  nanobind::set_leak_warnings(false);
  core.attr("__doc__") = "The compiled part of millstream; import millstream instead.";
  core.attr("_version") = MILLSTREAM_VERSION;
  bind_direct(core);
  bind_errors(core);
  bind_interpreter(core);
  bind_place(core);
  bind_machine(core);
  bind_memory(core);
  bind_access(core);
  bind_data(core);
  bind_future(core);
  bind_view(core);
  bind_task(core);
  bind_kernel(core);
  bind_body(core);
  bind_graph(core);
  bind_resources(core);
  bind_context(core);
  bind_torch_block(core);
  bind_numba_block(core);
  core.def(
      "_set_leak_warnings", [](bool on) { nanobind::set_leak_warnings(on); },
      "For tests: say at exit which objects were never released.");
}
