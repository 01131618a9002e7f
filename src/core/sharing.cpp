// SPDX-License-Identifier: Apache-2.0
/// Data that have bytes of a user's buffer in common, with one order.
///
/// What they have in common is up to date in the buffer itself. So a task that uses one of them
/// uses the others too, at their home: reading there what it reads, and, if it writes, leaving them
/// with nothing but that. The engine adds these accesses itself; they bring the order, the copies
/// and the poison of an ordinary access with them.
#include <algorithm>

#include "base/text.hpp"
#include "core/context.hpp"

namespace millstream::core {
namespace {

bool has_shared(const plan& of, const data& what) noexcept {
  return std::any_of(of.accesses.begin(), of.accesses.end(),
                     [&](const access& each) { return each.shared && each.what == &what; });
}

[[noreturn]] void refuse_both(const plan& of, const data& a, const data& b) {
  throw error(errc::invalid_value,
              base::cat(of.full_name(), " writes ", a.name(), " and also uses ", b.name(),
                        ", which has elements in common with it; use one of them in a task"));
}

// One task has two copies of what is in common, and would see in one of them what it wrote in the
// other only by chance.
void check_not_both(const plan& of, const access& writer) {
  for (const access& each : of.accesses) {
    if (each.shared || each.what == writer.what) continue;
    const auto& sharing = writer.what->sharing;
    if (std::find(sharing.begin(), sharing.end(), each.what) == sharing.end()) continue;
    refuse_both(of, *writer.what, *each.what);
  }
}

untyped_data handle_of(data& what) {
  what.add_handle();
  return untyped_data::adopt(&what);
}

}  // namespace

bool context::add_shared(plan& of) const {
  bool is_added = false;
  const std::size_t own = of.accesses.size();
  for (std::size_t i = 0; i < own; ++i) {
    const access wanted = of.accesses[i];
    if (wanted.shared || wanted.what->sharing.empty()) continue;
    if (writes(wanted.mode)) check_not_both(of, wanted);
    for (data* const other : wanted.what->sharing) {
      if (has_shared(of, *other)) continue;
      access added;
      added.what = other;
      added.mode = writes(wanted.mode) ? access_mode::rw : access_mode::read;
      added.place = other->instances[0].place;
      added.shared = true;
      added.inherited = reads(wanted.mode) && wanted.what->version == 0;
      of.shared.push_back(handle_of(*other));
      of.accesses.push_back(added);
      is_added = true;
    }
  }
  return is_added;
}

// What was registered first may have been written on another device, or spoiled.
void context::join_sharing(data& fresh, const std::vector<data*>& others) {
  for (data* const other : others) {
    fresh.sharing.push_back(other);
    other->sharing.push_back(&fresh);
    if (failed_task* const because = other->poison.find(other->version)) {
      fresh.poison.add(fresh.version, because);
    }
  }
}

// A write-back that is under way comes before all that the others do.
void context::leave_sharing(data& gone) {
  const completion_set uses = gone.uses();
  for (data* const other : gone.sharing) {
    std::erase(other->sharing, &gone);
    if (other->instances.empty()) continue;
    completion_set& ready = other->instances[0].ready;
    ready.add(uses);
    ready.add(other->writer);
    other->readers.add(uses);
    other->readers.add(other->writer);
  }
  gone.sharing.clear();
}

// The rest of what it has stays spoiled when a part is written anew.
void context::carry_poison(const access& over) {
  if (!over.shared || !writes(over.mode)) return;
  if (failed_task* const because = over.what->poison.find(over.version)) {
    over.what->poison.add(over.version + 1, because);
  }
}

}  // namespace millstream::core
