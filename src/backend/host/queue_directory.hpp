// SPDX-License-Identifier: Apache-2.0
/// The queues of a host machine by their numbers, so that somebody who was given a number can use
/// the queue.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "backend/lane.hpp"

namespace millstream::backend::host {

/// Any thread.
class queue_directory {
 public:
  struct entry {
    std::shared_ptr<lane> behind;
    int device;
  };
  void add(std::uint64_t number, int device, const std::shared_ptr<lane>& behind) {
    const std::scoped_lock hold(mutex_);
    known_[number] = {behind, device};
  }
  void remove(std::uint64_t number) noexcept {
    const std::scoped_lock hold(mutex_);
    known_.erase(number);
  }
  /// Nothing if no queue with that number is alive.
  [[nodiscard]] std::optional<entry> find(std::uint64_t number) const {
    const std::scoped_lock hold(mutex_);
    const auto found = known_.find(number);
    if (found == known_.end()) return std::nullopt;
    return entry{found->second.behind.lock(), found->second.device};
  }

 private:
  struct weak_entry {
    std::weak_ptr<lane> behind;
    int device = 0;
  };
  mutable std::mutex mutex_;  // guards the member below; innermost
  std::unordered_map<std::uint64_t, weak_entry> known_;
};

}  // namespace millstream::backend::host
