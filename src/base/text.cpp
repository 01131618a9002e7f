// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <array>

namespace millstream::base {

std::string quoted(std::string_view text) {
  return cat('\'', text, '\'');
}

std::string bytes_text(std::size_t bytes) {
  constexpr std::array<const char*, 6> units{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes == 1) return "1 byte";
  if (bytes < 1024) return cat(bytes, " bytes");
  std::size_t unit = 1024;
  for (std::size_t i = 0; i < units.size(); ++i, unit *= 1024) {
    // Fits: the remainder is below 2^60, and ten times that is below 2^64.
    const std::size_t tenths = bytes / unit * 10 + (bytes % unit * 10 + unit / 2) / unit;
    if (tenths >= 10240 && i + 1 < units.size()) continue;
    if (tenths % 10 == 0) return cat(tenths / 10, ' ', units[i]);
    return cat(tenths / 10, '.', tenths % 10, ' ', units[i]);
  }
  return {};
}

std::string site_text(source_site site) {
  if (site.file == nullptr) return {};
  return cat(site.file, ':', site.line);
}

}  // namespace millstream::base
