// SPDX-License-Identifier: Apache-2.0
/// The environment variables of the library, read once per process.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace millstream::base {

/// Values as read; a variable that is not set, empty or unreadable leaves its default. Whoever
/// uses a value first asks `problem_with` and reports a text it gets as `invalid_value`, so that a
/// wrong variable disturbs only those it concerns.
struct settings {
  std::string machine;                ///< MILLSTREAM_MACHINE; empty = default
  int host_devices = 0;               ///< MILLSTREAM_HOST_DEVICES, 1 to 64; 0 = default
  std::size_t host_memory_bytes = 0;  ///< MILLSTREAM_HOST_MEMORY, each device; 0 = default
  std::string log_level = "warning";  ///< MILLSTREAM_LOG: debug, info, warning, error or off
  std::string cuda_driver;            ///< MILLSTREAM_CUDA_DRIVER: path of the driver library
  int check_bodies = 0;               ///< MILLSTREAM_CHECK_BODIES: 1 = each is recorded by itself

  /// Name of the variable -> "variable '...' is '...'; set ...".
  std::map<std::string, std::string, std::less<>> problems;

  /// The text to report, or empty.
  [[nodiscard]] std::string problem_with(std::string_view variable) const;
};

/// The process's settings: read at the first call and the same ever after. Any thread.
[[nodiscard]] const settings& environment();

/// Reads them through `look_up`, which answers null for a variable that is not set.
[[nodiscard]] settings read_settings(const char* (*look_up)(const char* variable));

/// "64", "512K", "1.5G": a number of bytes with an optional suffix K, M, G or T (powers of 1024).
/// False, and `bytes` untouched, for anything else, zero included.
[[nodiscard]] bool parse_bytes(std::string_view text, std::size_t& bytes) noexcept;

}  // namespace millstream::base
