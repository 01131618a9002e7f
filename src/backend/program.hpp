// SPDX-License-Identifier: Apache-2.0
/// Device code: images and their entry points (capability::kernels).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "backend/status.hpp"

namespace millstream::backend {

/// Where a parameter lies in the packed argument block.
struct kernel_parameter {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// An entry point. Belongs to its program.
class kernel {
 public:
  virtual ~kernel() = default;
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// In order; null where the machine cannot tell.
  [[nodiscard]] virtual const std::vector<kernel_parameter>* parameters() const noexcept {
    return nullptr;
  }
  /// Of an adopted one: whether its handle still names it, as far as a short look tells. A handle
  /// may come again once its kernel was unloaded.
  [[nodiscard]] virtual bool is_current() const { return true; }
};

/// A loaded image (cubin, fatbin or PTX). It outlives launches in flight and graphs that name it.
class program {
 public:
  virtual ~program() = default;
  [[nodiscard]] virtual result<kernel*> find(const std::string& entry) = 0;
};

}  // namespace millstream::backend
