// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/memory_view.hpp"

#include <algorithm>
#include <cstdio>

namespace fake_cuda {

namespace {

bool covers(access_flags given, access_flags wanted) {
  const auto bits = static_cast<std::uint32_t>(wanted);
  return (static_cast<std::uint32_t>(given) & bits) == bits;
}

/// Partitions of a device share the peers of its primary context.
bool has_peer(const state& all, const context_state& seen_from, int device) {
  if (seen_from.peers.count(device) != 0) return true;
  if (seen_from.kind != context_state::origin::green) return false;
  const auto primary = all.primaries.find(seen_from.device);
  return primary != all.primaries.end() && primary->second != nullptr &&
         primary->second->peers.count(device) != 0;
}

[[noreturn]] void fault(const char* why, device_pointer where, std::size_t bytes) {
  throw device_fault{result::illegal_address, describe(where, bytes) + " " + why};
}

}  // namespace

std::string describe(device_pointer where, std::size_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, "0x%llx (%zu bytes)", static_cast<unsigned long long>(where),
                bytes);
  return text;
}

bool memory_view::allows(const block& what, access_flags how) const {
  switch (what.kind) {
    case block_kind::pinned:
    case block_kind::registered:
    case block_kind::managed: return true;
    case block_kind::mapped: {
      const auto given = what.access.find(seen_from_->device);
      return given != what.access.end() && covers(given->second, how);
    }
    case block_kind::device: break;
  }
  if (what.device == seen_from_->device) return true;
  if (what.pool != nullptr) return what.pool->access.count(seen_from_->device) != 0;
  return has_peer(*all_, *seen_from_, what.device);
}

template <class Check>
bool memory_view::all_blocks(device_pointer where, std::size_t bytes, Check check) const {
  while (bytes > 0) {
    const block_ptr found = all_->memory.find(where);
    if (found == nullptr || !check(*found)) return false;
    const std::size_t here = std::min<std::uint64_t>(bytes, found->base + found->bytes - where);
    where += here;
    bytes -= here;
  }
  return true;
}

bool memory_view::may_name(device_pointer where, std::size_t bytes, access_flags how) const {
  return all_blocks(where, bytes, [this, how](const block& one) {
    return !one.free_was_queued && allows(one, how);
  });
}

bool memory_view::can_reach(device_pointer where, std::size_t bytes, access_flags how) const {
  return all_blocks(where, bytes, [this, how](const block& one) {
    return one.data != nullptr && allows(one, how);
  });
}

std::byte* memory_view::touch(device_pointer where, std::size_t& bytes, access_flags how) const {
  const block_ptr found = all_->memory.find(where);
  if (found == nullptr) fault("is not memory of the driver (any more)", where, bytes);
  if (!allows(*found, how)) fault("may not be touched from this device", where, bytes);
  if (found->data == nullptr) fault("is not allocated at this point of the order", where, bytes);
  bytes = std::min<std::uint64_t>(bytes, found->base + found->bytes - where);
  return found->at(where);
}

}  // namespace fake_cuda
