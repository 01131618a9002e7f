// SPDX-License-Identifier: Apache-2.0
/// Python functions as task bodies: `submit` and `host_launch`.
#pragma once

#include <cstdint>
#include <memory>

#include <millstream/untyped.hpp>

#include "context.hpp"

namespace millstream::python {

struct body_arguments {
  const char* who = "";  ///< the method, for messages
  nb::object function;
  nb::object arguments;  ///< tuple, given to the function after the arrays
  task_kind kind = task_kind::submit;
  exec_place place;
  std::string_view symbol;
  std::uint64_t list = 0;  ///< `py_context::list` of the context it is submitted through
};

/// Hands `function` over. All deps (an iterable) are checked before anything is made. The function
/// and its arguments are released on the thread that ran it, before the task counts as ended.
void submit_body(const std::shared_ptr<context_state>& state, const body_arguments& what,
                 const nb::tuple& deps);

}  // namespace millstream::python
