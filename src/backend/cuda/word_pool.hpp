// SPDX-License-Identifier: Apache-2.0
/// Words of page-locked memory that say how far host queues got.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backend/status.hpp"

namespace millstream::backend::cuda {

struct machine_state;

/// Streams wait for a word to reach a value. A word is never set back, not even when another queue
/// gets it: a stream may still have to look at it. Any thread.
class word_pool {
 public:
  using word = std::atomic<std::uint64_t>;
  explicit word_pool(machine_state& of) : of_(of) {}

  /// The word returns to the pool with the last reference, before the machine ends.
  [[nodiscard]] result<std::shared_ptr<word>> take(const std::string& who);

 private:
  status make_page(const std::string& who);

  machine_state& of_;
  std::mutex mutex_;  // guards the members below; innermost
  std::vector<word*> free_;
  std::size_t words_ = 0;  // made so far, in use or free
};

}  // namespace millstream::backend::cuda
