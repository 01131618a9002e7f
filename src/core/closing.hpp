// SPDX-License-Identifier: Apache-2.0
/// While a thread finalizes a context: see closing.cpp.
#pragma once

#include <thread>

#include "core/context.hpp"

namespace millstream::core {

/// The calling thread finalizes the context as long as this lives; under the lock at both ends.
/// Comes to nothing inside of another one of the same thread: code that the first one runs while it
/// waits may finalize the context, too.
class context::closing_scope {
 public:
  closing_scope(context& of, const lock& held) noexcept
      : of_(of), held_(held), is_first_(!of.closing_) {
    if (!is_first_) return;
    of.closing_ = true;
    of.closer_ = std::this_thread::get_id();
  }
  ~closing_scope() {
    if (!is_first_) return;
    of_.closing_ = false;
    of_.note_open_change(held_);
  }
  closing_scope(const closing_scope&) = delete;
  closing_scope& operator=(const closing_scope&) = delete;

 private:
  context& of_;
  const lock& held_;
  const bool is_first_;
};

}  // namespace millstream::core
