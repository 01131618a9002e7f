// SPDX-License-Identifier: Apache-2.0
#include "backend/null/device.hpp"

#include <utility>

#include "backend/guarded.hpp"
#include "backend/null/graph.hpp"

namespace millstream::backend::null {

device::device(std::shared_ptr<machine_state> machine, int index)
    : machine_(std::move(machine)),
      index_(index),
      name_(device_name(index)),
      who_(base::cat("device ", base::quoted(name_))),
      memory_(machine_->memory.of(index)) {}

result<std::unique_ptr<backend::queue>> device::make_queue() {
  if (status refused = machine_->gate.pass(call::make_queue, who_); !refused) return refused;
  return guarded(who_, [&]() -> result<std::unique_ptr<backend::queue>> {
    const bool runs_jobs = index_ < 0 || machine_->runs_jobs;
    return std::unique_ptr<backend::queue>(std::make_unique<queue>(machine_, who_, runs_jobs));
  });
}

result<std::unique_ptr<backend::event>> device::make_event() {
  if (status refused = machine_->gate.pass(call::make_event, who_); !refused) return refused;
  return guarded(who_, [&]() -> result<std::unique_ptr<backend::event>> {
    return std::unique_ptr<backend::event>(std::make_unique<event>(machine_, who_));
  });
}

result<void*> device::allocate(std::size_t bytes, backend::queue& /*order*/) {
  if (status refused = machine_->gate.pass(call::allocate, who_); !refused) return refused;
  result<void*> taken = memory_.take(bytes);
  if (taken && taken.value() != nullptr) machine_->live.add(1);
  return taken;
}

status device::release(void* block, std::size_t bytes, backend::queue& order) {
  return static_cast<queue&>(order).release(memory_, block, bytes);
}

memory_info device::memory() const noexcept {
  return {memory_.capacity(), memory_.used()};
}

result<std::unique_ptr<backend::program>> device::load(std::span<const std::byte> /*image*/) {
  if (base::forked_child()) return call_gate::refuse_child(who_);
  return guarded(who_, [&]() -> result<std::unique_ptr<backend::program>> {
    return std::unique_ptr<backend::program>(std::make_unique<program>(machine_->live, who_));
  });
}

result<backend::kernel*> device::adopt_kernel(std::uint64_t native) {
  if (base::forked_child()) return call_gate::refuse_child(who_);
  return guarded(who_, [&]() -> result<backend::kernel*> {
    return adopted_.find(native,
                         [](const std::uint64_t& number) { return base::cat("kernel ", number); });
  });
}

result<std::unique_ptr<backend::graph>> device::make_graph() {
  if (status refused = machine_->gate.pass(call::make_graph, who_); !refused) return refused;
  return guarded(who_, [&]() -> result<std::unique_ptr<backend::graph>> {
    return std::unique_ptr<backend::graph>(std::make_unique<graph>(machine_, who_, index_));
  });
}

std::string device_name(int device) {
  return device < 0 ? std::string("null host") : base::cat("null:", device);
}

}  // namespace millstream::backend::null
