// SPDX-License-Identifier: Apache-2.0
/// What a language binding needs beyond the calls of its users: what it plugs in around blocking
/// calls, and what a collector of garbage asks.
#pragma once

#include <memory>

#include <millstream/export.hpp>

namespace millstream::inline v1 {

class untyped_data;

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

/// The owner of the registered buffer (`registration::owner`), if nothing keeps it but this handle:
/// there is no other handle of the datum, nothing that was submitted, started or recorded with a
/// hold on it and has not ended, and nobody else holds the owner. Else null. Whoever asks keeps all
/// threads from making handles meanwhile; while they are kept from it, null may become an owner,
/// but never the other way round. Takes no lock and calls no driver.
[[nodiscard]] MILLSTREAM_API const std::shared_ptr<void>* owner_kept_by(
    const untyped_data& handle) noexcept;
/// Of a datum that `owner_kept_by` was just asked about, with an owner as the answer: whether its
/// buffer is not touched any more, even when the handle goes. False as well where that is not
/// known, or where that cannot be found out without a wait; once true, it stays so until the datum
/// is used again. Never blocks, calls no driver.
[[nodiscard]] MILLSTREAM_API bool is_buffer_at_rest(const untyped_data& handle) noexcept;

}  // namespace millstream::inline v1
