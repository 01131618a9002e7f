// SPDX-License-Identifier: Apache-2.0
/// Finds the machine that was asked for among the compiled-in backends.
#pragma once

#include <span>
#include <string_view>

#include "backend/machine.hpp"
#include "base/settings.hpp"

namespace millstream::backend {

/// Opens a machine by name among `entries`. An empty name means `preferred`, which stands for
/// MILLSTREAM_MACHINE; if that is empty too, the first of the list that may be a default and is
/// available here. `invalid_value` for an unknown name; `unavailable`, with everything that was
/// tried, where no machine can be opened; else what the backend's `open` answers. May take long.
/// Any thread.
[[nodiscard]] machine_result open_among(std::span<const backend_entry> entries,
                                        std::string_view name, std::string_view preferred,
                                        const open_options& options) noexcept;

/// The same among the compiled-in backends and with the variable's value.
[[nodiscard]] inline machine_result open_by_name(std::string_view name,
                                                 const open_options& options) {
  return open_among(backends(), name, base::environment().machine, options);
}

}  // namespace millstream::backend
