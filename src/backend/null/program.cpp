// SPDX-License-Identifier: Apache-2.0
#include "backend/null/program.hpp"

#include "backend/guarded.hpp"

namespace millstream::backend::null {

result<backend::kernel*> program::find(const std::string& entry) {
  return guarded(who_, [&]() -> result<backend::kernel*> {
    return kernels_.find(entry, [](const std::string& name) { return name; });
  });
}

}  // namespace millstream::backend::null
