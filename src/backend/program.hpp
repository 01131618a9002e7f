// SPDX-License-Identifier: Apache-2.0
/// Device code: images and their entry points (capability::kernels).
#pragma once

#include <memory>
#include <string>

#include "backend/status.hpp"

namespace millstream::backend {

/// An entry point. Belongs to its program.
class kernel {
 public:
  virtual ~kernel() = default;
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
};

/// A loaded image (cubin, fatbin or PTX). It outlives launches in flight and graphs that name it.
class program {
 public:
  virtual ~program() = default;
  [[nodiscard]] virtual result<kernel*> find(const std::string& entry) = 0;
};

}  // namespace millstream::backend
