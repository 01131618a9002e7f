// SPDX-License-Identifier: Apache-2.0
/// What a kernel task was told to launch, until it ends.
#pragma once

#include <cstddef>
#include <memory>

#include <millstream/kernel.hpp>

#include "backend/queue.hpp"
#include "base/small_vector.hpp"
#include "core/lanes.hpp"
#include "core/plan.hpp"
#include "core/program.hpp"

namespace millstream::core {

/// In the order of the calls. Each launch owns its arguments. Destroyed without any lock of the
/// library: it holds code of the user's.
class launch_list {
 public:
  /// From the pool of small blocks.
  static void* operator new(std::size_t bytes);
  static void operator delete(void* block, std::size_t bytes) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return launches_.size() + calls_.size(); }

  /// Device code for the device that the task runs on. Throws error(invalid_value) for arguments
  /// that are not those of the kernel, and what the device answers. `who` begins the texts.
  void add(const plan& who, machine& on, const kernel_launch& what);
  /// Host code.
  void add(body_ptr call) { calls_.push_back(std::move(call)); }

  /// Queues the launches on the lane, each as one operation of it. Under the context's lock.
  [[nodiscard]] backend::status issue(lane_set& lanes, lane_index on);
  /// One body that makes all calls, in order.
  [[nodiscard]] body_ptr take_calls();

 private:
  struct launch {
    backend::launch_request request;  // its arguments are those below, set when it is issued
    base::small_vector<std::byte, 96> arguments;
    std::shared_ptr<kernel_source> of;  // keeps the program loaded until it is queued
  };
  base::small_vector<launch, 2> launches_;
  base::small_vector<body_ptr, 2> calls_;
};

/// Throws error(invalid_value) for extents that are not positive or too large, and clusters that do
/// not divide the grid. `who` begins the texts.
void check_config(const plan& who, const launch_config& how);

/// Throws error(invalid_value), with the extent and the limit, for a launch that the device takes
/// of no kernel. `who` begins the text.
void check_limits(const plan& who, const launch_config& how, backend::device& on);

}  // namespace millstream::core
