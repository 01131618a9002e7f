// SPDX-License-Identifier: Apache-2.0
/// Words of one line of a scenario, taken one after the other; every complaint names the line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millstream::scenario {

/// Words are separated by blanks; `"..."` is one word, kept with its quotes; `,` and `;` are words
/// of their own; `#` begins a comment. All `take_...` functions throw parse_error.
class line_reader {
 public:
  line_reader(const std::string& file, std::uint32_t line, std::string_view text);

  [[nodiscard]] bool at_end() const noexcept { return next_ == words_.size(); }
  [[nodiscard]] std::uint32_t line() const noexcept { return line_; }
  /// "" at the end.
  [[nodiscard]] const std::string& peek() const noexcept;
  /// Takes the next word if it is `word`.
  bool accept(std::string_view word);

  /// `what` says in the message what is missing.
  std::string take_word(std::string_view what);
  std::string take_name(std::string_view what);  ///< letters, digits, '_', '.', '-' inside
  std::int64_t take_integer(std::string_view what);
  std::uint64_t take_count(std::string_view what);
  std::size_t take_bytes();  ///< `8B`, `1KiB`, `4MiB`
  int take_place();          ///< `host`, `dev3`
  std::string take_quoted();
  std::pair<std::string, std::string> take_edge();  ///< `a->b`
  void expect_end();

  [[noreturn]] void fail(const std::string& text) const;

 private:
  void split(std::string_view text);

  const std::string& file_;
  std::uint32_t line_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

/// Nothing if the word is neither `host` nor `dev<number>`.
[[nodiscard]] std::optional<int> place_of(std::string_view word);

}  // namespace millstream::scenario
