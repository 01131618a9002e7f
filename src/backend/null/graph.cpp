// SPDX-License-Identifier: Apache-2.0
#include "backend/null/graph.hpp"

#include <algorithm>
#include <utility>

#include "backend/guarded.hpp"
#include "backend/missing.hpp"
#include "backend/parting.hpp"

namespace millstream::backend::null {
namespace {

// More graphs at a time than a context has; beyond them the room is given back.
constexpr std::size_t most_spares = 4;

recording take_spare(machine_state& from) {
  const std::scoped_lock hold(from.spare_mutex);
  if (from.spare_recordings.empty()) return {};
  recording found = std::move(from.spare_recordings.back());
  from.spare_recordings.pop_back();
  return found;
}

void keep_spare(machine_state& in, recording&& spare) noexcept {
  spare.shape.clear();
  spare.jobs.clear();
  spare.kept.clear();
  const std::scoped_lock hold(in.spare_mutex);
  if (in.spare_recordings.size() >= most_spares) return;
  static_cast<void>(guarded("graph", [&]() -> status {
    in.spare_recordings.push_back(std::move(spare));
    return {};
  }));
}

}  // namespace

executable::executable(std::shared_ptr<machine_state> machine, std::string who,
                       const recording& what)
    : machine_(std::move(machine)), who_(std::move(who)), alive_(machine_->live), what_(what) {}

status executable::launch(backend::queue& /*on*/) {
  if (status refused = machine_->gate.pass(call::graph_launch, who_); !refused) return refused;
  for (job* each : what_.jobs)
    each->discard();
  return {};
}

std::size_t executable::bytes() const noexcept {
  return sizeof *this + what_.shape.bytes() + what_.jobs.capacity() * sizeof(job*);
}

graph::graph(std::shared_ptr<machine_state> machine, std::string who, int device)
    : machine_(std::move(machine)),
      who_(std::move(who)),
      device_(device),
      alive_(machine_->live),
      what_(take_spare(*machine_)) {}

graph::~graph() {
  for (queue* each : bodies_)
    each->into_ = nullptr;
  if (!base::forked_child()) keep_spare(*machine_, std::move(what_));
}

status graph::enter(call kind) const {
  status refused = machine_->gate.pass(kind, who_);
  return refused ? check_usable() : std::move(refused);
}

status graph::check_usable() const {
  if (!broken_) return {};
  return guarded(who_, [&] {
    return status(errc::usage,
                  base::cat(who_, " cannot use a graph whose recording failed; make a new one"));
  });
}

status graph::check_whole() const {
  if (bodies_.empty()) return {};
  return guarded(who_, [&] {
    return status(errc::usage, base::cat(who_,
                                         " cannot use a graph while a body is recorded into "
                                         "it; end the body first"));
  });
}

result<graph_node> graph::add(node_kind kind, int place, node_span after) {
  result<graph_node> added = what_.shape.add(kind, place, after, who_);
  if (added) machine_->gate.note(node_call(kind));
  return added;
}

result<graph_node> graph::add_kernel(const launch_request& /*what*/, node_span after) {
  if (status refused = enter(call::graph_add); !refused) return refused;
  return guarded(who_, [&] { return add(node_kind::kernel, device_, after); });
}

result<graph_node> graph::add_copy(const copy_request& what, node_span after) {
  if (status refused = enter(call::graph_add); !refused) return refused;
  const bool left_out = !machine_->runs_jobs && what.skip_when != nullptr &&
                        what.skip_when->load(std::memory_order_acquire) != nullptr;
  if (left_out) return graph_node::none;
  return guarded(who_, [&] { return add(node_kind::copy, place_of(what), after); });
}

result<graph_node> graph::add_fill(const fill_request& what, node_span after) {
  if (status refused = enter(call::graph_add); !refused) return refused;
  return guarded(who_, [&] { return add(node_kind::fill, place_of(what), after); });
}

result<graph_node> graph::add_host(job& what, int device, node_span after) {
  if (status refused = enter(call::graph_add); !refused) return refused;
  if (device >= 0 && !machine_->runs_jobs) {
    return missing(who_, "run jobs in graphs", capability::runs_jobs);
  }
  if (status wrong = check_device(device, machine_->memory.devices.size(), who_); !wrong) {
    return wrong;
  }
  return guarded(who_, [&] {
    what_.jobs.push_back(&what);
    result<graph_node> added = add(node_kind::host, device, after);
    if (!added) what_.jobs.pop_back();
    return added;
  });
}

result<graph_node> graph::add_child(const backend::graph& child, node_span after) {
  if (status refused = enter(call::graph_add); !refused) return refused;
  return guarded(who_, [&]() -> result<graph_node> {
    const recording& inner = static_cast<const graph&>(child).what_;
    result<graph_node> added =
        what_.shape.add_child(std::make_shared<const graph_shape>(inner.shape), after, who_);
    if (!added) return added;
    what_.jobs.insert(what_.jobs.end(), inner.jobs.begin(), inner.jobs.end());
    what_.kept.insert(what_.kept.end(), inner.kept.begin(), inner.kept.end());
    machine_->gate.note(node_call(node_kind::child));
    return added;
  });
}

status graph::begin_body(backend::queue& on, node_span after) {
  if (status refused = enter(call::graph_body); !refused) return refused;
  return guarded(who_, [&]() -> status {
    if (!bodies_.empty() && recorded_by_ != std::this_thread::get_id()) {
      return {errc::usage, base::cat(who_,
                                     " cannot record a body while another thread records "
                                     "into the graph; use a graph of its own")};
    }
    auto& captured = static_cast<queue&>(on);
    if (captured.into_ != nullptr) {
      return {errc::usage, base::cat(who_,
                                     " cannot record two bodies on one queue at a time; end "
                                     "the first or use another queue")};
    }
    if (status wrong = what_.shape.check(after, who_); !wrong) return wrong;
    captured.ends_.clear();
    captured.ends_.reserve(after.size());
    for (const graph_node each : after) {
      if (each != graph_node::none) captured.ends_.push_back(each);
    }
    bodies_.push_back(&captured);
    captured.into_ = this;
    recorded_by_ = std::this_thread::get_id();
    return {};
  });
}

status graph::end_body(backend::queue& on, node_list& last) {
  last.clear();
  auto& captured = static_cast<queue&>(on);
  if (captured.into_ != this) {
    return guarded(who_, [&] {
      return status(errc::usage, base::cat(who_,
                                           " cannot end a body that was not begun; begin it "
                                           "on this queue first"));
    });
  }
  forget(captured);
  status ended = machine_->gate.pass(call::graph_body, who_);
  if (ended) {
    last = std::move(captured.ends_);
  } else {
    broken_ = true;
  }
  return ended;
}

status graph::record_into(backend::queue& on) {
  if (status refused = enter(call::graph_launch); !refused) return refused;
  if (status open = check_whole(); !open) return open;
  auto& captured = static_cast<queue&>(on);
  return guarded(who_, [&]() -> status {
    if (captured.into_ == nullptr) {
      return {errc::usage, base::cat(who_,
                                     " cannot record a graph into a queue that nobody records; "
                                     "launch it there")};
    }
    result<graph_node> added = captured.into_->add_child(*this, captured.ends_);
    if (!added) return added.take_status();
    captured.ends_.clear();
    captured.ends_.push_back(added.value());
    return {};
  });
}

status graph::keep(std::shared_ptr<void> what) {
  if (status refused = enter(call::graph_add); !refused) return refused;
  return guarded(who_, [&]() -> status {
    what_.kept.push_back(part_elsewhere(std::move(what)));
    return {};
  });
}

status graph::release_queues() {
  status usable = check_usable();
  return usable ? check_whole() : std::move(usable);
}

status graph::record(queue& on, node_kind kind, int place) {
  return guarded(who_, [&]() -> status {
    result<graph_node> added = add(kind, place, on.ends_);
    if (!added) return added.take_status();
    on.ends_.clear();
    on.ends_.push_back(added.value());
    return {};
  });
}

void graph::forget(queue& on) noexcept {
  on.into_ = nullptr;
  std::erase(bodies_, &on);
}

result<std::unique_ptr<executable_graph>> graph::instantiate() {
  if (status refused = enter(call::graph_instantiate); !refused) return refused;
  if (status open = check_whole(); !open) return open;
  return guarded(who_, [&]() -> result<std::unique_ptr<executable_graph>> {
    return std::unique_ptr<executable_graph>(std::make_unique<executable>(machine_, who_, what_));
  });
}

status graph::update(executable_graph& target) {
  if (status refused = enter(call::graph_update); !refused) return refused;
  if (status open = check_whole(); !open) return open;
  return guarded(who_, [&]() -> status {
    auto& to = static_cast<executable&>(target);
    if (status differs = what_.shape.check_same(to.shape(), who_); !differs) return differs;
    to.take_over(what_);
    return {};
  });
}

result<std::string> graph::dot() const {
  if (base::forked_child()) return call_gate::refuse_child(who_);
  return guarded(who_, [&]() -> result<std::string> { return what_.shape.dot(); });
}

}  // namespace millstream::backend::null
