// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/state.hpp"

namespace fake_cuda {

namespace {

/// Contexts and their default streams own one another.
void break_cycles(state& all) {
  for (const auto& [handle, one] : all.contexts) {
    one->legacy = nullptr;
    one->of_threads.clear();
  }
}

void forget_objects(state& all) {
  break_cycles(all);
  all.contexts.clear();
  all.primaries.clear();
  all.streams.clear();
  all.events.clear();
  all.graphs.clear();
  all.nodes.clear();
  all.executables.clear();
  all.user_objects.clear();
  all.captures.clear();
  all.pools.clear();
  all.default_pools.clear();
  all.graph_pools.clear();
  all.ranges.clear();
  all.modules.clear();
  all.libraries.clear();
  all.functions.clear();
  all.unloaded_functions.clear();
  all.greens.clear();
  all.descriptors.clear();
  all.memory.clear();
  all.physical.clear();
  all.used_bytes.clear();
}

}  // namespace

void state::apply_settings() {
  config = settings::from_environment();
  work.seed(config.seed);
  work.park_limit(config.park_limit);
  log.write_to(config.log_path);
}

void state::reset() {
  std::unique_lock hold(mutex);
  thread.drain(hold);
  work.clear();
  forget_objects(*this);
  initialised = false;
  ++generation;
  threads = 0;
  faults_fired = 0;
  launch_attributes = 0;
  abandoned = 0;
  log.turn(true);
  log.turn(false);
  log.clear_counts();
  apply_settings();
}

state& the_state() {
  static state* const only = [] {
    auto* const made = new state;
    made->apply_settings();
    return made;
  }();
  return *only;
}

}  // namespace fake_cuda
