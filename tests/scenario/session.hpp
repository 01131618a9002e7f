// SPDX-License-Identifier: Apache-2.0
/// One context and what is watched about it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <millstream/trace.hpp>
#include <millstream/untyped.hpp>

#include "tests/scenario/body.hpp"
#include "tests/scenario/device_body.hpp"
#include "tests/scenario/player.hpp"
#include "tests/scenario/problems.hpp"

namespace millstream::scenario {

/// Shared by the players of a run; outlives them.
struct session {
  session(const std::string& file, int devices, const run_options& options);

  problem_list problems;
  time_log times;
  body_world world;
  std::optional<device_bodies> device;  ///< on a machine whose memory the CPU does not see
  /// Several threads record bodies that issue work: what one had issued that failed beside another
  /// one runs, or does not.
  bool drops_failed = false;
  std::uint64_t stalls_before = 0;
  machine_traits traits;
  std::shared_ptr<trace_recorder> recorder;
  std::optional<untyped_context> context;
};

/// What the recorder saw against the forecast: edges, ends, copies, times.
void check_trace(session& in, const program& what, const forecast& plan);
/// When a task's body really ran; 0 = it has none, or did not.
[[nodiscard]] body_times times_of(const session& in, const trace_node& of);
/// No stream may have been stopped by others that wait for host functions.
void check_stalls(session& in, const std::string& file);
/// Edges of the recorder held in time: nothing began before what it depends on had ended.
void check_times(session& in, const std::string& file, const trace_snapshot& seen);
/// Copies submitted so far.
void check_copies(session& in, std::uint32_t line, const expect_copies& wanted);

}  // namespace millstream::scenario
