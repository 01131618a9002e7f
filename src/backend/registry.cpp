// SPDX-License-Identifier: Apache-2.0
#include "backend/registry.hpp"

#include <algorithm>

#include "backend/guarded.hpp"

namespace millstream::backend {
namespace {

using entry_list = std::span<const backend_entry>;

std::string names_of(entry_list entries) {
  std::string names;
  for (const backend_entry& entry : entries) {
    names += base::cat(names.empty() ? "" : ", ", entry.name);
  }
  return names;
}

const backend_entry* find(entry_list entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const backend_entry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

machine_result open_first(entry_list entries, const open_options& options) {
  std::string tried;
  for (const backend_entry& entry : entries) {
    if (!entry.may_be_default) continue;
    machine_result opened = entry.open(options);
    if (opened || opened.why().code() != errc::unavailable) return opened;
    tried +=
        base::cat(tried.empty() ? "" : "; ", base::quoted(entry.name), ": ", opened.why().text());
  }
  return status(errc::unavailable,
                base::cat("no machine can be opened; choose one of ", names_of(entries),
                          " by name (tried ", tried.empty() ? "none" : tried, ")"));
}

}  // namespace

machine_result open_among(entry_list entries, std::string_view name, std::string_view preferred,
                          const open_options& options) noexcept {
  return guarded("opening a machine", [&]() -> machine_result {
    const std::string_view wanted = name.empty() ? preferred : name;
    if (wanted.empty()) return open_first(entries, options);
    if (const backend_entry* found = find(entries, wanted)) return found->open(options);
    const char* from = name.empty() ? "variable 'MILLSTREAM_MACHINE' names the " : "";
    return status(errc::invalid_value, base::cat(from, "unknown machine ", base::quoted(wanted),
                                                 "; choose one of ", names_of(entries)));
  });
}

}  // namespace millstream::backend
