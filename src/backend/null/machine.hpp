// SPDX-License-Identifier: Apache-2.0
/// The null machine: counts every call and runs nothing. It shows what the engine itself costs and
/// which calls it makes.
#pragma once

#include <cstddef>

#include "backend/machine.hpp"

namespace millstream::backend::null {

struct null_options {
  /// Switches the capability off: device queues then refuse jobs, as those of a GPU do.
  bool runs_jobs = true;
  std::size_t memory_bytes = 0;  ///< of each device and of the host side; 0 = 1 TiB
};

/// Copies, fills, marks and waits are over as soon as they are queued and have no effect; jobs are
/// discarded inside `queue::run`, on host queues too. Memory is distinct addresses that may be
/// touched but mean nothing. Any device code loads, any entry is found in it, and graphs count
/// their nodes by kind; a launch discards the jobs. `options.devices` of 0 means 1; a seed changes
/// nothing. No call takes a lock, but for those that make objects or hand out memory.
[[nodiscard]] machine_result open(const open_options& options);
[[nodiscard]] machine_result open_with(const open_options& options, const null_options& more);

}  // namespace millstream::backend::null
