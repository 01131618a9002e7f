// SPDX-License-Identifier: Apache-2.0
/// The Python class `async_resources`.
#pragma once

#include <millstream/untyped.hpp>

#include "interpreter.hpp"

namespace millstream::python {

/// Streams are pooled by the machine, for all contexts of the process; what is kept here are the
/// executable graphs of recorded contexts.
struct py_resources {
  shared_resources shared;
};

/// The argument `handle` of a context: None or an async_resources; TypeError for others.
[[nodiscard]] nb::object to_resources(nb::handle handle);

}  // namespace millstream::python
