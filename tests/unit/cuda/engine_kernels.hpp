// SPDX-License-Identifier: Apache-2.0
/// Kernel tasks for tests of the engine on the CUDA machine.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <millstream/kernel.hpp>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {

/// A kernel task on device 0 that fills its first dependency.
inline void describe_fill(untyped_context& on, const std::vector<task_dep>& deps,
                          const device_kernel& fill,
                          const launch_config& how = {.grid = 1, .block = 32}) {
  untyped_task task(on);
  task.set_kind(task_kind::cuda_kernel);
  task.set_place(exec_place::device(0));
  for (const task_dep& each : deps)
    task.add_dep(each);
  task.start();
  void* const to = task.pointer(0);
  const std::uint32_t value = 1;
  const std::uint64_t count = 16;
  const std::array<kernel_argument, 3> arguments{
      kernel_argument{static_cast<const void*>(&to), sizeof to, alignof(void*)},
      kernel_argument{&value, sizeof value, alignof(std::uint32_t)},
      kernel_argument{&count, sizeof count, alignof(std::uint64_t)}};
  task.launch({&fill, how, arguments, nullptr});
  task.end();
}

}  // namespace millstream::test
