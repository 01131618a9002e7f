// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/line_reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "tests/scenario/program.hpp"

namespace millstream::scenario {
namespace {

template <class Number>
std::optional<Number> number_of(std::string_view word) {
  Number value{};
  const char* const end = word.data() + word.size();
  const auto [stop, fault] = std::from_chars(word.data(), end, value);
  if (fault != std::errc{} || stop != end) return std::nullopt;
  return value;
}

bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\r';
}
bool is_separator(char letter) {
  return letter == ',' || letter == ';';
}

bool is_name(std::string_view word) {
  if (word.empty()) return false;
  const auto first = static_cast<unsigned char>(word.front());
  if (std::isalpha(first) == 0 && first != '_') return false;
  return std::all_of(word.begin(), word.end(), [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
           letter == '.' || letter == '-';
  });
}

struct unit {
  std::string_view suffix;
  std::size_t bytes;
};
// Longest first: every suffix ends in 'B'.
constexpr std::array<unit, 4> units{{
    {"GiB", std::size_t{1} << 30U},
    {"MiB", std::size_t{1} << 20U},
    {"KiB", std::size_t{1} << 10U},
    {"B", 1},
}};

}  // namespace

std::optional<int> place_of(std::string_view word) {
  if (word == "host") return on_host;
  if (!word.starts_with("dev")) return std::nullopt;
  const std::optional<unsigned> index = number_of<unsigned>(word.substr(3));
  if (!index || *index > 1000) return std::nullopt;
  return static_cast<int>(*index);
}

line_reader::line_reader(const std::string& file, std::uint32_t line, std::string_view text)
    : file_(file), line_(line) {
  split(text);
}

void line_reader::split(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && text[at] != '#') {
    const std::size_t begin = at;
    if (is_blank(text[at])) {
      ++at;
      continue;
    }
    if (text[at] == '"') {
      const std::size_t close = text.find('"', at + 1);
      if (close == std::string_view::npos) fail("the quote is never closed; end it with '\"'");
      at = close + 1;
    } else if (is_separator(text[at])) {
      ++at;
    } else {
      while (at < text.size() && !is_blank(text[at]) && !is_separator(text[at]) &&
             text[at] != '#') {
        ++at;
      }
    }
    words_.emplace_back(text.substr(begin, at - begin));
  }
}

void line_reader::fail(const std::string& text) const {
  throw parse_error(file_ + ":" + std::to_string(line_) + ": " + text);
}

const std::string& line_reader::peek() const noexcept {
  static const std::string none;
  return at_end() ? none : words_[next_];
}

bool line_reader::accept(std::string_view word) {
  if (at_end() || words_[next_] != word) return false;
  ++next_;
  return true;
}

std::string line_reader::take_word(std::string_view what) {
  if (at_end()) fail("the line ends where " + std::string(what) + " is expected; add it");
  return words_[next_++];
}

std::string line_reader::take_name(std::string_view what) {
  std::string word = take_word(what);
  if (!is_name(word)) {
    fail("'" + word + "' is no name for " + std::string(what) +
         "; begin with a letter and use letters, digits, '_', '.' and '-'");
  }
  return word;
}

std::int64_t line_reader::take_integer(std::string_view what) {
  const std::string word = take_word(what);
  const auto value = number_of<std::int64_t>(word);
  if (!value) fail("'" + word + "' is no integer; write " + std::string(what) + " as a number");
  return *value;
}

std::uint64_t line_reader::take_count(std::string_view what) {
  const std::string word = take_word(what);
  const auto value = number_of<std::uint64_t>(word);
  if (!value) fail("'" + word + "' is no count; write " + std::string(what) + " as 0 or more");
  return *value;
}

std::size_t line_reader::take_bytes() {
  const std::string word = take_word("a size");
  const std::string_view view = word;
  for (const unit& one : units) {
    if (!view.ends_with(one.suffix)) continue;
    const auto count = number_of<std::size_t>(view.substr(0, view.size() - one.suffix.size()));
    if (!count || *count * one.bytes % sizeof(std::int64_t) != 0) break;
    return *count * one.bytes;
  }
  fail("'" + word + "' is no size; write a multiple of 8 with a unit, such as 64B, 1KiB or 4MiB");
}

int line_reader::take_place() {
  const std::string word = take_word("a place");
  const std::optional<int> place = place_of(word);
  if (!place) fail("'" + word + "' is no place; write host, dev0, dev1, ...");
  return *place;
}

std::string line_reader::take_quoted() {
  const std::string word = take_word("a text in quotes");
  if (word.size() < 2 || word.front() != '"') fail("'" + word + "' is not in quotes; add them");
  return word.substr(1, word.size() - 2);
}

std::pair<std::string, std::string> line_reader::take_edge() {
  const std::string word = take_word("an edge");
  const std::size_t arrow = word.find("->");
  if (arrow == std::string::npos || !is_name(word.substr(0, arrow)) ||
      !is_name(word.substr(arrow + 2))) {
    fail("'" + word + "' is no edge; write a->b without blanks");
  }
  return {word.substr(0, arrow), word.substr(arrow + 2)};
}

void line_reader::expect_end() {
  if (!at_end()) fail("'" + peek() + "' is not understood here; remove it");
}

}  // namespace millstream::scenario
