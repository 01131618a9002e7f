// SPDX-License-Identifier: Apache-2.0
/// What a language binding plugs in around blocking calls.
#pragma once

#include <millstream/export.hpp>

namespace millstream::inline v1 {

/// Called around every wait that may block. The library holds none of its locks when it calls
/// them. All three may be null.
struct blocking_hooks {
  /// Before blocking: let go of the interpreter lock if this thread has it. The result is handed
  /// to `leave`.
  void* (*enter)() noexcept = nullptr;
  /// After blocking.
  void (*leave)(void* token) noexcept = nullptr;
  /// At least every 50 ms while blocked (between `enter` and `leave`): true = the user wants out;
  /// the wait throws error(interrupted), and the context stays usable.
  bool (*interrupted)() noexcept = nullptr;
};

/// Process-wide; set once, before the first context, by the binding.
MILLSTREAM_API void set_blocking_hooks(const blocking_hooks& hooks) noexcept;

/// Drops everything queued on every machine without running it and waits at most `limit_ms` for
/// what is running. For the end of an interpreter: afterwards no user code is called any more, and
/// every call that would start work throws error(unavailable).
MILLSTREAM_API void shut_down(unsigned limit_ms) noexcept;

}  // namespace millstream::inline v1
