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

data* range_registry::find_same(const strided& area, bool readonly) const {
  const auto [first, last] = ranges_.equal_range(address_of(area.low()));
  for (auto each = first; each != last; ++each) {
    data* const known = each->second.what;
    if (known->readonly == readonly && known->area.is_same(area)) return known;
  }
  return nullptr;
}

std::vector<data*> range_registry::find_sharing(const strided& area, bool readonly) const {
  std::vector<data*> found;
  const std::size_t bytes = area.span();
  if (bytes == 0) return found;
  const std::uintptr_t begin = address_of(area.low());
  const std::uintptr_t back = std::min<std::uintptr_t>(begin, longest_);
  for (auto each = ranges_.lower_bound(begin - back); each != ranges_.end(); ++each) {
    if (each->first >= begin && each->first - begin >= bytes) break;
    if (readonly && each->second.what->readonly) continue;
    if (each->first < begin && begin - each->first >= each->second.bytes) continue;
    if (share_a_byte(area, each->second.what->area)) found.push_back(each->second.what);
  }
  return found;
}

void range_registry::add(data& what) {
  const std::size_t bytes = what.area.span();
  if (bytes == 0) return;
  ranges_.insert({address_of(what.area.low()), {bytes, &what}});
  longest_ = std::max(longest_, bytes);
}

void range_registry::remove(data& what) noexcept {
  const auto [first, last] = ranges_.equal_range(address_of(what.area.low()));
  for (auto each = first; each != last; ++each) {
    if (each->second.what != &what) continue;
    ranges_.erase(each);
    return;
  }
}

}  // namespace millstream::core
