// SPDX-License-Identifier: Apache-2.0
#include "trace/stamps.hpp"

#include <bit>
#include <new>

namespace millstream::trace {

bool stamp_table::is_kept(std::uint64_t id) noexcept {
  return id < (std::uint64_t{1} << most_bits) - (std::uint64_t{1} << first_bits);
}

stamp_table::position stamp_table::locate(std::uint64_t id) noexcept {
  const std::uint64_t index = id + (std::uint64_t{1} << first_bits);
  const auto bits = static_cast<std::size_t>(std::bit_width(index)) - 1;
  const std::uint64_t size = std::uint64_t{1} << bits;
  return {bits - first_bits, static_cast<std::size_t>(index - size),
          static_cast<std::size_t>(size)};
}

stamp_table::~stamp_table() {
  for (std::atomic<slot*>& segment : segments_)
    delete[] segment.load(std::memory_order_acquire);
}

void stamp_table::began(std::uint64_t id, std::uint64_t at_ns) noexcept {
  if (slot* const mine = make(id)) mine->began_ns.store(at_ns, std::memory_order_relaxed);
}

void stamp_table::ended(std::uint64_t id, std::uint64_t at_ns, outcome how) noexcept {
  slot* const mine = make(id);
  if (mine == nullptr) return;
  mine->how.store(how, std::memory_order_relaxed);
  mine->ended_ns.store(at_ns, std::memory_order_release);
}

stamp stamp_table::at(std::uint64_t id) const noexcept {
  if (!is_kept(id)) return {};
  const position where = locate(id);
  const slot* const slots = segments_[where.segment].load(std::memory_order_acquire);
  if (slots == nullptr) return {};
  const slot& found = slots[where.offset];
  stamp known;
  known.ended_ns = found.ended_ns.load(std::memory_order_acquire);
  known.began_ns = found.began_ns.load(std::memory_order_relaxed);
  known.how = found.how.load(std::memory_order_relaxed);
  return known;
}

stamp_table::slot* stamp_table::make(std::uint64_t id) noexcept {
  if (!is_kept(id)) return nullptr;
  const position where = locate(id);
  std::atomic<slot*>& segment = segments_[where.segment];
  slot* slots = segment.load(std::memory_order_acquire);
  if (slots == nullptr) {
    slot* const fresh = new (std::nothrow) slot[where.size];
    if (fresh == nullptr) return nullptr;
    if (segment.compare_exchange_strong(slots, fresh, std::memory_order_acq_rel)) {
      slots = fresh;
    } else {
      delete[] fresh;  // another thread was faster
    }
  }
  return slots + where.offset;
}

}  // namespace millstream::trace
