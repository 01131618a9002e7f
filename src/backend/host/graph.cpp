// SPDX-License-Identifier: Apache-2.0
#include "backend/host/graph.hpp"

#include <utility>

#include "backend/guarded.hpp"
#include "backend/host/queue.hpp"
#include "backend/missing.hpp"
#include "backend/parting.hpp"

namespace millstream::backend::host {

executable::executable(std::shared_ptr<machine_state> machine, std::string who,
                       std::shared_ptr<const recording> what)
    : machine_(std::move(machine)),
      who_(std::move(who)),
      alive_(machine_->live),
      what_(std::move(what)),
      plan_(std::make_shared<const plan>(*what_)) {}

status executable::launch(backend::queue& on) {
  if (status refused = machine_->gate.pass(call::graph_launch, who_); !refused) return refused;
  return guarded(who_, [&]() -> status {
    const std::scoped_lock hold(mutex_);
    if (last_ != nullptr && last_->passed(host::launch::end)) last_ = nullptr;
    auto next = std::make_shared<host::launch>(machine_, plan_, last_);
    status queued = next->queue_on(*static_cast<queue&>(on).where());
    if (queued) last_ = std::move(next);
    return queued;
  });
}

std::size_t executable::bytes() const noexcept {
  const std::scoped_lock hold(mutex_);
  return sizeof *this + what_->bytes() + plan_->bytes();
}

status executable::take_over(const std::shared_ptr<const recording>& what) {
  const std::scoped_lock hold(mutex_);
  if (status differs = what->shape.check_same(what_->shape, who_); !differs) return differs;
  plan_ = std::make_shared<const plan>(*what);
  what_ = what;
  return {};
}

graph::graph(std::shared_ptr<machine_state> machine, std::string who)
    : machine_(std::move(machine)),
      who_(std::move(who)),
      alive_(machine_->live),
      what_(std::make_shared<recording>()) {}

recording& graph::own() {
  if (shared_) {
    what_ = std::make_shared<recording>(*what_);
    shared_ = false;
  }
  return *what_;
}

std::shared_ptr<const recording> graph::share() const noexcept {
  shared_ = true;
  return what_;
}

template <class AddToShape>
result<graph_node> graph::add_with(node_work work, AddToShape&& how) {
  recording& into = own();
  into.work.push_back(std::move(work));
  try {
    result<graph_node> added = how(into.shape);
    if (!added) into.work.pop_back();
    return added;
  } catch (const std::bad_alloc&) {
    into.work.pop_back();
    throw;
  }
}

result<graph_node> graph::add(node_kind kind, int place, node_work work, node_span after) {
  return guarded(who_, [&] {
    result<graph_node> added = add_with(
        std::move(work), [&](graph_shape& shape) { return shape.add(kind, place, after, who_); });
    if (added) machine_->gate.note(node_call(kind));
    return added;
  });
}

result<graph_node> graph::add_kernel(const launch_request& /*what*/, node_span /*after*/) {
  if (status refused = machine_->gate.pass(call::graph_add, who_); !refused) return refused;
  return missing(who_, "launch kernels", capability::kernels);
}

result<graph_node> graph::add_copy(const copy_request& what, node_span after) {
  if (status refused = machine_->gate.pass(call::graph_add, who_); !refused) return refused;
  if (auto checked = machine_->check(what, who_); !checked) return checked.take_status();
  return add(node_kind::copy, place_of(what), what, after);
}

result<graph_node> graph::add_fill(const fill_request& what, node_span after) {
  if (status refused = machine_->gate.pass(call::graph_add, who_); !refused) return refused;
  if (auto checked = machine_->check(what, who_); !checked) return checked.take_status();
  return add(node_kind::fill, place_of(what), what, after);
}

result<graph_node> graph::add_host(job& what, int device, node_span after) {
  if (status refused = machine_->gate.pass(call::graph_add, who_); !refused) return refused;
  if (status wrong = check_device(device, machine_->memory.devices.size(), who_); !wrong) {
    return wrong;
  }
  return add(node_kind::host, device, &what, after);
}

result<graph_node> graph::add_child(const backend::graph& child, node_span after) {
  if (status refused = machine_->gate.pass(call::graph_add, who_); !refused) return refused;
  const std::shared_ptr<const recording> inner = static_cast<const graph&>(child).share();
  return guarded(who_, [&] {
    result<graph_node> added = add_with(inner, [&](graph_shape& shape) {
      return shape.add_child({inner, &inner->shape}, after, who_);
    });
    if (added) machine_->gate.note(node_call(node_kind::child));
    return added;
  });
}

status graph::begin_body(backend::queue& /*on*/, node_span /*after*/) {
  if (status refused = machine_->gate.pass(call::graph_body, who_); !refused) return refused;
  return missing(who_, "record what is issued to a queue", capability::capture_to_graph);
}

status graph::end_body(backend::queue& /*on*/, node_list& last) {
  last.clear();
  if (status refused = machine_->gate.pass(call::graph_body, who_); !refused) return refused;
  return missing(who_, "record what is issued to a queue", capability::capture_to_graph);
}

status graph::record_into(backend::queue& /*on*/) {
  if (status refused = machine_->gate.pass(call::graph_launch, who_); !refused) return refused;
  return missing(who_, "record a graph into a queue", capability::capture_to_graph);
}

status graph::keep(std::shared_ptr<void> what) {
  if (status refused = machine_->gate.pass(call::graph_add, who_); !refused) return refused;
  return guarded(who_, [&]() -> status {
    own().kept.push_back(part_elsewhere(std::move(what)));
    return {};
  });
}

result<std::unique_ptr<executable_graph>> graph::instantiate() {
  if (status refused = machine_->gate.pass(call::graph_instantiate, who_); !refused) return refused;
  return guarded(who_, [&]() -> result<std::unique_ptr<executable_graph>> {
    return std::unique_ptr<executable_graph>(std::make_unique<executable>(machine_, who_, share()));
  });
}

status graph::update(executable_graph& target) {
  if (status refused = machine_->gate.pass(call::graph_update, who_); !refused) return refused;
  return guarded(who_, [&] { return static_cast<executable&>(target).take_over(share()); });
}

result<std::string> graph::dot() const {
  if (base::forked_child()) return call_gate::refuse_child(who_);
  return guarded(who_, [&]() -> result<std::string> { return what_->shape.dot(); });
}

}  // namespace millstream::backend::host
