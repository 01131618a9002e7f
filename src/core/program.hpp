// SPDX-License-Identifier: Apache-2.0
/// Device code of the user's, loaded device by device.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/program.hpp"
#include "core/machine.hpp"

namespace millstream::core {

/// State behind millstream::program. Any thread.
class program {
 public:
  program(std::shared_ptr<machine> on, std::span<const std::byte> image);

  [[nodiscard]] const machine& on() const noexcept { return *on_; }
  /// Loads the image for that device at the first call. The answer is good as long as this object.
  [[nodiscard]] backend::result<backend::kernel*> find(place_index device,
                                                       const std::string& entry);

 private:
  [[nodiscard]] backend::result<backend::program*> loaded(place_index device);

  const std::shared_ptr<machine> on_;
  const std::vector<std::byte> image_;
  std::mutex mutex_;  // guards the member below; a device may load under it
  std::vector<std::unique_ptr<backend::program>> by_device_;
};

}  // namespace millstream::core
