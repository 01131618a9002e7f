// SPDX-License-Identifier: Apache-2.0
#include "base/fork_guard.hpp"

#include <pthread.h>

namespace millstream::base {

// Nothing is taken back.
constinit std::atomic<std::uint8_t> detail::process_end{0};

void note_machine_opened() noexcept {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] {
    detail::process_end.fetch_or(detail::forked_bit, std::memory_order_relaxed);
  });
}

void mark_shut_down() noexcept {
  detail::process_end.fetch_or(detail::shut_down_bit);
}

}  // namespace millstream::base
