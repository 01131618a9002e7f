// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/body.hpp"

#include "base/clock.hpp"
#include "tests/scenario/body_run.hpp"
#include "tests/scenario/device_body.hpp"

namespace millstream::scenario {
namespace {

bool is_for_device(const task_record& task, const body_world& world) {
  return world.device != nullptr && device_bodies::is_needed(*task.forecast);
}

void run_here(task_record& task, const body_run& run, const body_world& world) {
  ++task.runs;
  const std::uint64_t began = base::now_ns();
  const std::vector<std::int64_t> seen = run.read_inputs();
  run.write_outputs(seen);
  run.check_still(seen);
  world.times->note(task.what->name, {began, base::now_ns()});
}

}  // namespace

void check_inputs(task_record& task, const body_call& call, const body_world& world) {
  if (!world.has_values) return;
  const body_run run(task, call, world);
  if (!run.check_call()) return;
  if (is_for_device(task, world)) {
    world.device->queue(task, call, world, /*whole=*/false);
  } else {
    (void)run.read_inputs();
  }
}

void run_body(task_record& task, const body_call& call, const body_world& world) {
  if (!world.has_values) {
    ++task.runs;
    return;
  }
  const body_run run(task, call, world);
  if (!run.check_call()) return;
  if (is_for_device(task, world)) {
    world.device->queue(task, call, world, /*whole=*/true);
  } else {
    run_here(task, run, world);
  }
  const bool fails = task.what->body.what == effect::fails && task.forecast->runs;
  if (fails) throw planned_failure(task.what->name);
}

}  // namespace millstream::scenario
