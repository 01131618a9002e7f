// SPDX-License-Identifier: Apache-2.0
/// The process that ends in the middle of work; the shut-down suite starts it and looks how it
/// ends.
#pragma once

#include "tests/conformance/promise.hpp"

namespace conformance {

/// Returns 0 from main with a job running, others waiting, and the machine not closed.
int exit_with_work_in_flight(std::unique_ptr<backend::machine> machine);

}  // namespace conformance
