// SPDX-License-Identifier: Apache-2.0
/// Bodies on a machine whose memory the CPU does not see: the same checks and the same values as in
/// body.cpp, as work on the task's stream. Through the driver's own functions, as a user's body.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/scenario/body.hpp"

namespace millstream::scenario {

struct staging_chunk {
  std::byte* block = nullptr;
  std::size_t bytes = 0;
};

/// What a run leaves with the driver. Any thread may queue bodies; `forget` comes when all of them
/// have ended, at the latest from the destructor.
class device_bodies {
 public:
  /// Loads the driver and its test kernels; throws std::runtime_error.
  device_bodies();
  ~device_bodies();
  device_bodies(const device_bodies&) = delete;
  device_bodies& operator=(const device_bodies&) = delete;

  /// Whether a body with these accesses can be run by the CPU where it is called.
  [[nodiscard]] static bool is_needed(const task_forecast& plan) noexcept;

  /// Queues the checks of the inputs, and with `whole` the rest of the body, on the call's stream.
  /// On a host place a stream of its own is used, and waited for.
  void queue(task_record& task, const body_call& call, const body_world& world, bool whole);
  /// Gives back what bodies used.
  void forget() noexcept;

  /// Which legal order the look-alike driver takes from now on; nothing on a real one.
  void choose_order(std::uint64_t seed);
  /// How often the look-alike driver had to hold work up because too many streams were parked.
  [[nodiscard]] std::uint64_t stalls() const;

 private:
  struct queued;
  void* staging(std::size_t bytes);

  std::mutex mutex_;  // guards all below
  std::deque<std::unique_ptr<queued>> queued_;
  std::vector<staging_chunk> chunks_;
  std::size_t used_ = 0;  // bytes of the last chunk
};

/// A buffer of the user's in the memory of a device. Used by one thread at a time.
class device_buffer {
 public:
  /// Begins with these words; throws std::runtime_error.
  device_buffer(int device, const std::vector<std::int64_t>& words);
  ~device_buffer();
  device_buffer(const device_buffer&) = delete;
  device_buffer& operator=(const device_buffer&) = delete;

  [[nodiscard]] void* address() const noexcept;
  /// Its content, when everything has ended.
  void read(std::vector<std::int64_t>& into) const;

 private:
  int device_;
  std::uint64_t block_ = 0;
};

}  // namespace millstream::scenario
