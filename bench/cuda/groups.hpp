// SPDX-License-Identifier: Apache-2.0
/// The groups of measurements, each in a file of its name.
#pragma once

#include <millstream/millstream.hpp>

#include "bench/cuda/gpu.hpp"
#include "bench/cuda/harness.hpp"

namespace bench {

/// What a group measures with and where it puts its rows.
struct session {
  report& into;
  const gpu& by_hand;
  const millstream::machine& on;
};

void measure_tasks(const session& in);     ///< one task, one kernel a task, fork and join
void measure_graphs(const session& in);    ///< recorded contexts
void measure_patterns(const session& in);  ///< the dependence patterns of Task Bench
void measure_copies(const session& in);    ///< copies, waits, registration

/// Blocks until all that was submitted has ended.
inline void drain(millstream::context& what) {
  what.fence().synchronize();
}

/// Data on the device, written once.
inline millstream::logical_data<double> make_device_data(millstream::context& in,
                                                         std::size_t elements = 64) {
  auto made = in.logical_data<double>(elements);
  in.fill(made, 0.0);
  return made;
}

}  // namespace bench
