// SPDX-License-Identifier: Apache-2.0
#include "tests/model/shrinker.hpp"

#include <algorithm>
#include <optional>

#include "tests/model/generator.hpp"

namespace millstream::model {
namespace {

using scenario::program;

/// Without the statements [begin, begin + count); nothing if that is no program any more, for
/// instance because a datum lacks its declaration.
std::optional<program> without(const program& from, std::size_t begin, std::size_t count) {
  program smaller = from;
  const auto first = smaller.statements.begin() + static_cast<std::ptrdiff_t>(begin);
  smaller.statements.erase(first, first + static_cast<std::ptrdiff_t>(count));
  try {
    announce_errors(smaller);
    program checked = scenario::parse(from.file, scenario::print(smaller));
    return checked;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

program shrink(program failing, const still_fails& fails, std::size_t most_plays) {
  for (std::size_t chunk = failing.statements.size() / 2; chunk > 0;) {
    bool smaller = false;
    for (std::size_t end = failing.statements.size(); end >= chunk && most_plays > 0; --end) {
      std::optional<program> candidate = without(failing, end - chunk, chunk);
      if (!candidate || candidate->statements.size() >= failing.statements.size()) continue;
      --most_plays;
      if (!fails(*candidate)) continue;
      failing = std::move(*candidate);
      smaller = true;
      end = std::min(end, failing.statements.size() + 1);
    }
    if (most_plays == 0) break;
    if (!smaller || chunk > 1) chunk = chunk > 1 ? chunk / 2 : 0;
  }
  return failing;
}

}  // namespace millstream::model
