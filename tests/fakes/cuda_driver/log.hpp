// SPDX-License-Identifier: Apache-2.0
/// Which calls were made: counts of each entry point always, the calls themselves when asked for.
/// Guarded by the fake's mutex.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/fakes/cuda_driver/rows.hpp"

namespace fake_cuda {

inline constexpr std::size_t logged_words = 12;

struct logged_call {
  row which = row::count;
  result answer = result::success;
  int thread = 0;
  std::size_t words = 0;
  std::array<std::uint64_t, logged_words> argument{};
};

class call_log {
 public:
  void count(row which) noexcept { ++counts_[static_cast<std::size_t>(which)]; }
  [[nodiscard]] std::uint64_t counted(row which) const noexcept {
    return counts_[static_cast<std::size_t>(which)];
  }
  void clear_counts() noexcept { counts_.fill(0); }

  void turn(bool on);
  [[nodiscard]] bool wants_calls() const noexcept { return on_ || file_ != nullptr; }
  /// One line a call, written through, so that it is complete whenever the process ends.
  void write_to(const std::string& path);
  void note(const logged_call& what);
  [[nodiscard]] const std::vector<logged_call>& calls() const noexcept { return calls_; }

 private:
  void write(const logged_call& what) const;

  bool on_ = false;
  std::FILE* file_ = nullptr;
  std::vector<logged_call> calls_;
  std::array<std::uint64_t, row_count> counts_{};
};

}  // namespace fake_cuda
