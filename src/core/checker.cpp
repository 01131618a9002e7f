// SPDX-License-Identifier: Apache-2.0
#include "core/checker.hpp"

#include <cstring>

#include "core/context.hpp"

namespace millstream::core {

std::uint64_t checksum(const void* block, std::size_t bytes) noexcept {
  // Multiply-and-rotate over words: any single changed byte changes the state,
  // and each step is a bijection of it, so the change stays.
  constexpr std::uint64_t factor = 0x9E3779B97F4A7C15U;
  const auto* from = static_cast<const unsigned char*>(block);
  std::uint64_t state = bytes * factor;
  for (; bytes >= sizeof(std::uint64_t); bytes -= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof word);
    from += sizeof word;
    state = (state ^ word) * factor;
    state ^= state >> 29U;
  }
  for (; bytes > 0; --bytes)
    state = (state ^ *from++) * factor;
  return state ^ (state >> 32U);
}

access_check::access_check(std::span<const checked_access> accesses) {
  for (const checked_access& each : accesses) {
    if (each.address == nullptr || each.what->bytes == 0) continue;
    if (each.mode == access_mode::write) {
      std::memset(each.address, pattern, each.what->bytes);
    } else if (each.mode == access_mode::read) {
      inputs_.push_back({each, checksum(each.address, each.what->bytes)});
    }
  }
}

std::string access_check::changed() const {
  std::string names;
  for (const entry& each : inputs_) {
    data& what = *each.of.what;
    if (checksum(each.of.address, what.bytes) == each.sum) continue;
    const std::scoped_lock hold(what.owner->mutex());
    names += (names.empty() ? "" : ", ") + what.name();
  }
  return names;
}

}  // namespace millstream::core
