// SPDX-License-Identifier: Apache-2.0
#include "backend/late_failure.hpp"

#include <utility>

namespace millstream::backend {
namespace {

// Of the copies since a job of this thread asked: one copy of the caller's may be several.
thread_local late_failure* failed_copy = nullptr;

}  // namespace

status take_failure_of_copy() noexcept {
  late_failure* const failed = std::exchange(failed_copy, nullptr);
  return failed == nullptr ? status{} : failed->take();
}

void note_failed_copy(late_failure& kept) noexcept {
  failed_copy = &kept;
}

}  // namespace millstream::backend
