// SPDX-License-Identifier: Apache-2.0
// Memory pools and stream-ordered memory. An address is known when the call returns, but there is
// memory behind it only between the turns of its allocation and of its free.
#include "tests/fakes/cuda_driver/pool.hpp"

#include <algorithm>
#include <limits>

#include "tests/fakes/cuda_driver/graph_memory.hpp"
#include "tests/fakes/cuda_driver/memory.hpp"

namespace fake_cuda {

namespace {

std::uint64_t threshold_of(const pool_state& of) {
  const auto given =
      of.attributes.find(static_cast<std::uint32_t>(pool_attribute::release_threshold));
  return given == of.attributes.end() ? 0 : given->second;
}

pool_ptr default_pool(call& in, int device) {
  pool_ptr& pool = in.all.default_pools[device];
  if (pool == nullptr) {
    pool = std::make_shared<pool_state>();
    pool->handle = in.new_handle<memory_pool>();
    pool->device = device;
    pool->is_default = true;
    in.all.pools[pool->handle] = pool;
  }
  return pool;
}

pool_ptr pool_of(call& in, memory_pool handle) {
  pool_ptr found = look_up(in.all.pools, handle);
  require(found != nullptr);
  return found;
}

op_ptr make_allocation(const block_ptr& what, const context_ptr& owner) {
  return make_operation("allocation", owner, [what] {
    what->data = make_storage(what->bytes);
    return turn::done;
  });
}

device_pointer allocate(call& in, std::size_t bytes, const pool_ptr& from, stream on) {
  require(bytes > 0);
  const stream_ptr here = in.at(on);
  if (here->capture != nullptr) return record_allocation(in, bytes, from, here);
  refuse_unsafe_call(in);
  const block_ptr fresh = plan_block(in, here->owner, from->device, bytes);
  fresh->pool = from;
  from->used_bytes += bytes;
  from->cached_bytes -= std::min(from->cached_bytes, bytes);
  try {
    issue(in, here, node_type::memory_allocation,
          [fresh, owner = here->owner] { return make_allocation(fresh, owner); });
  } catch (const refusal&) {
    end_block(in.all, fresh);
    throw;
  }
  return fresh->base;
}

op_ptr make_free(state& all, const block_ptr& what, const context_ptr& owner) {
  op_ptr made = make_operation("free", owner, [&all, what] {
    if (what->data == nullptr)
      throw device_fault{result::illegal_address, "the block is not allocated"};
    end_block(all, what);
    return turn::done;
  });
  made->skipped = [&all, what] { end_block(all, what); };
  return made;
}

}  // namespace

void trim_pools(state& all) {
  for (auto& [handle, pool] : all.pools) {
    const std::uint64_t kept = threshold_of(*pool);
    const std::uint64_t room = kept > pool->used_bytes ? kept - pool->used_bytes : 0;
    pool->cached_bytes = std::min<std::uint64_t>(pool->cached_bytes, room);
  }
}

namespace served {

result cuMemPoolCreate(call& in, memory_pool* made, const memory_pool_properties* properties) {
  require(made != nullptr && properties != nullptr);
  require(properties->type == allocation_type::pinned);
  require(properties->location.type == location_type::at_device, result::not_supported);
  require(in.all.has_device(properties->location.id), result::invalid_device);
  const auto fresh = std::make_shared<pool_state>();
  fresh->handle = in.new_handle<memory_pool>();
  fresh->device = properties->location.id;
  in.all.pools[fresh->handle] = fresh;
  *made = fresh->handle;
  return result::success;
}

/// Blocks of the pool that are still in use stay.
result cuMemPoolDestroy(call& in, memory_pool gone) {
  require(!pool_of(in, gone)->is_default);
  in.all.pools.erase(gone);
  return result::success;
}

result cuMemPoolSetAttribute(call& in, memory_pool of, pool_attribute what, void* value) {
  require(value != nullptr);
  const pool_ptr pool = pool_of(in, of);
  switch (what) {
    case pool_attribute::reuse_follow_event_dependencies:
    case pool_attribute::reuse_allow_opportunistic:
    case pool_attribute::reuse_allow_internal_dependencies:
      pool->attributes[static_cast<std::uint32_t>(what)] =
          static_cast<std::uint64_t>(*static_cast<const int*>(value));
      return result::success;
    case pool_attribute::release_threshold:
      pool->attributes[static_cast<std::uint32_t>(what)] =
          *static_cast<const std::uint64_t*>(value);
      return result::success;
    default: return result::invalid_value;
  }
}

result cuMemPoolGetAttribute(call& in, memory_pool of, pool_attribute what, void* value) {
  require(value != nullptr);
  const pool_ptr pool = pool_of(in, of);
  const auto given = pool->attributes.find(static_cast<std::uint32_t>(what));
  switch (what) {
    case pool_attribute::reuse_follow_event_dependencies:
    case pool_attribute::reuse_allow_opportunistic:
    case pool_attribute::reuse_allow_internal_dependencies:
      *static_cast<int*>(value) =
          given == pool->attributes.end() ? 1 : static_cast<int>(given->second);
      return result::success;
    case pool_attribute::release_threshold:
      *static_cast<std::uint64_t*>(value) = threshold_of(*pool);
      return result::success;
    case pool_attribute::reserved_bytes_now:
      *static_cast<std::uint64_t*>(value) = pool->used_bytes + pool->cached_bytes;
      return result::success;
    case pool_attribute::used_bytes_now:
      *static_cast<std::uint64_t*>(value) = pool->used_bytes;
      return result::success;
  }
  return result::invalid_value;
}

result cuMemPoolSetAccess(call& in, memory_pool of, const memory_access* list, std::size_t count) {
  require(count == 0 || list != nullptr);
  const pool_ptr pool = pool_of(in, of);
  for (std::size_t i = 0; i < count; ++i) {
    const int device = list[i].location.id;
    require(list[i].location.type == location_type::at_device);
    require(in.all.has_device(device), result::invalid_device);
    require(device == pool->device || in.all.config.peers, result::peer_access_unsupported);
    require(device != pool->device || list[i].flags == access_flags::read_write);
    if (list[i].flags == access_flags::none) {
      pool->access.erase(device);
    } else {
      pool->access.insert(device);
    }
  }
  return result::success;
}

result cuMemPoolTrimTo(call& in, memory_pool of, std::size_t kept_bytes) {
  const pool_ptr pool = pool_of(in, of);
  const std::size_t room = kept_bytes > pool->used_bytes ? kept_bytes - pool->used_bytes : 0;
  pool->cached_bytes = std::min(pool->cached_bytes, room);
  return result::success;
}

result cuDeviceGetDefaultMemPool(call& in, memory_pool* pool, device of) {
  require(pool != nullptr);
  require(in.all.has_device(of), result::invalid_device);
  *pool = default_pool(in, of)->handle;
  return result::success;
}

result cuMemAllocFromPoolAsync(call& in, device_pointer* made, std::size_t bytes, memory_pool from,
                               stream on) {
  require(made != nullptr);
  *made = allocate(in, bytes, pool_of(in, from), on);
  return result::success;
}

result cuMemAllocAsync(call& in, device_pointer* made, std::size_t bytes, stream on) {
  require(made != nullptr);
  *made = allocate(in, bytes, default_pool(in, in.at(on)->owner->device), on);
  return result::success;
}

result cuMemFreeAsync(call& in, device_pointer gone, stream on) {
  const stream_ptr here = in.at(on);
  const block_ptr found = in.all.memory.find(gone);
  require(found != nullptr && found->base == gone && found->kind == block_kind::device);
  require(!found->free_was_queued);
  if (here->capture != nullptr) {
    record_free(in, found, here);
    return result::success;
  }
  refuse_unsafe_call(in);
  if (found->of_graph) let_go(in.all, *found);
  issue(in, here, node_type::memory_free, [all = &in.all, found, owner = here->owner] {
    return found->of_graph ? make_graph_free(*all, found, owner) : make_free(*all, found, owner);
  });
  found->free_was_queued = true;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
