// SPDX-License-Identifier: Apache-2.0
#include "core/memory.hpp"

#include <bit>
#include <utility>

namespace millstream::core {

std::size_t memory_pools::rounded(std::size_t bytes) noexcept {
  constexpr std::size_t smallest = 256;
  if (bytes <= smallest) return smallest;
  const auto width = static_cast<unsigned>(std::bit_width(bytes - 1));
  const std::size_t step = std::size_t{1} << (width - 4);
  const std::size_t up = (bytes + step - 1) & ~(step - 1);
  return up < bytes ? bytes : up;  // no rounding where it would wrap
}

memory_pools::place_pool& memory_pools::pool_of(place_index place) {
  for (place_pool& pool : pools_) {
    if (pool.place == place) return pool;
  }
  pools_.emplace_back();
  pools_.back().place = place;
  return pools_.back();
}

memory_pools::bin& memory_pools::bin_of(place_pool& pool, std::size_t bytes) {
  for (bin& each : pool.bins) {
    if (each.bytes == bytes) return each;
  }
  pool.bins.push_back({bytes, {}});
  return pool.bins.back();
}

std::optional<memory_block> memory_pools::take(place_index place, std::size_t bytes) {
  place_pool& pool = pool_of(place);
  bin& from = bin_of(pool, rounded(bytes));
  if (from.blocks.empty()) return std::nullopt;
  memory_block block = std::move(from.blocks.back());
  from.blocks.pop_back();
  pool.pooled_bytes -= block.bytes;
  ++reuses_;
  return block;
}

backend::result<memory_block> memory_pools::allocate(place_index place, std::size_t bytes,
                                                     lane_index order) {
  const std::size_t size = rounded(bytes);
  backend::queue& queue = lanes_.queue(order);
  auto made = place == managed_place ? machine_.at(0).allocate_managed(size, queue)
                                     : machine_.at(place).allocate(size, queue);
  if (!made) return made.take_status();
  ++allocations_;
  pool_of(place).taken_bytes += size;
  memory_block block{made.value(), size, {}};
  block.ready.add(lanes_.advance(order));
  return block;
}

void memory_pools::give(place_index place, memory_block block) {
  if (block.address == nullptr) return;
  place_pool& pool = pool_of(place);
  pool.pooled_bytes += block.bytes;
  bin_of(pool, block.bytes).blocks.push_back(std::move(block));
}

void memory_pools::release(place_pool& pool, memory_block& block, lane_index order) {
  lanes_.wait(order, block.ready);
  // A failed release leaks the block in the driver; there is nothing better to
  // do with it here.
  backend::queue& queue = lanes_.queue(order);
  (void)(pool.place == managed_place
             ? machine_.at(0).release_managed(block.address, block.bytes, queue)
             : machine_.at(pool.place).release(block.address, block.bytes, queue));
  lanes_.advance(order);
  pool.taken_bytes -= block.bytes;
  pool.pooled_bytes -= block.bytes;
}

completion_set memory_pools::uses(place_index place) const {
  completion_set all;
  for (const place_pool& pool : pools_) {
    if (pool.place != place) continue;
    for (const bin& each : pool.bins) {
      for (const memory_block& block : each.blocks)
        all.add(block.ready);
    }
  }
  return all;
}

std::size_t memory_pools::trim(place_index place, lane_index order) {
  place_pool& pool = pool_of(place);
  const std::size_t freed = pool.pooled_bytes;
  for (bin& each : pool.bins) {
    while (!each.blocks.empty()) {
      release(pool, each.blocks.back(), order);
      each.blocks.pop_back();
    }
  }
  return freed;
}

void memory_pools::trim_all(std::optional<lane_index> order) {
  for (place_pool& pool : pools_) {
    if (pool.pooled_bytes == 0) continue;
    const place_index on = lane_place(pool.place);
    const bool fits = order && (on == host_place || on == lanes_.place_of(*order));
    trim(pool.place, fits ? *order : lanes_.choose(on, {}));
  }
}

std::size_t memory_pools::in_use(place_index place) const noexcept {
  for (const place_pool& pool : pools_) {
    if (pool.place == place) return pool.taken_bytes - pool.pooled_bytes;
  }
  return 0;
}

}  // namespace millstream::core
