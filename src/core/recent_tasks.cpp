// SPDX-License-Identifier: Apache-2.0
#include "core/recent_tasks.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

namespace millstream::core {

void recent_tasks::note(const plan& of, completion end) noexcept {
  entry& to = entries_[count_++ % room];
  to.id = of.id;
  to.end_sequence = end.sequence;
  to.end_lane = end.lane;
  to.line = of.site.line;
  to.file = of.site.file;
  to.length = static_cast<std::uint8_t>(std::min(of.symbol.size(), longest_name));
  std::copy_n(of.symbol.begin(), to.length, to.name.begin());
}

std::string recent_tasks::text(const entry& of) {
  plan named;
  named.id = of.id;
  named.site = {of.file, of.line};
  named.symbol = std::string_view(of.name.data(), of.length);
  return named.full_name();
}

std::string recent_tasks::unfinished(const lane_set& in) const {
  std::vector<const entry*> found;
  for (std::uint64_t i = count_ - std::min<std::uint64_t>(count_, room); i < count_; ++i) {
    const entry& each = entries_[i % room];
    if (!in.is_done({each.end_lane, each.end_sequence})) found.push_back(&each);
  }
  if (found.empty()) return {};
  std::string all = found.size() > 1 ? "one of " : "";
  const std::size_t listed = std::min(found.size(), most_listed);
  for (std::size_t i = 0; i < listed; ++i)
    all += (i > 0 ? ", " : "") + text(*found[i]);
  if (found.size() > listed) all += " and " + std::to_string(found.size() - listed) + " more";
  return all;
}

std::string recent_tasks::of_stage(std::uint32_t stage) const {
  const auto is_of_it = [stage](const entry& each) {
    const completion end{each.end_lane, each.end_sequence};
    return end.is_recorded() && end.stage() == stage;
  };
  const entry* first = nullptr;
  const entry* last = nullptr;
  for (std::uint64_t i = count_ - std::min<std::uint64_t>(count_, room); i < count_; ++i) {
    const entry& each = entries_[i % room];
    if (!is_of_it(each)) continue;
    if (first == nullptr) first = &each;
    last = &each;
  }
  if (last == nullptr) return {};
  // What is in the place of the newest that comes is the oldest that is known.
  if (count_ > room && first == &entries_[count_ % room]) return "tasks up to " + text(*last);
  return first == last ? text(*last) : text(*first) + " to " + text(*last);
}

}  // namespace millstream::core
