// SPDX-License-Identifier: Apache-2.0
/// Which user buffers are registered, so that overlaps are found.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/strided.hpp"

namespace millstream::core {

class data;

/// Ranges of addresses with a value each; several may be the same. Ranges without a byte are left
/// out. What a call does grows with the ranges that overlap, and the logarithm of all.
template <class Value>
class range_map {
 public:
  void add(const void* low, std::size_t bytes, Value value) {
    if (bytes == 0) return;
    sizes_ |= std::uint64_t{1} << size_of(bytes);
    ranges_.insert({{size_of(bytes), address_of(low)}, {bytes, std::move(value)}});
  }
  /// Of those that begin there and are about as long: removes the ones for which `is_meant(value)`
  /// says so.
  template <class Meant>
  void remove_if(const void* low, std::size_t bytes, Meant&& is_meant) {
    auto [each, last] = ranges_.equal_range({size_of(bytes), address_of(low)});
    while (each != last)
      each = is_meant(each->second.value) ? ranges_.erase(each) : std::next(each);
  }
  void clear() noexcept { ranges_.clear(); }
  /// `use(value)` for each that has a byte of this range.
  template <class Use>
  void for_each_overlap(const void* low, std::size_t bytes, Use&& use) const {
    if (bytes == 0) return;
    const std::uintptr_t begin = address_of(low);
    for (std::uint64_t sizes = sizes_; sizes != 0; sizes &= sizes - 1) {
      const auto size = static_cast<unsigned>(std::countr_zero(sizes));
      const std::uintptr_t back = std::min<std::uintptr_t>(begin, longest(size));
      for (auto each = ranges_.lower_bound({size, begin - back});
           each != ranges_.end() && each->first.first == size; ++each) {
        const std::uintptr_t at = each->first.second;
        if (at >= begin && at - begin >= bytes) break;
        if (at >= begin || begin - at < each->second.bytes) use(each->second.value);
      }
    }
  }

 private:
  // Ranges are kept by size, so that a long one does not make all short ones before it candidates.
  using key = std::pair<unsigned, std::uintptr_t>;
  struct range {
    std::size_t bytes;
    Value value;
  };
  static std::uintptr_t address_of(const void* block) noexcept {
    return reinterpret_cast<std::uintptr_t>(block);
  }
  static unsigned size_of(std::size_t bytes) noexcept {
    return static_cast<unsigned>(std::bit_width(bytes)) - (bytes == 0 ? 0U : 1U);
  }
  static std::uintptr_t longest(unsigned size) noexcept { return (std::uintptr_t{2} << size) - 1; }

  std::multimap<key, range> ranges_;
  std::uint64_t sizes_ = 0;  // a bit for each that there ever was
};

/// The buffers of live registrations of one context. Under the context's lock.
class range_registry {
 public:
  /// The live datum of exactly these bytes in this order, and likewise read-only or not; or null.
  [[nodiscard]] data* find_same(const strided& area, bool readonly) const;
  /// The live data that have a byte in common with it and do not merely share reading, in the order
  /// of their addresses.
  [[nodiscard]] std::vector<data*> find_sharing(const strided& area, bool readonly) const;
  /// Uses `what.area`.
  void add(data& what);
  void remove(data& what) noexcept;

  [[nodiscard]] static bool overlap(const void* a, std::size_t a_bytes, const void* b,
                                    std::size_t b_bytes) noexcept;

 private:
  range_map<data*> ranges_;
};

}  // namespace millstream::core
