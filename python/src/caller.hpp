// SPDX-License-Identifier: Apache-2.0
/// The line of the user's program that called us.
#pragma once

#include <millstream/error.hpp>

namespace millstream::python {

/// The innermost Python line outside of this package; unknown when there is none. The interpreter
/// lock is held. Costs a table look-up in steady state.
[[nodiscard]] source_site caller_site() noexcept;

}  // namespace millstream::python
