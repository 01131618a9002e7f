// SPDX-License-Identifier: Apache-2.0
/// Counts contract objects that are alive, for the leak gate of tests.
#pragma once

#include <atomic>
#include <cstdint>

namespace millstream::backend {

/// Any thread.
class live_count {
 public:
  void add(std::int64_t objects) noexcept { alive_.fetch_add(objects, std::memory_order_relaxed); }
  [[nodiscard]] std::int64_t now() const noexcept { return alive_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> alive_{0};
};

/// A member of an object that counts; the counter outlives it.
class live_mark {
 public:
  explicit live_mark(live_count& in) noexcept : in_(in) { in_.add(1); }
  ~live_mark() { in_.add(-1); }
  live_mark(const live_mark&) = delete;
  live_mark& operator=(const live_mark&) = delete;

 private:
  live_count& in_;
};

}  // namespace millstream::backend
