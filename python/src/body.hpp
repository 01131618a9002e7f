// SPDX-License-Identifier: Apache-2.0
/// Python functions as task bodies: `submit` and `host_launch`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

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
  bool uses_device = true;
  std::uint64_t list = 0;  ///< `py_context::list` of the context it is submitted through
};

class python_body;

/// One function that is being submitted.
class body_submission {
 public:
  /// Both arguments stay as they are for as long as this is there.
  body_submission(const std::shared_ptr<context_state>& state, const body_arguments& what,
                  std::size_t dep_count);
  ~body_submission();
  body_submission(const body_submission&) = delete;
  body_submission& operator=(const body_submission&) = delete;

  void add(nb::handle dep);  ///< with all checks
  void hand_over();

 private:
  const std::shared_ptr<context_state>& state_;
  const body_arguments& what_;
  const source_site site_;
  std::vector<task_dep> accesses_;
  std::unique_ptr<python_body, body_deleter> work_;
};

/// Hands `function` over. All deps are checked before. The function and its arguments are released
/// on the thread that ran it, before the task counts as ended.
template <class Deps>
void submit_body(const std::shared_ptr<context_state>& state, const body_arguments& what,
                 const Deps& deps) {
  body_submission made(state, what, deps.size());
  for (const nb::handle each : deps)
    made.add(each);
  made.hand_over();
}

}  // namespace millstream::python
