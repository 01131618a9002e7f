// SPDX-License-Identifier: Apache-2.0
/// Recorded contexts, and one more word for their tests.
#pragma once

#include <utility>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {

[[nodiscard]] inline untyped_context open_recorded(const char* machine_name, int devices,
                                                   std::optional<std::uint64_t> seed = {}) {
  context_options options;
  options.on = machine({.name = machine_name, .devices = devices, .seed = seed});
  options.use_graph = true;
  return untyped_context(std::move(options));
}

[[nodiscard]] inline recording_stats recorded(const untyped_context& by) {
  return by.stats().recording;
}

}  // namespace millstream::test
