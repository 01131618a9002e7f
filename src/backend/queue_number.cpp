// SPDX-License-Identifier: Apache-2.0
#include "backend/queue_number.hpp"

#include <atomic>

namespace millstream::backend {

std::uint64_t next_queue_number() noexcept {
  static std::atomic<std::uint64_t> last{15};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace millstream::backend
