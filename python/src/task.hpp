// SPDX-License-Identifier: Apache-2.0
/// The Python class `task`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <millstream/untyped.hpp>

#include "body_scope.hpp"
#include "context.hpp"
#include "view.hpp"

namespace millstream::python {

struct py_task {
  py_task(std::shared_ptr<context_state> in, source_site at);
  py_task(py_task&&) noexcept = default;
  py_task& operator=(py_task&&) noexcept = default;
  ~py_task();

  std::shared_ptr<context_state> state;
  untyped_task core;
  std::vector<nb::object> data;            ///< the logical_data of each dependency, until the end
  std::optional<argument_list> arguments;  ///< made at the first look at an array or view
  std::unique_ptr<body_scope> scope;       ///< with native calls, from the first look on
  nb::object tuple;                        ///< what `args()` gave
  int uses = 0;  ///< calls that make arrays or views now: code of the user's may run inside of them
  source_site site;
  std::string symbol;  ///< "" = none
};

/// `context.task(*parts, symbol)`: deps in the order given and at most one execution place.
[[nodiscard]] py_task make_task(const std::shared_ptr<context_state>& state, const nb::args& parts,
                                nb::handle symbol);

}  // namespace millstream::python
