// SPDX-License-Identifier: Apache-2.0
/// The Python class `async_resources`.
#pragma once

#include "interpreter.hpp"

namespace millstream::python {

/// Streams are pooled by the machine, for all contexts of the process, so that nothing has to be
/// kept here: the object says which contexts belong together.
struct py_resources {};

/// The argument `handle` of a context: None or an async_resources; TypeError for others.
[[nodiscard]] nb::object to_resources(nb::handle handle);

}  // namespace millstream::python
