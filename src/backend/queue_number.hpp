// SPDX-License-Identifier: Apache-2.0
/// Numbers for queues of machines that have no native streams.
#pragma once

#include <cstdint>

namespace millstream::backend {

/// Never 0 and never the same twice in a process. Starts above the small numbers that GPU libraries
/// give a meaning (1 and 2 name default streams there). Any thread.
[[nodiscard]] std::uint64_t next_queue_number() noexcept;

}  // namespace millstream::backend
