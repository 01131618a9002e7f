// SPDX-License-Identifier: Apache-2.0
/// What a context recorded, as plain Python values.
#pragma once

#include <millstream/machine.hpp>
#include <millstream/trace.hpp>

#include "interpreter.hpp"

namespace millstream::python {

/// {"nodes": [...], "edges": [...], "data": [...], "machine": {...}}; the fields of the C++
/// structures by name, enumerations as strings, `site` as "file" and "line".
[[nodiscard]] nb::dict to_dict(const trace_snapshot& snapshot, const machine& on);

}  // namespace millstream::python
