// SPDX-License-Identifier: Apache-2.0
/// What every call of the contract passes before it does anything: the check for a forked process,
/// the count, the injected faults.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "backend/call.hpp"
#include "backend/status.hpp"
#include "base/fork_guard.hpp"
#include "base/random.hpp"

namespace millstream::backend {

/// One for each machine. Any thread; calls that pass are not ordered by it.
class call_gate {
 public:
  enum class counting : std::uint8_t {
    on_demand,  ///< counts are zero until a fault plan was set, of whatever kind
    always,
  };

  explicit call_gate(counting when) noexcept
      : mode_(when == counting::always ? mode::count : mode::open) {}

  /// Success lets the call go on. `who` begins the text of a failure: "device 'host:0'". Costs two
  /// loads while nothing is counted.
  status pass(call kind, const std::string& who) noexcept {
    if (base::forked_child()) return refuse_child(who);
    const mode now = mode_.load(std::memory_order_relaxed);
    if (now == mode::open) return {};
    count(kind);
    return now == mode::count ? status{} : judge(kind, who);
  }
  /// Whether any call passes, and none is counted.
  [[nodiscard]] bool is_open() const noexcept {
    return !base::forked_child() && mode_.load(std::memory_order_relaxed) == mode::open;
  }
  /// Counts what happened and cannot fail.
  void note(call kind) noexcept {
    if (mode_.load(std::memory_order_relaxed) != mode::open) count(kind);
  }

  /// From now on calls fail as the plan says, and are counted; its `nth` counts from this call.
  /// An empty plan ends the faults.
  void set_plan(const fault_plan& plan) noexcept;
  [[nodiscard]] call_counts counts() const noexcept;

  /// `unavailable`, for use of a machine in a process forked from the one that opened it.
  [[nodiscard]] static status refuse_child(const std::string& who) noexcept;

 private:
  enum class mode : std::uint8_t { open, count, count_and_fail };

  void count(call kind) noexcept {
    counts_[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
  }
  status judge(call kind, const std::string& who) noexcept;
  bool must_fail(call kind) noexcept;

  std::atomic<mode> mode_;
  std::array<std::atomic<std::uint64_t>, call_count> counts_{};
  std::mutex mutex_;  // guards the members below; innermost
  fault_plan plan_;
  std::uint64_t seen_ = 0;  // calls since the plan was set that it applies to
  base::random_source random_{0};
};

}  // namespace millstream::backend
