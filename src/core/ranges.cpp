// SPDX-License-Identifier: Apache-2.0
#include "core/ranges.hpp"

#include <algorithm>

#include "core/data.hpp"

namespace millstream::core {
namespace {

std::uintptr_t address_of(const void* block) {
  return reinterpret_cast<std::uintptr_t>(block);
}

}  // namespace

bool range_registry::overlap(const void* a, std::size_t a_bytes, const void* b,
                             std::size_t b_bytes) noexcept {
  if (a_bytes == 0 || b_bytes == 0) return false;
  const std::uintptr_t from = address_of(a);
  const std::uintptr_t other = address_of(b);
  return from < other ? other - from < a_bytes : from - other < b_bytes;
}

data* range_registry::find_same(const void* block, std::size_t bytes) const {
  const auto [first, last] = ranges_.equal_range(address_of(block));
  for (auto each = first; each != last; ++each) {
    if (each->second.bytes == bytes) return each->second.what;
  }
  return nullptr;
}

data* range_registry::find_overlap(const void* block, std::size_t bytes, bool readonly) const {
  if (bytes == 0) return nullptr;
  const std::uintptr_t begin = address_of(block);
  const std::uintptr_t back = std::min<std::uintptr_t>(begin, longest_);
  for (auto each = ranges_.lower_bound(begin - back); each != ranges_.end(); ++each) {
    if (each->first >= begin && each->first - begin >= bytes) break;
    if (readonly && each->second.what->readonly) continue;
    if (each->first < begin && begin - each->first >= each->second.bytes) continue;
    return each->second.what;
  }
  return nullptr;
}

void range_registry::add(const void* block, std::size_t bytes, data& what) {
  if (bytes == 0) return;
  ranges_.insert({address_of(block), {bytes, &what}});
  longest_ = std::max(longest_, bytes);
}

void range_registry::remove(const void* block, data& what) noexcept {
  const auto [first, last] = ranges_.equal_range(address_of(block));
  for (auto each = first; each != last; ++each) {
    if (each->second.what != &what) continue;
    ranges_.erase(each);
    return;
  }
}

}  // namespace millstream::core
