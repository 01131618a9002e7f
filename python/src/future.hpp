// SPDX-License-Identifier: Apache-2.0
/// Futures: the engine's notices as objects of `millstream.Future`.
#pragma once

#include <memory>

#include "data.hpp"

namespace millstream::python {

/// `context.done()`.
[[nodiscard]] nb::object future_of_all(const std::shared_ptr<context_state>& state);
/// `logical_data.get()`.
[[nodiscard]] nb::object future_of_content(const py_data& data);

}  // namespace millstream::python
