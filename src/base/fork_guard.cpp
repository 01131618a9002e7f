// SPDX-License-Identifier: Apache-2.0
#include "base/fork_guard.hpp"

#include <pthread.h>

#include <atomic>

namespace millstream::base {
namespace {

std::atomic<bool> forked{false};

}  // namespace

void note_machine_opened() noexcept {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
}

bool forked_child() noexcept {
  return forked.load(std::memory_order_relaxed);
}

}  // namespace millstream::base
