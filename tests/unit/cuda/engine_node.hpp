// SPDX-License-Identifier: Apache-2.0
/// Host functions that are declared not to use the device, for the tests of what becomes of them.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>

#include "tests/unit/cuda/engine_host.hpp"

namespace millstream::test {

template <class Body>
void run_declared(untyped_context& on, std::initializer_list<task_dep> deps, Body&& body,
                  std::string_view name = {}, exec_place place = exec_place::host()) {
  task_spec what;
  what.kind = task_kind::host_launch;
  what.place = place;
  what.symbol = name;
  what.deps = {deps.begin(), deps.size()};
  what.uses_device = false;
  on.submit(what, make_body(std::forward<Body>(body)));
}

[[nodiscard]] inline recording_stats counts(const untyped_context& on) {
  return on.stats().recording;
}

/// Whether the driver takes calls of this thread.
[[nodiscard]] inline bool may_call_the_driver() {
  abi::context now = nullptr;
  return cuda_driver().call.cuCtxGetCurrent(&now) == abi::result::success;
}

}  // namespace millstream::test
