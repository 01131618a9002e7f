// SPDX-License-Identifier: Apache-2.0
/// Memory outside of contexts, on the default machine.
#pragma once

#include <cstdint>

#include <millstream/place.hpp>

#include "interpreter.hpp"

namespace millstream::python {

/// What `data_place.allocate` and `deallocate` do. `stream` as for `to_stream`; ValueError for a
/// negative number of bytes, OutOfMemoryError where there is no room.
[[nodiscard]] std::uintptr_t allocate_at(data_place place, nb::handle bytes, nb::handle stream);
void deallocate_at(data_place place, nb::handle pointer, nb::handle bytes, nb::handle stream);

}  // namespace millstream::python
