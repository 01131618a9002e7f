// SPDX-License-Identifier: Apache-2.0
/// The host machine: simulated devices that really execute, on CPU threads.
#pragma once

#include <cstddef>

#include "backend/machine.hpp"

namespace millstream::backend::host {

struct host_options {
  std::size_t memory_bytes = 0;  ///< of each device and of the host side; 0 = default
};

/// `options.devices` of 0 means MILLSTREAM_HOST_DEVICES, else one for every two cores but at least
/// two. Each device and the host side have MILLSTREAM_HOST_MEMORY bytes, else an equal part of the
/// machine's memory. With `options.seed` the machine runs in seed mode (scheduler.hpp): one
/// operation at a time, in a legal order that the seed chooses, and only while somebody waits.
/// `invalid_value` names the variable that is wrong and what it allows.
[[nodiscard]] machine_result open(const open_options& options);
[[nodiscard]] machine_result open_with(const open_options& options, const host_options& more);

}  // namespace millstream::backend::host
