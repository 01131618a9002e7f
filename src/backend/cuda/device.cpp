// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device.hpp"

#include <utility>

#include "backend/cuda/event.hpp"
#include "backend/cuda/graph.hpp"
#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/partition.hpp"
#include "backend/cuda/program.hpp"
#include "backend/cuda/queue.hpp"
#include "backend/cuda/visit.hpp"
#include "backend/guarded.hpp"
#include "backend/missing.hpp"

namespace millstream::backend::cuda {
namespace {

// More overlap little, and each costs marks and waits: on an H200, tasks in the patterns of Task
// Bench took 1.2 to 2 times as long with 8.
constexpr int streams_per_device = 4;

using queue_result = result<std::unique_ptr<backend::queue>>;

abi::stream handle_of(std::uint64_t stream) noexcept {
  return reinterpret_cast<abi::stream>(stream);
}

}  // namespace

int device::queue_hint() const noexcept {
  return streams_per_device;
}

/// The device is open in `body`.
template <class Answer, class Body>
Answer device::call(backend::call kind, Body&& body) {
  if (status refused = state_->machine().gate.pass(kind, state_->who()); !refused) return refused;
  if (status refused = state_->open(); !refused) return refused;
  return guarded(state_->who(), body);
}

queue_result device::make_queue() {
  return call<queue_result>(call::make_queue, [&]() -> queue_result {
    auto leased = state_->take_stream();
    if (!leased) return leased.take_status();
    return std::unique_ptr<backend::queue>(
        std::make_unique<queue>(state_, std::move(leased.value())));
  });
}

queue_result device::adopt(std::uint64_t native, bool one_thread) {
  return call<queue_result>(call::make_queue, [&]() -> queue_result {
    if (native == 0) native = legacy_default;
    if (native == per_thread_default && !one_thread) {
      return status(errc::invalid_value,
                    base::cat(state_->who(),
                              " cannot use the default stream of a thread, which "
                              "is another one in each; give a stream of its own"));
    }
    abi::context owner = nullptr;
    const context_guard in(state_->api(), state_->context());
    const abi::result answer = state_->api()->cuStreamGetCtx(handle_of(native), &owner);
    if (status failed = state_->check("tell whose stream it was given", answer); !failed) {
      return failed;
    }
    if (owner != state_->stream_context()) {
      return status(errc::invalid_value,
                    base::cat(state_->who(),
                              " was given a stream of another device or context; "
                              "use the device that the stream belongs to"));
    }
    return std::unique_ptr<backend::queue>(std::make_unique<queue>(
        state_, std::make_unique<stream>(*state_, handle_of(native), stream::owner::caller)));
  });
}

result<std::unique_ptr<backend::event>> device::make_event() {
  using answer = result<std::unique_ptr<backend::event>>;
  machine_state& machine = state_->machine();
  if (status refused = machine.gate.pass(call::make_event, state_->who()); !refused) {
    return refused;
  }
  return guarded(state_->who(), [&]() -> answer {
    return std::unique_ptr<backend::event>(
        std::make_unique<event>(machine.shared_from_this(), state_->who()));
  });
}

std::uint64_t device::enter() noexcept {
  if (base::forked_child() || !state_->open()) return 0;
  return begin_visit(state_->api(), state_->context());
}

void device::leave(std::uint64_t entered) noexcept {
  if (!base::forked_child()) end_visit(state_->api(), entered);
}

result<void*> device::allocate(std::size_t bytes, backend::queue& order) {
  return call<result<void*>>(call::allocate, [&] {
    stream* const native = static_cast<any_queue&>(order).native();
    auto taken = native != nullptr ? state_->memory().allocate(bytes, *native)
                                   : allocate_for_host(bytes, order);
    if (taken && taken.value() != nullptr) state_->machine().live.add(1);
    return taken;
  });
}

// A host queue waits until a stream came by the allocation.
result<void*> device::allocate_for_host(std::size_t bytes, backend::queue& order) {
  auto helper = state_->take_stream();
  if (!helper) return helper.take_status();
  auto taken = state_->memory().allocate(bytes, *helper.value());
  if (taken) {
    auto ready = helper.value()->record();
    status waits =
        ready ? static_cast<host_queue&>(order).wait_for(ready.value()) : ready.take_status();
    if (!waits) {
      static_cast<void>(state_->memory().release(taken.value(), bytes, *helper.value()));
      taken = std::move(waits);
    }
  }
  state_->give_back(std::move(helper.value()));
  return taken;
}

status device::release(void* block, std::size_t bytes, backend::queue& order) {
  return call<status>(call::release, [&]() -> status {
    if (block == nullptr) return {};
    stream* const native = static_cast<any_queue&>(order).native();
    status released = native != nullptr
                          ? state_->memory().release(block, bytes, *native)
                          : static_cast<host_queue&>(order).release(*state_, block, bytes);
    if (released) state_->machine().live.add(-1);
    return released;
  });
}

memory_info device::memory() const noexcept {
  return {state_->memory().total(), state_->memory().used()};
}

result<void*> device::allocate_managed(std::size_t bytes, backend::queue& /*order*/) {
  return call<result<void*>>(call::allocate, [&]() -> result<void*> {
    machine_state& machine = state_->machine();
    if (!machine.bits.has(capability::managed)) {
      return missing(state_->who(), "allocate managed memory", capability::managed);
    }
    return machine.host->allocate(block_cache::kind::managed, bytes, state_->who());
  });
}

status device::release_managed(void* block, std::size_t bytes, backend::queue& order) {
  return call<status>(call::release, [&] {
    return state_->machine().host->release(block_cache::kind::managed, block, bytes,
                                           static_cast<any_queue&>(order), state_->who());
  });
}

result<std::unique_ptr<backend::program>> device::load(std::span<const std::byte> image) {
  using answer = result<std::unique_ptr<backend::program>>;
  if (base::forked_child()) return call_gate::refuse_child(state_->who());
  if (status refused = state_->open(); !refused) return refused;
  return guarded(state_->who(), [&]() -> answer {
    auto loaded = program::load(state_, image);
    if (!loaded) return loaded.take_status();
    return std::unique_ptr<backend::program>(std::move(loaded.value()));
  });
}

result<backend::kernel*> device::adopt_kernel(std::uint64_t native) {
  if (base::forked_child()) return call_gate::refuse_child(state_->who());
  if (status refused = state_->open(); !refused) return refused;
  return guarded(state_->who(), [&] { return state_->adopted().adopt(*state_, native); });
}

result<std::unique_ptr<backend::graph>> device::adopt_graph(std::uint64_t native) {
  using answer = result<std::unique_ptr<backend::graph>>;
  if (base::forked_child()) return call_gate::refuse_child(state_->who());
  if (!state_->machine().bits.has(capability::graphs)) {
    return missing(state_->who(), "use graphs", capability::graphs);
  }
  if (status refused = state_->open(); !refused) return refused;
  return guarded(state_->who(), [&]() -> answer {
    auto made = graph::adopt(state_, native);
    if (!made) return made.take_status();
    return std::unique_ptr<backend::graph>(std::move(made.value()));
  });
}

result<std::unique_ptr<backend::graph>> device::make_graph() {
  using answer = result<std::unique_ptr<backend::graph>>;
  if (status refused = state_->machine().gate.pass(call::make_graph, state_->who()); !refused) {
    return refused;
  }
  const capability_set bits = state_->machine().bits;
  if (!bits.has(capability::capture_to_graph) && !bits.has(capability::graphs)) {
    return missing(state_->who(), "build graphs", capability::graphs);
  }
  if (status refused = state_->open(); !refused) return refused;
  return guarded(state_->who(), [&]() -> answer {
    auto made = graph::make(state_);
    if (!made) return made.take_status();
    return std::unique_ptr<backend::graph>(std::move(made.value()));
  });
}

result<std::vector<std::unique_ptr<backend::device>>> device::split(int parts, int smallest) {
  if (base::forked_child()) return call_gate::refuse_child(state_->who());
  if (!state_->machine().bits.has(capability::green_contexts)) {
    return backend::device::split(parts, smallest);
  }
  if (status refused = state_->open(); !refused) return refused;
  return guarded(state_->who(), [&] { return split_device(state_, parts, smallest); });
}

}  // namespace millstream::backend::cuda
