// SPDX-License-Identifier: Apache-2.0
#include "backend/missing.hpp"

#include "backend/guarded.hpp"

namespace millstream::backend {

status missing(std::string_view who, std::string_view what, capability bit) noexcept {
  return guarded(who, [&] {
    const char* name = capability_names[static_cast<std::size_t>(bit)];
    return status(errc::unsupported,
                  base::cat(who, " cannot ", what, "; choose a machine with the capability ",
                            base::quoted(name)));
  });
}

}  // namespace millstream::backend
