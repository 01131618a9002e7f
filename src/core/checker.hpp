// SPDX-License-Identifier: Apache-2.0
/// Checker mode: did a body keep to what it declared? Only on machines whose
/// instances are host memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <millstream/access.hpp>

#include "base/small_vector.hpp"

namespace millstream::core {

class data;

/// One datum as a body sees it.
struct checked_access {
  data* what = nullptr;
  access_mode mode = access_mode::none;
  void* address = nullptr;
};

/// Made before a body runs, asked after it. Fills what is only written with a
/// pattern (so that a body that reads it, or does not write all of it, gives
/// wrong values that are easy to see) and remembers checksums of what is only
/// read. No lock needed: the accesses are the task's own.
class access_check {
 public:
  explicit access_check(std::span<const checked_access> accesses);
  /// The data that were declared read and have changed, "'a', 'b'"; empty if
  /// none. Takes the context's lock for the names.
  [[nodiscard]] std::string changed() const;

  static constexpr unsigned char pattern = 0xCB;

 private:
  struct entry {
    checked_access of;
    std::uint64_t sum;
  };
  base::small_vector<entry, 4> inputs_;
};

/// A 64-bit checksum that sees any changed byte.
[[nodiscard]] std::uint64_t checksum(const void* block, std::size_t bytes) noexcept;

}  // namespace millstream::core
