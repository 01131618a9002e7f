// SPDX-License-Identifier: Apache-2.0
/// The pools of one context: blocks that are reused in queue order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/completion.hpp"
#include "core/lanes.hpp"
#include "core/place.hpp"

namespace millstream::core {

/// A piece of a place's memory and what has to end before it may be used.
struct memory_block {
  void* address = nullptr;
  std::size_t bytes = 0;  ///< as allocated: rounded up
  completion_set ready;
};

/// Per place, blocks by rounded size. A block that is given back carries the
/// completions of its last uses; whoever takes it next is ordered behind them,
/// so reuse never waits on the host and a loop over temporaries needs no more
/// memory than what is in flight. All functions are called under the context's
/// lock; none blocks.
class memory_pools {
 public:
  memory_pools(machine& on, lane_set& lanes) : machine_(on), lanes_(lanes) {}

  /// A pooled block for `bytes` bytes (> 0), the one given back last.
  [[nodiscard]] std::optional<memory_block> take(place_index place, std::size_t bytes);
  /// A new block from the machine, ready on lane `order` at once and elsewhere
  /// after it.
  [[nodiscard]] backend::result<memory_block> allocate(place_index place, std::size_t bytes,
                                                       lane_index order);
  void give(place_index place, memory_block block);
  /// Takes back `take`.
  void give_unused(place_index place, memory_block block) {
    --reuses_;
    give(place, std::move(block));
  }

  /// What `trim` of that place has to come after.
  [[nodiscard]] completion_set uses(place_index place) const;
  /// Returns every pooled block of the place to the machine, in the order of
  /// `order`; how many bytes that were.
  std::size_t trim(place_index place, lane_index order);
  /// Returns everything, in the order of `order` where that can be; the context is done with all
  /// its work, or has nothing left to submit.
  void trim_all(std::optional<lane_index> order = {});

  [[nodiscard]] std::size_t in_use(place_index place) const noexcept;
  [[nodiscard]] std::uint64_t allocations() const noexcept { return allocations_; }
  [[nodiscard]] std::uint64_t reuses() const noexcept { return reuses_; }

  /// The size a request is rounded up to: at most an eighth is lost.
  [[nodiscard]] static std::size_t rounded(std::size_t bytes) noexcept;

 private:
  struct bin {
    std::size_t bytes = 0;
    std::vector<memory_block> blocks;
  };
  struct place_pool {
    place_index place = host_place;
    std::size_t taken_bytes = 0;  // from the machine, pooled or in use
    std::size_t pooled_bytes = 0;
    std::vector<bin> bins;  // few sizes per program: a linear search beats a map
  };
  [[nodiscard]] place_pool& pool_of(place_index place);
  [[nodiscard]] static bin& bin_of(place_pool& pool, std::size_t bytes);
  void release(place_pool& pool, memory_block& block, lane_index order);

  machine& machine_;
  lane_set& lanes_;
  std::vector<place_pool> pools_;
  std::uint64_t allocations_ = 0;
  std::uint64_t reuses_ = 0;
};

}  // namespace millstream::core
