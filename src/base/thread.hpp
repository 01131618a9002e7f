// SPDX-License-Identifier: Apache-2.0
/// The library's own threads.
#pragma once

#include <functional>
#include <string>

namespace millstream::base {

/// Names the calling thread for debuggers and profilers; cut to the 15 characters that Linux
/// keeps. Failure is of no consequence and not reported.
void name_this_thread(const std::string& name) noexcept;

/// Runs `body` on a new thread that nobody joins, so whatever it uses must be its own or live until
/// the process ends. The thread takes no signals of the process, which therefore reach the user's
/// threads. False, with the reason in `why`, if the system gives no thread. `body` must not throw.
[[nodiscard]] bool start_detached(const std::string& name, std::function<void()> body,
                                  std::string& why);

}  // namespace millstream::base
