// SPDX-License-Identifier: Apache-2.0
/// Random programs for the engine. The same seed gives the same program on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/scenario/program.hpp"

namespace millstream::model {

/// All programs of a run use one number of devices, so that each schedule seed opens one machine.
inline constexpr int usual_devices = 3;

/// Data, places, modes, all forms of tasks, fills, waits, fences, drops, buffers that are
/// registered again, failures and healing, rules broken on purpose. What breaks a rule is announced
/// by `expect error`, so a program is a complete scenario. In half of the programs host functions
/// are declared not to use the device, mostly. `may_keep_open`: some keep tasks open.
[[nodiscard]] scenario::program generate(std::uint64_t seed, int devices,
                                         bool may_keep_open = true);

/// Programs to be played together, each by its own thread: like the above, with names that differ,
/// without tasks that stay open; all add to `shared_name`.
[[nodiscard]] std::vector<scenario::program> generate_together(std::uint64_t seed, int devices,
                                                               std::size_t threads);
inline constexpr const char* shared_name = "shared";

/// Puts `expect error` behind each statement that the oracle says breaks a rule, and takes away
/// those that announce nothing any more.
void announce_errors(scenario::program& what);

}  // namespace millstream::model
