// SPDX-License-Identifier: Apache-2.0
/// Makes a failing program small.
#pragma once

#include <functional>

#include "tests/scenario/program.hpp"

namespace millstream::model {

/// Whether a program (its errors announced) still shows the fault.
using still_fails = std::function<bool(const scenario::program&)>;

/// Leaves out statements, last ones first, as long as the fault stays; at most `most_plays` calls
/// of `fails`. What the result leaves out was not needed, at least not at the time of asking.
[[nodiscard]] scenario::program shrink(scenario::program failing, const still_fails& fails,
                                       std::size_t most_plays);

}  // namespace millstream::model
