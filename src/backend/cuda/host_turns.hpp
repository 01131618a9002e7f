// SPDX-License-Identifier: Apache-2.0
/// Memory moves by the CPU at their turn in a stream.
#pragma once

#include <atomic>
#include <deque>
#include <variant>

#include "backend/cuda/driver.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::cuda {

/// They run on the driver's callback thread. That is allowed for them alone: they are ours, short,
/// take no lock and call nobody. The driver drops them when the context has failed. One user at a
/// time; destroyed when all have run or the context has failed.
class host_turns {
 public:
  using work = std::variant<copy_request, fill_request>;

  /// Not under capture: a graph would run it again after it is gone.
  [[nodiscard]] abi::result add(const driver& api, abi::stream on, const work& what);
  /// Whether all have run.
  [[nodiscard]] bool are_done() noexcept;

 private:
  struct turn {
    explicit turn(const work& to_do) : what(to_do) {}
    work what;
    std::atomic<bool> done{false};
  };
  static void run(void* of) noexcept;
  void forget_done() noexcept;

  std::deque<turn> turns_;  // in the order of the stream; the driver knows their addresses
};

}  // namespace millstream::backend::cuda
