// SPDX-License-Identifier: Apache-2.0
/// What graphs of the driver keep.
#pragma once

#include <memory>

#include "backend/cuda/abi.hpp"
#include "backend/status.hpp"

namespace millstream::backend::cuda {

class device_state;

/// graph::keep by the driver's means, for a graph of whoever made it, also while it is recorded.
/// May throw std::bad_alloc.
[[nodiscard]] status keep_in(device_state& on, abi::graph by, std::shared_ptr<void> what);

}  // namespace millstream::backend::cuda
