// SPDX-License-Identifier: Apache-2.0
/// The Python class `async_resources`.
#pragma once

#include <memory>

#include <millstream/untyped.hpp>

#include "interpreter.hpp"
#include "locks.hpp"

namespace millstream::python {

/// Streams are pooled by the machine, for all contexts of the process; what is kept here are the
/// executable graphs of recorded contexts.
class py_resources {
 public:
  explicit py_resources(std::size_t limit_bytes) : shared(limit_bytes) {}

  /// None keeps all executables; TypeError for what cannot be called.
  void set_policy(nb::handle policy);
  /// Null if there is none.
  [[nodiscard]] nb::object policy() const noexcept;
  /// For the garbage collector: what `policy` gives, borrowed.
  [[nodiscard]] nb::handle policy_for_collector() const noexcept;

  shared_resources shared;

 private:
  mutable short_lock lock_;         // guards the next
  std::shared_ptr<py_ref> policy_;  // shared with what the cache calls
};

/// The argument `handle` of a context: None or an async_resources; TypeError for others.
[[nodiscard]] nb::object to_resources(nb::handle handle);

}  // namespace millstream::python
