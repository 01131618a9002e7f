// SPDX-License-Identifier: Apache-2.0
/// Carries out copies and fills with the CPU.
#pragma once

#include "backend/queue.hpp"

namespace millstream::backend {

/// Both take requests that were checked (backend/request.hpp).
void move_block(const copy_request& request) noexcept;
void fill_block(const fill_request& request) noexcept;

}  // namespace millstream::backend
