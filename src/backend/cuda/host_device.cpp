// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>
#include <utility>

#include "backend/cuda/device.hpp"
#include "backend/cuda/event.hpp"
#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/queue.hpp"
#include "backend/guarded.hpp"
#include "backend/missing.hpp"

namespace millstream::backend::cuda {

host_device::host_device(std::shared_ptr<machine_state> machine) : machine_(std::move(machine)) {}

int host_device::queue_hint() const noexcept {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 8);
}

result<std::unique_ptr<backend::queue>> host_device::make_queue() {
  using answer = result<std::unique_ptr<backend::queue>>;
  if (status refused = machine_->gate.pass(call::make_queue, who_); !refused) return refused;
  return guarded(who_, [&]() -> answer {
    auto made = host_queue::make(machine_, who_);
    if (!made) return made.take_status();
    return std::unique_ptr<backend::queue>(std::move(made.value()));
  });
}

result<std::unique_ptr<backend::event>> host_device::make_event() {
  using answer = result<std::unique_ptr<backend::event>>;
  if (status refused = machine_->gate.pass(call::make_event, who_); !refused) return refused;
  return guarded(who_, [&]() -> answer {
    return std::unique_ptr<backend::event>(std::make_unique<event>(machine_, who_));
  });
}

result<void*> host_device::allocate(std::size_t bytes, backend::queue& /*order*/) {
  if (status refused = machine_->gate.pass(call::allocate, who_); !refused) return refused;
  return guarded(who_,
                 [&] { return machine_->host->allocate(block_cache::kind::pinned, bytes, who_); });
}

status host_device::release(void* block, std::size_t bytes, backend::queue& order) {
  if (status refused = machine_->gate.pass(call::release, who_); !refused) return refused;
  return guarded(who_, [&] {
    return machine_->host->release(block_cache::kind::pinned, block, bytes,
                                   static_cast<any_queue&>(order), who_);
  });
}

memory_info host_device::memory() const noexcept {
  return {machine_->host->total(), machine_->host->used()};
}

result<void*> host_device::allocate_managed(std::size_t bytes, backend::queue& order) {
  if (!machine_->bits.has(capability::managed)) {
    return backend::device::allocate_managed(bytes, order);
  }
  if (status refused = machine_->gate.pass(call::allocate, who_); !refused) return refused;
  return guarded(who_,
                 [&] { return machine_->host->allocate(block_cache::kind::managed, bytes, who_); });
}

status host_device::release_managed(void* block, std::size_t bytes, backend::queue& order) {
  if (status refused = machine_->gate.pass(call::release, who_); !refused) return refused;
  return guarded(who_, [&] {
    return machine_->host->release(block_cache::kind::managed, block, bytes,
                                   static_cast<any_queue&>(order), who_);
  });
}

result<std::unique_ptr<backend::program>> host_device::load(std::span<const std::byte> /*image*/) {
  return missing(who_, "load device code", capability::kernels);
}

result<std::unique_ptr<backend::graph>> host_device::make_graph() {
  return missing(who_, "build graphs", capability::graphs);
}

}  // namespace millstream::backend::cuda
