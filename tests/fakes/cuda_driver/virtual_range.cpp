// SPDX-License-Identifier: Apache-2.0
// Ranges of addresses, memory without addresses, and the mapping of one to the other.
#include <algorithm>

#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/memory.hpp"

namespace fake_cuda {

namespace {

constexpr std::size_t granularity_bytes = std::size_t{2} << 20U;

bool is_whole(std::uint64_t bytes) {
  return bytes > 0 && bytes % granularity_bytes == 0;
}

void check_properties(call& in, const allocation_properties* properties) {
  require(properties != nullptr && properties->type == allocation_type::pinned);
  const memory_location& where = properties->location;
  if (where.type == location_type::at_device)
    require(in.all.has_device(where.id), result::invalid_device);
  else
    require(where.type == location_type::at_host || where.type == location_type::at_host_numa);
}

/// The range that was reserved around an address, as base and bytes.
bool is_reserved(const state& all, std::uint64_t at, std::size_t bytes) {
  auto next = all.ranges.upper_bound(at);
  if (next == all.ranges.begin()) return false;
  const auto& [base, length] = *std::prev(next);
  return at + bytes <= base + length;
}

/// All mappings inside a range that they must fill without a gap.
std::vector<block_ptr> mappings(call& in, std::uint64_t at, std::size_t bytes) {
  std::vector<block_ptr> found;
  const std::uint64_t end = at + bytes;
  while (at < end) {
    found.push_back(in.all.memory.find(at));
    require(found.back() != nullptr && found.back()->kind == block_kind::mapped);
    require(found.back()->base == at && at + found.back()->bytes <= end);
    at += found.back()->bytes;
  }
  return found;
}

int place_of(call& in, const memory_location& where) {
  if (where.type != location_type::at_device) return -1;
  require(in.all.has_device(where.id), result::invalid_device);
  return where.id;
}

}  // namespace

namespace served {

result cuMemAddressReserve(call& in, device_pointer* range, std::size_t bytes,
                           std::size_t alignment, device_pointer /*wish*/, std::uint64_t flags) {
  require(range != nullptr && flags == 0 && is_whole(bytes));
  require((alignment & (alignment - 1)) == 0);
  *range = in.all.memory.reserve(address_map::virtual_ranges, bytes,
                                 std::max(alignment, granularity_bytes));
  require(*range != 0, result::out_of_memory);
  in.all.ranges[*range] = bytes;
  return result::success;
}

result cuMemAddressFree(call& in, device_pointer range, std::size_t bytes) {
  const auto found = in.all.ranges.find(range);
  require(found != in.all.ranges.end() && found->second == bytes);
  require(!in.all.memory.overlaps(range, bytes));
  in.all.ranges.erase(found);
  in.all.memory.give_back(range);
  return result::success;
}

result cuMemCreate(call& in, allocation_handle* made, std::size_t bytes,
                   const allocation_properties* properties, std::uint64_t flags) {
  require(made != nullptr && flags == 0 && is_whole(bytes));
  check_properties(in, properties);
  const int place = place_of(in, properties->location);
  if (place >= 0) take_device_bytes(in, place, bytes);
  const physical_ptr fresh(new physical_state, [all = &in.all](const physical_state* gone) {
    if (gone->device >= 0) all->used(gone->device) -= gone->bytes;
    delete gone;
  });
  fresh->device = place;
  fresh->bytes = bytes;
  fresh->data = make_storage(bytes);
  fresh->handle = in.new_handle<allocation_handle>();
  in.all.physical[fresh->handle] = fresh;
  *made = fresh->handle;
  return result::success;
}

/// The memory lives on as long as it is mapped somewhere.
result cuMemRelease(call& in, allocation_handle gone) {
  require(in.all.physical.erase(gone) != 0);
  return result::success;
}

result cuMemMap(call& in, device_pointer at, std::size_t bytes, std::size_t offset,
                allocation_handle behind, std::uint64_t flags) {
  const physical_ptr found = look_up(in.all.physical, behind);
  require(found != nullptr && flags == 0 && is_whole(bytes) && at % granularity_bytes == 0);
  require(offset % granularity_bytes == 0 && offset + bytes <= found->bytes);
  require(is_reserved(in.all, at, bytes) && !in.all.memory.overlaps(at, bytes));
  const auto made = std::make_shared<block>();
  made->kind = block_kind::mapped;
  made->base = at;
  made->bytes = bytes;
  made->device = found->device;
  made->physical = found;
  made->data = storage(found->data, found->data.get() + offset);
  in.all.memory.add(made);
  return result::success;
}

result cuMemUnmap(call& in, device_pointer at, std::size_t bytes) {
  for (const block_ptr& one : mappings(in, at, bytes))
    in.all.memory.remove(one->base);
  return result::success;
}

result cuMemSetAccess(call& in, device_pointer at, std::size_t bytes, const memory_access* list,
                      std::size_t count) {
  require(list != nullptr);
  for (const block_ptr& one : mappings(in, at, bytes))
    for (std::size_t i = 0; i < count; ++i) {
      const int place = place_of(in, list[i].location);
      require(place < 0 || one->device < 0 || place == one->device || in.all.config.peers,
              result::peer_access_unsupported);
      one->access[place] = list[i].flags;
    }
  return result::success;
}

result cuMemGetAllocationGranularity(call& in, std::size_t* bytes,
                                     const allocation_properties* properties, granularity which) {
  require(bytes != nullptr && static_cast<std::uint32_t>(which) <= 1);
  check_properties(in, properties);
  *bytes = granularity_bytes;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
