// SPDX-License-Identifier: Apache-2.0
#include "backend/queue.hpp"

#include <utility>

#include "backend/guarded.hpp"

namespace millstream::backend {

status queue::keep(std::shared_ptr<void> what) {
  const std::shared_ptr<void> refused = std::move(what);
  return guarded("a queue", [] {
    return status(errc::usage,
                  "a queue that nobody records keeps nothing; hold it until the queue has passed");
  });
}

}  // namespace millstream::backend
