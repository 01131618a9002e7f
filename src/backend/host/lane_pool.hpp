// SPDX-License-Identifier: Apache-2.0
/// The lanes that nodes of graphs run in, by place. A launch leases those it needs until it ended,
/// so that nodes that block hold up nobody but their own launch, and threads are used again.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/lane.hpp"

namespace millstream::backend::host {

/// Where something is in a table of all places: the host side (-1) first.
[[nodiscard]] constexpr std::size_t slot_of(int place) noexcept {
  return static_cast<std::size_t>(place) + 1;
}

/// Any thread.
class lane_pool {
 public:
  using lane_ref = std::shared_ptr<lane>;

  /// A free lane of the place, or what `make` gives; null when the pool is closed or there is no
  /// memory for a new one.
  [[nodiscard]] lane_ref take(int place, const std::function<lane_ref()>& make) noexcept;
  void give_back(int place, const lane_ref& used) noexcept;
  /// The machine is closed: free lanes are, and those given back later.
  void close() noexcept;

 private:
  std::mutex mutex_;  // guards the members below; the scheduler's is taken under it
  std::vector<std::vector<lane_ref>> free_;  // by slot_of
  bool closed_ = false;
};

}  // namespace millstream::backend::host
