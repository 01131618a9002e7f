// SPDX-License-Identifier: Apache-2.0
#include "backend/arena_set.hpp"

#include <utility>

#include "backend/guarded.hpp"

namespace millstream::backend {

result<arena_set> reserve_arenas(int devices, std::string (*name_of)(int device),
                                 const arena_options& options) noexcept {
  return guarded("reserving memory", [&]() -> result<arena_set> {
    arena_set made;
    for (int i = -1; i < devices; ++i) {
      arena_options own = options;
      own.owner = base::cat("device ", base::quoted(name_of(i)));
      auto reserved = arena::reserve(std::move(own));
      if (!reserved) return reserved.take_status();
      if (i < 0) {
        made.host = std::move(reserved.value());
      } else {
        made.devices.push_back(std::move(reserved.value()));
      }
    }
    return made;
  });
}

}  // namespace millstream::backend
