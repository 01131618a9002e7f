// SPDX-License-Identifier: Apache-2.0
/// The Python class `task`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <millstream/untyped.hpp>

#include "body_scope.hpp"
#include "caller.hpp"
#include "context.hpp"
#include "convert.hpp"
#include "locks.hpp"
#include "object_list.hpp"
#include "view.hpp"

namespace millstream::python {

struct py_task {
  py_task(std::shared_ptr<context_state> in, source_site at);
  py_task(py_task&&) noexcept = default;
  py_task& operator=(py_task&&) = delete;
  ~py_task();

  std::shared_ptr<context_state> state;
  untyped_task core;
  object_list data;                        ///< the logical_data of each dependency, until the end
  std::optional<argument_list> arguments;  ///< made at the first look at an array or view
  std::optional<body_scope> scope;         ///< with native calls, from the first look on
  nb::object tuple;                        ///< what `args()` gave
  int uses = 0;  ///< calls that make arrays or views now: code of the user's may run inside of them
  source_site site;
  std::string symbol;  ///< "" = none
  /// Held by all methods: several threads may have the task.
  [[no_unique_address]] call_lock lock;

  friend call_lock& lock_of(py_task& task) noexcept { return task.lock; }
};

// What a task and a `cuda_kernel` have in common: the methods of these names. The lock of the task
// is held.
void add_dep(py_task& self, nb::handle dep);
void set_symbol(py_task& self, std::string_view symbol);
void set_exec_place(py_task& self, nb::handle place);
void start(py_task& self);
void end_task(py_task& self);
/// With a Python exception, or the class of one.
void fail_task(py_task& self, nb::handle value);
[[nodiscard]] nb::object get_arg_cai(py_task& self, nb::handle index);
/// See `argument_list`.
[[nodiscard]] nb::object described(py_task& self, nb::handle maker);
/// The number of `stream_ptr()`.
[[nodiscard]] std::uint64_t stream_of(py_task& self);
/// For `repr`.
[[nodiscard]] std::string shown(const py_task& self, const char* class_name);
/// Throws error(usage) while a call makes arrays or views, inside of which the task would end.
void check_unused(const py_task& self);
/// The device of the task is current from the first call on.
body_scope& scope_of(py_task& self, const body_call& call);
/// Its views are dead now, and the caller's device is current again.
void close_body(py_task& self);

/// One of the arguments of `make_task`: a dep, or an execution place unless it is `placed` already.
void add_part(py_task& self, nb::handle part, bool& placed);
/// `context.task(*parts, symbol)`: deps in the order given and at most one execution place.
template <class Parts>
[[nodiscard]] py_task make_task(const std::shared_ptr<context_state>& state, const Parts& parts,
                                nb::handle symbol) {
  py_task made(state, caller_site());
  if (!symbol.is_none()) set_symbol(made, to_text(symbol, "symbol"));
  bool placed = false;
  for (const nb::handle part : parts)
    add_part(made, part, placed);
  return made;
}

}  // namespace millstream::python
