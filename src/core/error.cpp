// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>

#include <millstream/error.hpp>

namespace millstream::inline v1 {

const char* to_string(errc code) noexcept {
  static constexpr std::array names{"ok",           "usage",        "invalid_value",
                                    "invalid_type", "out_of_range", "out_of_memory",
                                    "not_written",  "poisoned",     "task_failed",
                                    "deadlock",     "device",       "device_lost",
                                    "unsupported",  "unavailable",  "not_implemented",
                                    "interrupted",  "internal"};
  static_assert(names.size() == static_cast<std::size_t>(errc::internal) + 1);
  return names[static_cast<std::size_t>(code)];
}

}  // namespace millstream::inline v1
