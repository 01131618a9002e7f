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
  data* found = nullptr;
  ranges_.for_each_overlap(area.low(), area.span(), [&](data* known) {
    if (known->readonly == readonly && known->area.is_same(area)) found = known;
  });
  return found;
}

std::vector<data*> range_registry::find_sharing(const strided& area, bool readonly) const {
  std::vector<data*> found;
  ranges_.for_each_overlap(area.low(), area.span(), [&](data* known) {
    if ((!readonly || !known->readonly) && share_a_byte(area, known->area)) found.push_back(known);
  });
  std::sort(found.begin(), found.end(),
            [](const data* a, const data* b) { return a->area.low() < b->area.low(); });
  return found;
}

void range_registry::add(data& what) {
  ranges_.add(what.area.low(), what.area.span(), &what);
}

void range_registry::remove(data& what) noexcept {
  ranges_.remove_if(what.area.low(), what.area.span(),
                    [&](const data* known) { return known == &what; });
}

}  // namespace millstream::core
