// SPDX-License-Identifier: Apache-2.0
#include "backend/device_limit.hpp"

#include "backend/guarded.hpp"

namespace millstream::backend {

status check_device_count(int devices, std::string_view who) noexcept {
  if (devices >= 0 && devices <= most_devices) return {};
  return guarded(who, [&] {
    return status(errc::invalid_value,
                  base::cat(who, " cannot have ", devices, " devices; choose 1 to ", most_devices,
                            ", or leave the number out for the default"));
  });
}

}  // namespace millstream::backend
