// SPDX-License-Identifier: Apache-2.0
/// A lane with a thread of its own.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "backend/lane.hpp"

namespace millstream::backend {

/// The thread starts with the first operation, parks when there is nothing to do, and ends after
/// the lane was closed and all operations were carried out. Nobody joins it; it owns a share of the
/// lane and uses nothing else but what operations refer to and `kept`, so the process may end at
/// any moment.
class worker final : public lane {
 public:
  /// `who` begins the texts of failures; `kept` is what the operations and the counter refer to.
  worker(std::string who, std::shared_ptr<const void> kept,
         std::atomic<std::uint64_t>* counter = nullptr);

  status add_all(std::span<operation> next) override;
  bool poll(std::uint64_t position) noexcept override { return passed(position); }
  bool wait_until(std::uint64_t position, time_limit limit) noexcept override;
  void close() noexcept override;

 private:
  status start_thread();
  void serve() noexcept;
  bool next_batch(std::vector<operation>& batch) noexcept;
  void count_done() noexcept;

  const std::string who_;
  const std::shared_ptr<const void> kept_;

  std::mutex mutex_;  // guards the members up to closed_
  std::condition_variable added_;
  std::vector<operation> incoming_;
  bool started_ = false;
  bool parked_ = false;
  std::atomic<bool> closed_{false};  // written under the mutex, read before each job

  std::mutex passed_mutex_;  // guards wake_at_ against waiters that start; innermost
  std::condition_variable passed_;
  std::atomic<std::uint64_t> wake_at_;  // the first position somebody waits for
};

}  // namespace millstream::backend
