// SPDX-License-Identifier: Apache-2.0
// Device and managed memory that is not stream-ordered.
#include "tests/fakes/cuda_driver/memory.hpp"

#include "tests/fakes/cuda_driver/graph_memory.hpp"

namespace fake_cuda {

namespace {

constexpr std::size_t block_alignment = 512;
constexpr int turns_on_shortage = 100'000;

std::size_t cached_bytes(const state& all, int device) {
  std::size_t sum = 0;
  for (const auto& [handle, pool] : all.pools)
    if (pool->device == device) sum += pool->cached_bytes;
  return sum;
}

bool fits(call& in, int device, std::size_t bytes) {
  const std::size_t total = in.all.config.device_bytes;
  return bytes <= total && in.all.used(device) <= total - bytes;
}

bool is_base(const block_ptr& found, std::uint64_t where) {
  return found != nullptr && found->base == where && !found->free_was_queued;
}

}  // namespace

void take_device_bytes(call& in, int device, std::size_t bytes) {
  // What streams free counts until the free runs, so on shortage the queued work is let run; but a
  // kernel that spins takes turns without end.
  for (int turns = 0; turns < turns_on_shortage && !fits(in, device, bytes); ++turns)
    if (!in.all.work.step(false)) break;
  require(fits(in, device, bytes), result::out_of_memory);
  in.all.used(device) += bytes;
  // Bytes that pools keep are theirs only as long as nobody else needs them.
  for (auto& [handle, pool] : in.all.pools)
    if (pool->device == device &&
        in.all.used(device) + cached_bytes(in.all, device) > in.all.config.device_bytes)
      pool->cached_bytes = 0;
}

block_ptr plan_address(call& in, const context_ptr& owner, int device, std::size_t bytes) {
  const auto made = std::make_shared<block>();
  made->bytes = bytes;
  made->device = device;
  made->owner = owner->handle;
  made->base = in.all.memory.reserve(device, bytes, block_alignment);
  require(made->base != 0, result::out_of_memory);
  in.all.memory.add(made);
  return made;
}

block_ptr plan_block(call& in, const context_ptr& owner, int device, std::size_t bytes) {
  take_device_bytes(in, device, bytes);
  try {
    return plan_address(in, owner, device, bytes);
  } catch (const refusal&) {
    in.all.used(device) -= bytes;
    throw;
  }
}

void end_block(state& all, const block_ptr& gone) {
  if (all.memory.find(gone->base) != gone) return;
  if (gone->of_graph) {
    if (gone->of_graph->is_out) let_go(all, *gone);  // its context ends
    take_graph_bytes(all, *gone);
  } else if (gone->pool != nullptr) {
    gone->pool->used_bytes -= gone->bytes;
    gone->pool->cached_bytes += gone->bytes;
  }
  if (gone->kind == block_kind::device && !gone->of_graph) all.used(gone->device) -= gone->bytes;
  all.memory.remove(gone->base);
  all.memory.give_back(gone->base);
  gone->data = nullptr;
}

namespace served {

result cuMemGetInfo(call& in, std::size_t* free, std::size_t* total) {
  require(free != nullptr && total != nullptr);
  const int device = in.current()->device;
  *total = in.all.config.device_bytes;
  *free = *total - in.all.used(device) - cached_bytes(in.all, device);
  return result::success;
}

result cuMemAlloc(call& in, device_pointer* made, std::size_t bytes) {
  require(made != nullptr && bytes > 0);
  const context_ptr here = in.current();
  const block_ptr fresh = plan_block(in, here, here->device, bytes);
  fresh->data = make_storage(bytes);
  *made = fresh->base;
  return result::success;
}

/// Waits for all work of the context before, as the driver does.
result cuMemFree(call& in, device_pointer gone) {
  const context_ptr here = in.current();
  if (gone == 0) return result::success;
  const block_ptr found = in.all.memory.find(gone);
  require(is_base(found, gone));
  require(found->kind == block_kind::device || found->kind == block_kind::managed);
  if (found->of_graph) let_go(in.all, *found);
  found->free_was_queued = true;  // the mutex is let go while this waits
  finish_context(in, here);
  if (found->of_graph) {
    free_graph_bytes(in.all, found);
  } else {
    end_block(in.all, found);
  }
  return result::success;
}

result cuMemAllocManaged(call& in, device_pointer* made, std::size_t bytes, attach_flags flags) {
  require(made != nullptr && bytes > 0);
  require(flags == attach_flags::global);
  const auto fresh = std::make_shared<block>();
  fresh->kind = block_kind::managed;
  fresh->bytes = bytes;
  fresh->device = in.current()->device;
  fresh->owner = in.current()->handle;
  fresh->data = make_storage(bytes);
  fresh->base = reinterpret_cast<std::uint64_t>(fresh->data.get());
  in.all.memory.add(fresh);
  *made = fresh->base;
  return result::success;
}

result cuMemGetAddressRange(call& in, device_pointer* start, std::size_t* bytes,
                            device_pointer of) {
  const block_ptr found = in.all.memory.find(of);
  require(found != nullptr, result::not_found);
  if (start != nullptr) *start = found->base;
  if (bytes != nullptr) *bytes = found->bytes;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
