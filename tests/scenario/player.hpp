// SPDX-License-Identifier: Apache-2.0
/// Plays a program on the engine and compares everything that can be seen with the forecast.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <millstream/untyped.hpp>

#include "tests/scenario/oracle.hpp"
#include "tests/scenario/program.hpp"

namespace millstream::scenario {

/// One run of a program.
struct run_options {
  std::string backend = "host";
  std::optional<std::uint64_t> seed;  ///< none = real overlap
  bool recorded = false;              ///< the context records its tasks

  [[nodiscard]] std::string text() const;
};

/// A context of its own for the program, from opening to the end. Returns what went wrong, nothing
/// if all was as it must be. Blocks until everything ended.
[[nodiscard]] std::vector<std::string> play(const program& what, const forecast& plan,
                                            const run_options& options);

/// Each program is played by a thread of its own, all on one context. Data named in `shared` (by
/// every program, registered) is one datum for all of them: it must only be used by tasks that add
/// to it, and ends as the first value plus all that was added. Other data and task names must
/// differ between the programs.
[[nodiscard]] std::vector<std::string> play_together(const std::vector<program>& programs,
                                                     const std::vector<forecast>& plans,
                                                     const std::vector<std::string>& shared,
                                                     const run_options& options);

}  // namespace millstream::scenario
