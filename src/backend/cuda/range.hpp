// SPDX-License-Identifier: Apache-2.0
/// Ranges of addresses backed by memory of several devices.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/state.hpp"
#include "backend/range.hpp"

namespace millstream::backend::cuda {

class virtual_range final : public backend::virtual_range {
 public:
  /// Reserves the addresses. The granularity serves all devices of the machine.
  [[nodiscard]] static result<std::unique_ptr<backend::virtual_range>> reserve(
      std::shared_ptr<machine_state> machine, std::size_t bytes);
  virtual_range(std::shared_ptr<machine_state> machine, abi::device_pointer first,
                std::size_t bytes, std::size_t granularity);
  ~virtual_range() override;

  [[nodiscard]] void* address() const noexcept override;
  [[nodiscard]] std::size_t bytes() const noexcept override { return bytes_; }
  [[nodiscard]] std::size_t granularity() const noexcept override { return granularity_; }
  status back(std::size_t offset, std::size_t bytes, int device) override;
  status allow(int device) override;

 private:
  struct part {
    std::size_t offset;
    std::size_t bytes;
    int device;
  };
  status check_part(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] abi::result map(const part& what, abi::device ordinal) noexcept;
  status give_access(const part& to, int device);

  const std::shared_ptr<machine_state> machine_;
  const live_mark alive_;
  const abi::device_pointer first_;
  const std::size_t bytes_;
  const std::size_t granularity_;
  std::vector<part> parts_;
  std::vector<int> allowed_;
};

}  // namespace millstream::backend::cuda
