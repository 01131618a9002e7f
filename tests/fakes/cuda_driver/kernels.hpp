// SPDX-License-Identifier: Apache-2.0
/// The kernels the driver can run: C++ functions that stand for an entry point of device code, by
/// name. `kernels.ptx` has the same entry points for a real device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fakes/cuda_driver/engine.hpp"
#include "tests/fakes/cuda_driver/memory_view.hpp"

namespace fake_cuda {

struct kernel_run {
  const memory_view& seen;
  const std::byte* arguments;  // the packed block
  std::uint64_t turns;         // how many this launch had before
};

struct parameter {
  std::size_t offset;
  std::size_t bytes;
};

struct builtin_kernel {
  std::string name;
  std::vector<parameter> parameters;
  std::function<turn(const kernel_run&)> run;

  [[nodiscard]] std::size_t block_bytes() const noexcept {
    return parameters.empty() ? 0 : parameters.back().offset + parameters.back().bytes;
  }
};

/// Null if there is none.
[[nodiscard]] const builtin_kernel* find_builtin(std::string_view name);

}  // namespace fake_cuda
