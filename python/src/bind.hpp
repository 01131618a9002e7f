// SPDX-License-Identifier: Apache-2.0
/// The parts of the extension module, each adding its classes and functions.
#pragma once

#include "interpreter.hpp"

namespace millstream::python {

void bind_access(nb::module_& core);
void bind_body(nb::module_& core);
void bind_context(nb::module_& core);
void bind_data(nb::module_& core);
void bind_direct(nb::module_& core);  // first
void bind_errors(nb::module_& core);
void bind_future(nb::module_& core);
void bind_graph(nb::module_& core);
void bind_interpreter(nb::module_& core);
void bind_kernel(nb::module_& core);
void bind_machine(nb::module_& core);
void bind_memory(nb::module_& core);
void bind_numba_block(nb::module_& core);
void bind_place(nb::module_& core);
void bind_resources(nb::module_& core);
void bind_task(nb::module_& core);
void bind_torch_block(nb::module_& core);
void bind_view(nb::module_& core);

}  // namespace millstream::python
