// SPDX-License-Identifier: Apache-2.0
/// Keeps exceptions of the standard library inside the backend.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "backend/status.hpp"
#include "base/text.hpp"

namespace millstream::backend {

/// A failure whose text may not fit into memory any more.
[[nodiscard]] inline status failure(errc code, std::string_view who,
                                    std::string_view how) noexcept {
  try {
    return {code, base::cat(who, ' ', how)};
  } catch (const std::exception&) {
    return status(code);
  }
}

/// What `body` answers, a `status` or a `result`; or, if it throws, why. `who` begins the text.
template <class Body>
[[nodiscard]] auto guarded(std::string_view who, Body&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return failure(errc::out_of_memory, who,
                   "found no memory for its own records; free memory of the process");
  } catch (const std::exception& unexpected) {
    return failure(errc::internal, who, unexpected.what());
  }
}

}  // namespace millstream::backend
