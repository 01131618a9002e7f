// SPDX-License-Identifier: Apache-2.0
#include "backend/host/queue.hpp"

#include <utility>

#include "backend/host/event.hpp"
#include "backend/missing.hpp"
#include "backend/queue_number.hpp"

namespace millstream::backend::host {
queue::queue(std::shared_ptr<machine_state> machine, std::string who, int device)
    : machine_(std::move(machine)),
      who_(std::move(who)),
      alive_(machine_->live),
      number_(next_queue_number()),
      lane_(make_lane(machine_, who_)),
      owns_lane_(true) {
  machine_->queues.add(number_, device, lane_);
}

queue::queue(std::shared_ptr<machine_state> machine, std::string who, std::uint64_t number,
             std::shared_ptr<lane> shared)
    : machine_(std::move(machine)),
      who_(std::move(who)),
      alive_(machine_->live),
      number_(number),
      lane_(std::move(shared)),
      owns_lane_(false) {}

queue::~queue() {
  // In a forked child the lane's thread is missing and may have left its mutex locked.
  if (!owns_lane_ || base::forked_child()) return;
  machine_->queues.remove(number_);
  lane_->close();
}

status queue::copy(const copy_request& request) {
  if (status refused = machine_->gate.pass(call::copy, who_); !refused) return refused;
  auto any = machine_->check(request, who_);
  if (!any) return any.take_status();
  return any.value() ? lane_->add(request) : status{};
}

status queue::fill(const fill_request& request) {
  if (status refused = machine_->gate.pass(call::fill, who_); !refused) return refused;
  auto any = machine_->check(request, who_);
  if (!any) return any.take_status();
  return any.value() ? lane_->add(request) : status{};
}

status queue::run(job& work) {
  if (status refused = machine_->gate.pass(call::run, who_); !refused) return refused;
  return lane_->add(job_turn{&work});
}

status queue::launch(const launch_request& /*request*/) {
  if (status refused = machine_->gate.pass(call::launch, who_); !refused) return refused;
  return missing(who_, "launch kernels", capability::kernels);
}

status queue::record(backend::event& mark) {
  if (status refused = machine_->gate.pass(call::record, who_); !refused) return refused;
  static_cast<event&>(mark).mark(lane_, lane_->tail());
  return {};
}

status queue::wait(backend::event& mark) {
  if (status refused = machine_->gate.pass(call::wait, who_); !refused) return refused;
  wait_turn last = static_cast<const event&>(mark).last_mark();
  const bool implied =
      last.behind == nullptr || last.behind == lane_ || last.behind->passed(last.position);
  return implied ? status{} : lane_->add(std::move(last));
}

status queue::release(arena& from, void* block, std::size_t bytes) {
  if (status refused = machine_->gate.pass(call::release, who_); !refused) return refused;
  if (block == nullptr) return {};
  if (status refused = from.give_up(block, bytes); !refused) return refused;
  status added = lane_->add(release_turn{&from, &machine_->live, block});
  if (!added) from.keep(block);
  return added;
}

}  // namespace millstream::backend::host
