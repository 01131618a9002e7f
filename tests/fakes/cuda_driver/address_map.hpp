// SPDX-License-Identifier: Apache-2.0
/// All memory the driver knows of, by address. Addresses of device memory lie in ranges of this
/// process that nobody may touch (one for each device, one for virtual ranges), so that the host
/// following a device pointer is a crash, as with a GPU; what such an address stands for is stored
/// elsewhere. Page-locked and managed memory is ordinary memory.
///
/// Guarded by the fake's mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "tests/fakes/cuda_driver/rows.hpp"

namespace fake_cuda {

class graph_memory;
struct pool_state;
struct physical_state;

enum class block_kind : std::uint8_t { device, pinned, registered, managed, mapped };

using storage = std::shared_ptr<std::byte>;
/// Aligned as page-locked memory is, and full of a pattern that is no plausible number.
[[nodiscard]] storage make_storage(std::size_t bytes);

/// Memory that a graph allocates. Its address is the graph's for good, its bytes come with a
/// launch.
struct graph_share {
  graph owner = nullptr;
  bool is_freed_inside = false;  // by a node of the same graph
  bool is_out = false;           // a launch left it allocated, and nobody has asked to free it
  bool is_ownerless = false;     // the graph and its executable are gone
  std::weak_ptr<graph_memory> keeper;
};

struct block {
  block_kind kind = block_kind::device;
  std::uint64_t base = 0;
  std::size_t bytes = 0;
  int device = 0;
  context owner = nullptr;
  storage data;                  // null while not allocated in stream order
  bool free_was_queued = false;  // no call may name it any more
  std::optional<graph_share> of_graph;
  std::shared_ptr<pool_state> pool;          // of stream-ordered memory
  std::shared_ptr<physical_state> physical;  // of mapped ranges
  std::map<int, access_flags> access;        // of mapped ranges: device -> may; -1 = the host

  [[nodiscard]] std::byte* at(std::uint64_t address) const noexcept {
    return data.get() + (address - base);
  }
};
using block_ptr = std::shared_ptr<block>;

class address_map {
 public:
  static constexpr int virtual_ranges = -1;

  /// A free range of addresses of a device or of `virtual_ranges`; not given twice as long as
  /// there are others. Zero = none left.
  [[nodiscard]] std::uint64_t reserve(int device, std::size_t bytes, std::size_t alignment);
  void give_back(std::uint64_t base) { reserved_.erase(base); }

  void add(const block_ptr& what) { blocks_[what->base] = what; }
  void remove(std::uint64_t base) { blocks_.erase(base); }
  /// The block that holds the address, or null.
  [[nodiscard]] block_ptr find(std::uint64_t address) const;
  /// Where the first block behind the address begins; the largest number if none.
  [[nodiscard]] std::uint64_t next_after(std::uint64_t address) const;
  [[nodiscard]] bool overlaps(std::uint64_t base, std::size_t bytes) const;
  /// The address cannot be of the host's.
  [[nodiscard]] bool is_device_range(std::uint64_t address) const;
  [[nodiscard]] const std::map<std::uint64_t, block_ptr>& blocks() const noexcept {
    return blocks_;
  }
  void clear();

 private:
  struct aperture {
    std::uint64_t start = 0;
    std::uint64_t next = 0;
  };
  [[nodiscard]] bool open(aperture& one);
  [[nodiscard]] std::uint64_t place(aperture& in, std::size_t bytes, std::size_t alignment) const;

  std::map<std::uint64_t, block_ptr> blocks_;
  std::map<std::uint64_t, std::size_t> reserved_;  // base -> bytes
  std::map<int, aperture> apertures_;
};

}  // namespace fake_cuda
