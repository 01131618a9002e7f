// SPDX-License-Identifier: Apache-2.0
/// The end of what graphs keep.
#pragma once

#include <memory>

namespace millstream::backend {

/// A hold on `what` whose end is an end elsewhere: whoever drops it last, with whatever locks, on a
/// thread of the driver's too, `what` is let go on a thread that has no other task. May throw
/// std::bad_alloc.
[[nodiscard]] std::shared_ptr<void> part_elsewhere(std::shared_ptr<void> what);

}  // namespace millstream::backend
