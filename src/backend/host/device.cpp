// SPDX-License-Identifier: Apache-2.0
#include "backend/host/device.hpp"

#include <utility>

#include "backend/guarded.hpp"
#include "backend/host/event.hpp"
#include "backend/host/graph.hpp"
#include "backend/host/queue.hpp"
#include "backend/missing.hpp"

namespace millstream::backend::host {

device::device(std::shared_ptr<machine_state> machine, int index, int queue_hint)
    : machine_(std::move(machine)),
      index_(index),
      queue_hint_(queue_hint),
      name_(device_name(index)),
      who_(machine_state::who_of(index)),
      memory_(machine_->memory.of(index)) {}

result<std::unique_ptr<backend::queue>> device::make_queue() {
  if (status refused = machine_->gate.pass(call::make_queue, who_); !refused) return refused;
  return guarded(who_, [&]() -> result<std::unique_ptr<backend::queue>> {
    return std::unique_ptr<backend::queue>(std::make_unique<queue>(machine_, who_, index_));
  });
}

result<std::unique_ptr<backend::queue>> device::adopt(std::uint64_t number, bool /*one_thread*/) {
  if (status refused = machine_->gate.pass(call::make_queue, who_); !refused) return refused;
  return guarded(who_, [&]() -> result<std::unique_ptr<backend::queue>> {
    auto known = machine_->queues.find(number);
    if (!known || known->behind == nullptr || known->device != index_) {
      return status(errc::invalid_value, base::cat(who_, " has no queue with number ", number,
                                                   "; give a number that it handed out"));
    }
    return std::unique_ptr<backend::queue>(
        std::make_unique<queue>(machine_, who_, number, std::move(known->behind)));
  });
}

result<std::unique_ptr<backend::event>> device::make_event() {
  if (status refused = machine_->gate.pass(call::make_event, who_); !refused) return refused;
  return guarded(who_, [&]() -> result<std::unique_ptr<backend::event>> {
    return std::unique_ptr<backend::event>(std::make_unique<event>(machine_, who_));
  });
}

// Blocks come back when the release had its turn, so a free one is ready for every queue.
result<void*> device::take(arena& from, std::size_t bytes) {
  if (status refused = machine_->gate.pass(call::allocate, who_); !refused) return refused;
  result<void*> taken = from.take(bytes);
  if (taken && taken.value() != nullptr) machine_->live.add(1);
  return taken;
}

result<void*> device::allocate(std::size_t bytes, backend::queue& /*order*/) {
  return take(memory_, bytes);
}

result<void*> device::allocate_managed(std::size_t bytes, backend::queue& /*order*/) {
  return take(*machine_->memory.host, bytes);
}

status device::release_managed(void* block, std::size_t bytes, backend::queue& order) {
  return static_cast<queue&>(order).release(*machine_->memory.host, block, bytes);
}

status device::release(void* block, std::size_t bytes, backend::queue& order) {
  return static_cast<queue&>(order).release(memory_, block, bytes);
}

memory_info device::memory() const noexcept {
  return {memory_.capacity(), memory_.used()};
}

result<std::unique_ptr<program>> device::load(std::span<const std::byte> /*image*/) {
  return missing(who_, "load device code", capability::kernels);
}

const launch_limits* device::limits() noexcept {
  static constexpr launch_limits all_have{
      {2147483647, 65535, 65535}, {1024, 1024, 64}, 1024, /*shared_bytes=*/0};
  return &all_have;
}

result<std::unique_ptr<backend::graph>> device::make_graph() {
  if (status refused = machine_->gate.pass(call::make_graph, who_); !refused) return refused;
  return guarded(who_, [&]() -> result<std::unique_ptr<backend::graph>> {
    return std::unique_ptr<backend::graph>(std::make_unique<graph>(machine_, who_));
  });
}

}  // namespace millstream::backend::host
