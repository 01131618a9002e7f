// SPDX-License-Identifier: Apache-2.0
/// How the engine blocks: the interpreter lock is let go, and the user can
/// interrupt.
#pragma once

#include <chrono>

namespace millstream::core {

/// How long a blocked thread sleeps at most before it looks whether the user
/// wants out.
inline constexpr std::chrono::milliseconds wait_slice{40};

/// Between construction and destruction the thread may block. Made with no
/// engine lock held.
class blocking_section {
 public:
  blocking_section() noexcept;
  ~blocking_section();
  blocking_section(const blocking_section&) = delete;
  blocking_section& operator=(const blocking_section&) = delete;

  /// True if the user wants out.
  [[nodiscard]] bool is_interrupted() const noexcept;

 private:
  void* token_ = nullptr;
};

}  // namespace millstream::core
