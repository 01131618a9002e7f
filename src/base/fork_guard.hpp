// SPDX-License-Identifier: Apache-2.0
/// Whether this process can still use the machines that were opened in it.
#pragma once

namespace millstream::base {

/// Called by whoever opens a machine, before it is opened. Any thread.
void note_machine_opened() noexcept;

/// True in a process that was forked from one that had opened a machine: the machine's threads and
/// device state did not come along, so every use of it must answer `unavailable`. One load.
[[nodiscard]] bool forked_child() noexcept;

}  // namespace millstream::base
