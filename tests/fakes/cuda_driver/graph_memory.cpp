// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/graph_memory.hpp"

#include <algorithm>

#include "tests/fakes/cuda_driver/capture.hpp"
#include "tests/fakes/cuda_driver/graph.hpp"
#include "tests/fakes/cuda_driver/memory.hpp"

namespace fake_cuda {

namespace {

op_ptr make_graph_allocation(state& all, const std::shared_ptr<graph_memory>& keeper,
                             const context_ptr& owner) {
  return make_operation("allocation", owner, [&all, keeper] {
    block& what = *keeper->what();
    what.data = make_storage(what.bytes);
    graph_pool& pool = all.graph_pools[what.device];
    pool.used += what.bytes;
    pool.used_high = std::max(pool.used_high, pool.used);
    return turn::done;
  });
}

void record(call& in, const stream_ptr& on, node_type type,
            const std::shared_ptr<graph_memory>& memory, op_factory make) {
  node_work work;
  work.type = type;
  work.memory = memory;
  work.make = std::move(make);
  record_node(in, on, std::move(work));
}

/// For each node the nodes that it comes after, by whatever way.
std::vector<std::vector<bool>> ancestors_of(const executable_body& what) {
  std::vector<std::vector<bool>> all(what.nodes.size(), std::vector<bool>(what.nodes.size()));
  for (std::size_t i = 0; i < what.nodes.size(); ++i)
    for (const std::size_t before : what.nodes[i].after) {
      all[i][before] = true;
      for (std::size_t k = 0; k < before; ++k)
        all[i][k] = all[i][k] || all[before][k];
    }
  return all;
}

struct room {
  int device = 0;
  std::size_t bytes = 0;
  std::size_t freed_by = 0;
};

std::size_t place_of_free(const executable_body& in, const block* what) {
  for (std::size_t i = 0; i < in.nodes.size(); ++i)
    if (in.nodes[i].work.type == node_type::memory_free &&
        in.nodes[i].work.memory->what().get() == what)
      return i;
  return in.nodes.size();
}

memory_promise need_of(const executable_body& what) {
  const std::vector<std::vector<bool>> before = ancestors_of(what);
  std::vector<room> rooms;
  for (std::size_t i = 0; i < what.nodes.size(); ++i) {
    const node_work& work = what.nodes[i].work;
    if (work.type != node_type::memory_allocation) continue;
    const block& wanted = *work.memory->what();
    if (!wanted.of_graph->is_freed_inside) continue;
    const std::size_t freed_by = place_of_free(what, &wanted);
    const auto again = std::find_if(rooms.begin(), rooms.end(), [&](const room& one) {
      return one.device == wanted.device && before[i][one.freed_by];
    });
    if (again == rooms.end()) {
      rooms.push_back({wanted.device, wanted.bytes, freed_by});
    } else {
      again->bytes = std::max(again->bytes, wanted.bytes);
      again->freed_by = freed_by;
    }
  }
  memory_promise need;
  for (const room& one : rooms)
    need[one.device] += one.bytes;
  for (const executable_body::node& one : what.nodes) {
    if (one.work.child == nullptr) continue;
    for (const auto& [device, bytes] : need_of(*one.work.child))
      need[device] += bytes;
  }
  return need;
}

void reserve(call& in, int device, std::size_t bytes) {
  graph_pool& pool = in.all.graph_pools[device];
  if (bytes <= pool.reserved) return;
  take_device_bytes(in, device, bytes - pool.reserved);
  pool.reserved = bytes;
  pool.reserved_high = std::max(pool.reserved_high, bytes);
}

/// What stays allocated behind a launch, and what it frees of others.
struct left_over {
  std::vector<block_ptr> left;
  std::vector<block_ptr> taken;
};

void find_left_over(const executable_body& what, left_over& found) {
  for (const executable_body::node& one : what.nodes) {
    if (one.work.child != nullptr) find_left_over(*one.work.child, found);
    if (one.work.memory == nullptr) continue;
    const block_ptr& block = one.work.memory->what();
    if (block->of_graph->is_freed_inside) continue;
    const bool is_allocated = one.work.type == node_type::memory_allocation;
    (is_allocated ? found.left : found.taken).push_back(block);
  }
}

left_over left_over_of(const executable_body& what) {
  left_over found;
  find_left_over(what, found);
  return found;
}

std::size_t* word_of(graph_pool& pool, graph_memory_attribute what) {
  switch (what) {
    case graph_memory_attribute::used_now: return &pool.used;
    case graph_memory_attribute::used_high: return &pool.used_high;
    case graph_memory_attribute::reserved_now: return &pool.reserved;
    case graph_memory_attribute::reserved_high: return &pool.reserved_high;
  }
  throw refusal{result::invalid_value};
}

}  // namespace

graph_memory::~graph_memory() {
  if (what_->data != nullptr || what_->of_graph->is_out) {
    what_->of_graph->is_ownerless = true;
  } else {
    end_block(all_, what_);
  }
}

device_pointer record_allocation(call& in, std::size_t bytes, const pool_ptr& from,
                                 const stream_ptr& on) {
  const block_ptr fresh = plan_address(in, on->owner, from->device, bytes);
  fresh->pool = from;
  fresh->of_graph.emplace();
  fresh->of_graph->owner = on->capture->into->handle;
  const auto keeper = std::make_shared<graph_memory>(in.all, fresh);
  fresh->of_graph->keeper = keeper;
  record(in, on, node_type::memory_allocation, keeper, [all = &in.all, keeper, owner = on->owner] {
    return make_graph_allocation(*all, keeper, owner);
  });
  return fresh->base;
}

void record_free(call& in, const block_ptr& what, const stream_ptr& on) {
  require(what->of_graph.has_value());
  auto keeper = what->of_graph->keeper.lock();
  if (keeper == nullptr) keeper = std::make_shared<graph_memory>(in.all, what);
  record(in, on, node_type::memory_free, keeper, [all = &in.all, keeper, owner = on->owner] {
    op_ptr made = make_graph_free(*all, keeper->what(), owner);
    made->skipped = [keeper] {};
    return made;
  });
  what->of_graph->is_freed_inside = what->of_graph->owner == on->capture->into->handle;
  what->free_was_queued = true;
}

void let_go(state& all, block& what) {
  require(what.of_graph->is_out);
  what.of_graph->is_out = false;
  all.graph_pools[what.device].left_out -= what.bytes;
}

void take_graph_bytes(state& all, block& what) {
  if (what.data == nullptr) return;
  what.data = nullptr;
  all.graph_pools[what.device].used -= what.bytes;
}

void free_graph_bytes(state& all, const block_ptr& what) {
  take_graph_bytes(all, *what);
  if (what->of_graph->is_ownerless) end_block(all, what);
}

op_ptr make_graph_free(state& all, const block_ptr& what, const context_ptr& owner) {
  return make_operation("free", owner, [&all, what] {
    if (what->data == nullptr)
      throw device_fault{result::illegal_address, "the block is not allocated"};
    free_graph_bytes(all, what);
    return turn::done;
  });
}

memory_promise promise_memory(call& in, const executable_body& what) {
  if (!owns_memory(what)) return {};
  const left_over over = left_over_of(what);
  for (const block_ptr& one : over.left)
    require(!one->of_graph->is_out && one->data == nullptr);
  for (const block_ptr& one : over.taken)
    require(one->of_graph->is_out);
  const memory_promise need = need_of(what);
  memory_promise more;
  for (const block_ptr& one : over.left)
    more[one->device] += one->bytes;
  for (const auto& [device, bytes] : need)
    more[device] += bytes;
  for (const auto& [device, bytes] : more) {
    const graph_pool& pool = in.all.graph_pools[device];
    reserve(in, device, pool.left_out + pool.promised + bytes);
  }
  for (const auto& [device, bytes] : need)
    in.all.graph_pools[device].promised += bytes;
  for (const block_ptr& one : over.taken)
    let_go(in.all, *one);
  for (const block_ptr& one : over.left) {
    one->of_graph->is_out = true;
    one->free_was_queued = false;
    in.all.graph_pools[one->device].left_out += one->bytes;
  }
  return need;
}

void end_promise(state& all, const memory_promise& what) {
  for (const auto& [device, bytes] : what)
    all.graph_pools[device].promised -= bytes;
}

namespace served {

/// What no launch needs that is on its way, and none has left, goes back.
result cuDeviceGraphMemTrim(call& in, device of) {
  require(in.all.has_device(of), result::invalid_device);
  graph_pool& pool = in.all.graph_pools[of];
  const std::size_t kept =
      std::min(pool.reserved, std::max(pool.used, pool.promised + pool.left_out));
  in.all.used(of) -= pool.reserved - kept;
  pool.reserved = kept;
  return result::success;
}

result cuDeviceGetGraphMemAttribute(call& in, device of, graph_memory_attribute what, void* value) {
  require(value != nullptr);
  require(in.all.has_device(of), result::invalid_device);
  *static_cast<std::uint64_t*>(value) = *word_of(in.all.graph_pools[of], what);
  return result::success;
}

/// The marks of the highest numbers can be set to zero, and nothing else.
result cuDeviceSetGraphMemAttribute(call& in, device of, graph_memory_attribute what, void* value) {
  require(value != nullptr && *static_cast<std::uint64_t*>(value) == 0);
  require(in.all.has_device(of), result::invalid_device);
  require(what == graph_memory_attribute::used_high ||
          what == graph_memory_attribute::reserved_high);
  graph_pool& pool = in.all.graph_pools[of];
  *word_of(pool, what) = what == graph_memory_attribute::used_high ? pool.used : pool.reserved;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
