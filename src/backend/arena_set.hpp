// SPDX-License-Identifier: Apache-2.0
/// The arenas of a machine of simulated devices.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/arena.hpp"

namespace millstream::backend {

/// One for the host side and one for each device.
struct arena_set {
  std::unique_ptr<arena> host;
  std::vector<std::unique_ptr<arena>> devices;

  /// -1 = the host side.
  [[nodiscard]] arena& of(int device) noexcept {
    return device < 0 ? *host : *devices[static_cast<std::size_t>(device)];
  }
};

/// Reserves them all, of equal options but for the owner, which `name_of` gives.
[[nodiscard]] result<arena_set> reserve_arenas(int devices, std::string (*name_of)(int device),
                                               const arena_options& options) noexcept;

}  // namespace millstream::backend
