// SPDX-License-Identifier: Apache-2.0
/// Which user buffers are registered, so that overlaps are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/strided.hpp"

namespace millstream::core {

class data;

/// The buffers of live registrations of one context, ordered by lowest address. Under the context's
/// lock.
class range_registry {
 public:
  /// The live datum of exactly these bytes in this order, and likewise read-only or not; or null.
  [[nodiscard]] data* find_same(const strided& area, bool readonly) const;
  /// The live data that have a byte in common with it and do not merely share reading.
  [[nodiscard]] std::vector<data*> find_sharing(const strided& area, bool readonly) const;
  /// Uses `what.area`.
  void add(data& what);
  void remove(data& what) noexcept;

  [[nodiscard]] static bool overlap(const void* a, std::size_t a_bytes, const void* b,
                                    std::size_t b_bytes) noexcept;

 private:
  struct range {
    std::size_t bytes;
    data* what;
  };
  std::multimap<std::uintptr_t, range> ranges_;
  std::size_t longest_ = 0;  // of all ranges ever added: how far back an overlap can begin
};

}  // namespace millstream::core
