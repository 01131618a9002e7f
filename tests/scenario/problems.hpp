// SPDX-License-Identifier: Apache-2.0
/// What went wrong in a run, gathered from all threads.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace millstream::scenario {

/// Any thread. Keeps the first ones only: one fault often shows in many places.
class problem_list {
 public:
  void add(const std::string& file, std::uint32_t line, const std::string& text) {
    constexpr std::size_t most = 20;
    const std::scoped_lock hold(mutex_);
    if (all_.size() < most) all_.push_back(file + ":" + std::to_string(line) + ": " + text);
  }
  [[nodiscard]] std::vector<std::string> all() const {
    const std::scoped_lock hold(mutex_);
    return all_;
  }

 private:
  mutable std::mutex mutex_;  // guards all_; innermost
  std::vector<std::string> all_;
};

}  // namespace millstream::scenario
