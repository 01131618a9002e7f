// SPDX-License-Identifier: Apache-2.0
#include "backend/null/queue.hpp"

#include <utility>

#include "backend/missing.hpp"
#include "backend/null/graph.hpp"
#include "backend/queue_number.hpp"

namespace millstream::backend::null {

result<bool> event::is_done() {
  if (status refused = machine_->gate.pass(call::query, who_); !refused) return refused;
  return true;
}

result<bool> event::wait_for(std::chrono::milliseconds /*limit*/) {
  if (status refused = machine_->gate.pass(call::host_wait, who_); !refused) return refused;
  return true;
}

queue::queue(std::shared_ptr<machine_state> machine, std::string who, bool runs_jobs)
    : machine_(std::move(machine)),
      who_(std::move(who)),
      alive_(machine_->live),
      number_(next_queue_number()),
      runs_jobs_(runs_jobs) {}

queue::~queue() {
  if (into_ != nullptr) into_->forget(*this);
}

status queue::copy(const copy_request& request) {
  if (status refused = machine_->gate.pass(call::copy, who_); !refused) return refused;
  return into_ != nullptr ? into_->record(*this, node_kind::copy, place_of(request)) : status{};
}

status queue::fill(const fill_request& request) {
  if (status refused = machine_->gate.pass(call::fill, who_); !refused) return refused;
  return into_ != nullptr ? into_->record(*this, node_kind::fill, place_of(request)) : status{};
}

status queue::run(job& work) {
  if (status refused = machine_->gate.pass(call::run, who_); !refused) return refused;
  if (!runs_jobs_) return missing(who_, "run jobs on its queues", capability::runs_jobs);
  work.discard();
  return {};
}

status queue::launch(const launch_request& /*request*/) {
  if (status refused = machine_->gate.pass(call::launch, who_); !refused) return refused;
  return into_ != nullptr ? into_->record(*this, node_kind::kernel, into_->place()) : status{};
}

status queue::record(backend::event& /*mark*/) {
  return machine_->gate.pass(call::record, who_);
}

status queue::wait(backend::event& /*mark*/) {
  return machine_->gate.pass(call::wait, who_);
}

status queue::keep(std::shared_ptr<void> what) {
  return into_ != nullptr ? into_->keep(std::move(what)) : backend::queue::keep(std::move(what));
}

status queue::release(arena& from, void* block, std::size_t bytes) {
  if (status refused = machine_->gate.pass(call::release, who_); !refused) return refused;
  if (block == nullptr) return {};
  if (status refused = from.give_up(block, bytes); !refused) return refused;
  from.take_back(block);
  machine_->live.add(-1);
  return {};
}

}  // namespace millstream::backend::null
