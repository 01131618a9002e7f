// SPDX-License-Identifier: Apache-2.0
/// Which user buffers are registered, so that overlaps are found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace millstream::core {

class data;

/// Byte ranges of live registrations of one context, ordered by address. Under
/// the context's lock.
class range_registry {
 public:
  /// The live datum with exactly this range, or null.
  [[nodiscard]] data* find_same(const void* block, std::size_t bytes) const;
  /// A live datum that overlaps the range and does not merely share reading
  /// with it, or null.
  [[nodiscard]] data* find_overlap(const void* block, std::size_t bytes, bool readonly) const;
  void add(const void* block, std::size_t bytes, data& what);
  void remove(const void* block, data& what) noexcept;

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
