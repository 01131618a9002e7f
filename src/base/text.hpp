// SPDX-License-Identifier: Apache-2.0
/// Putting texts together: error messages, names, sizes. Everything here may throw
/// std::bad_alloc and nothing else. Any thread.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

#include <millstream/error.hpp>

namespace millstream::base {

namespace detail {

inline void append(std::string& out, std::string_view part) {
  out += part;
}
inline void append(std::string& out, const char* part) {
  out += part == nullptr ? "" : part;
}
inline void append(std::string& out, char part) {
  out += part;
}
inline void append(std::string& out, bool part) {
  out += part ? "true" : "false";
}

/// Numbers as `std::to_chars` writes them: no locale, floating point in the shortest form that
/// reads back to the same value.
template <class Number>
  requires((std::integral<Number> && !std::same_as<Number, bool> && !std::same_as<Number, char>) ||
           std::floating_point<Number>)
void append(std::string& out, Number part) {
  char digits[64];
  const auto end = std::to_chars(digits, digits + sizeof digits, part).ptr;
  out.append(digits, end);
}

}  // namespace detail

/// The parts one after the other: strings, characters, integers, floating point, bools.
template <class... Parts>
[[nodiscard]] std::string cat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

/// `x` becomes `'x'`.
[[nodiscard]] std::string quoted(std::string_view text);

/// A size for people: "1 byte", "512 bytes", "1.5 GiB"; at most one digit after the point.
[[nodiscard]] std::string bytes_text(std::size_t bytes);

/// "file.py:12", with the path as the site has it; empty for an unknown site.
[[nodiscard]] std::string site_text(source_site site);

}  // namespace millstream::base
