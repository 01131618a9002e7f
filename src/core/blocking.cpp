// SPDX-License-Identifier: Apache-2.0
#include "core/blocking.hpp"

#include <millstream/hooks.hpp>

namespace millstream::inline v1 {
namespace {

// Set once before the first context, so a plain object is enough.
blocking_hooks g_hooks;

}  // namespace

void set_blocking_hooks(const blocking_hooks& hooks) noexcept {
  g_hooks = hooks;
}

}  // namespace millstream::inline v1

namespace millstream::core {

blocking_section::blocking_section() noexcept {
  if (g_hooks.enter != nullptr) token_ = g_hooks.enter();
}

blocking_section::~blocking_section() {
  if (g_hooks.leave != nullptr) g_hooks.leave(token_);
}

bool blocking_section::is_interrupted() const noexcept {
  return g_hooks.interrupted != nullptr && g_hooks.interrupted();
}

}  // namespace millstream::core
