// SPDX-License-Identifier: Apache-2.0
/// What bodies wait for until the test lets them go on.
#pragma once

#include <atomic>

namespace millstream::test {

/// Not with seeds: there one body runs at a time.
class gate {
 public:
  void open() {
    open_.store(true);
    open_.notify_all();
  }
  void pass() const { open_.wait(false); }

 private:
  std::atomic<bool> open_{false};
};

}  // namespace millstream::test
