// SPDX-License-Identifier: Apache-2.0
/// Ends a test program that hangs, saying what it was doing: the harness's own limit says nothing.
#pragma once

#include <string>

namespace millstream::scenario {

/// While one lives, the process ends with exit code 3 if `seconds` pass without a new call of
/// `guard`. One at a time.
class watchdog {
 public:
  explicit watchdog(unsigned seconds) noexcept : seconds_(seconds) {}
  ~watchdog();
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

  /// Starts the time anew for what `what` describes.
  void guard(const std::string& what) noexcept;

 private:
  unsigned seconds_;
};

}  // namespace millstream::scenario
