// SPDX-License-Identifier: Apache-2.0
/// Messages for people who look after a program. Errors are never only logged: they are raised.
#pragma once

#include <cstdint>
#include <string_view>

namespace millstream::base {

enum class log_level : std::uint8_t { debug, info, warning, error, off };

/// Gets one message without a line end, on whichever thread logs; `user` as it was set. Must not
/// throw.
using log_sink = void (*)(log_level level, std::string_view text, void* user) noexcept;

/// Whether a message of this level is wanted (MILLSTREAM_LOG, default `warning`). One load.
[[nodiscard]] bool log_enabled(log_level level) noexcept;

/// Hands the message to the sink if its level is wanted. Any thread; never throws.
void log(log_level level, std::string_view text) noexcept;

/// Replaces the sink; null brings back the first one, which writes "millstream: ..." to standard
/// error. A message that another thread is logging at the moment may still reach the old sink.
void set_log_sink(log_sink sink, void* user) noexcept;

/// Overrides MILLSTREAM_LOG.
void set_log_level(log_level level) noexcept;

}  // namespace millstream::base
