// SPDX-License-Identifier: Apache-2.0
/// The Python class `machine`: options that are resolved at the first use.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <millstream/machine.hpp>

#include "locks.hpp"

namespace millstream::python {

/// One per process for equal arguments. Any thread.
class py_machine {
 public:
  explicit py_machine(machine_options options) : options_(std::move(options)) {}

  [[nodiscard]] const machine_options& options() const noexcept { return options_; }
  /// Opens it at the first call; throws as `millstream::machine` does.
  [[nodiscard]] const machine& opened();
  [[nodiscard]] std::string repr() const;

 private:
  machine_options options_;
  std::optional<machine> opened_;
  shared_value<bool> is_open_{false};
  [[no_unique_address]] short_lock opening_;
};

/// The object for these options, made at the first call and kept.
[[nodiscard]] std::shared_ptr<py_machine> find_machine(const machine_options& options);

}  // namespace millstream::python
