// SPDX-License-Identifier: Apache-2.0
/// What the drawing of a recorded stage shows.
#pragma once

#include <cstddef>
#include <string>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {

[[nodiscard]] inline std::size_t edges(const untyped_context& on) {
  const std::string drawn = on.native_dot();
  std::size_t found = 0;
  for (std::size_t at = drawn.find("->"); at != std::string::npos; at = drawn.find("->", at + 1))
    ++found;
  return found;
}

}  // namespace millstream::test
