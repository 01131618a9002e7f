// SPDX-License-Identifier: Apache-2.0
/// A range of addresses whose parts are backed by memory of different devices (capability::vmm).
#pragma once

#include <cstddef>

#include "backend/status.hpp"

namespace millstream::backend {

/// One user at a time. Destroyed only when no queued work can touch the range any more; its memory
/// goes with it. Every call may take the driver a while.
class virtual_range {
 public:
  virtual ~virtual_range() = default;
  virtual_range() = default;
  virtual_range(const virtual_range&) = delete;
  virtual_range& operator=(const virtual_range&) = delete;

  [[nodiscard]] virtual void* address() const noexcept = 0;
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  /// Offsets and sizes of parts are multiples of it.
  [[nodiscard]] virtual std::size_t granularity() const noexcept = 0;

  /// Puts memory of the device behind a part that has none yet. `out_of_memory` leaves the range
  /// as it was.
  virtual status back(std::size_t offset, std::size_t bytes, int device) = 0;
  /// Lets the device read and write all parts, those backed later included. Whoever backs a part
  /// may touch it anyway.
  virtual status allow(int device) = 0;
};

}  // namespace millstream::backend
