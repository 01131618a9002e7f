// SPDX-License-Identifier: Apache-2.0
/// What a call costs once pools and tables have grown.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/core/heap_meter.hpp"

namespace millstream::test {

using calls = std::map<std::string, std::uint64_t>;

/// Makes the call often enough for pools and tables to have grown, then counts `times` calls.
struct cost {
  calls machine;
  std::uint64_t heap = 0;
};
[[nodiscard]] inline cost steady_cost(untyped_context& on, std::uint64_t times,
                                      const std::function<void()>& call) {
  for (int i = 0; i < 2000; ++i)
    call();
  const call_meter meter(on.where());
  const std::uint64_t before = heap_allocations();
  for (std::uint64_t i = 0; i < times; ++i)
    call();
  const std::uint64_t after = heap_allocations();
  return {meter.calls(), pools_are_off ? 0 : after - before};
}

}  // namespace millstream::test
