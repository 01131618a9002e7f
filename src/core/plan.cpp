// SPDX-License-Identifier: Apache-2.0
#include "core/plan.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "core/context.hpp"

namespace millstream::core {
namespace {

constexpr std::size_t most_deps = 65535;

std::string locked_name(const data& what) {
  const std::scoped_lock hold(what.owner->mutex());
  return what.name();
}

void check_dep(const context& in, const plan& of, const task_dep& dep) {
  const data* what = dep.data.state();
  if (what == nullptr) {
    throw error(
        errc::invalid_value,
        base::cat(of.full_name(), " has a dependency without data; pass data of its context"));
  }
  if (what->owner.get() != &in) {
    throw error(errc::invalid_value,
                base::cat(of.full_name(), " uses ", locked_name(*what),
                          ", which belongs to a different context; register "
                          "the data in the context that uses it"),
                locked_name(*what));
  }
  if (dep.mode == access_mode::none) {
    throw error(errc::invalid_value,
                base::cat(of.full_name(), " uses ", locked_name(*what),
                          " with no access; use read, write or rw"),
                locked_name(*what));
  }
  if (writes(dep.mode) && what->readonly) {
    throw error(errc::invalid_value,
                base::cat(of.full_name(), " writes ", locked_name(*what),
                          ", which was registered read-only; use read(), or "
                          "register a writable buffer"),
                locked_name(*what));
  }
}

void merge(const plan& of, access& into, access_mode mode, bool placed, place_index place) {
  if (into.placed && placed && into.place != place) {
    throw error(errc::invalid_value,
                base::cat(of.full_name(), " names two places for ", locked_name(*into.what),
                          "; name one place per datum"),
                locked_name(*into.what));
  }
  if (placed) {
    into.place = place;
    into.placed = true;
  }
  into.mode = into.mode | mode;
}

/// One of 64 bits, most often another one for another datum of the task.
std::uint64_t bit_of(const data* what) noexcept {
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U;
  constexpr unsigned top_six = 58;
  return std::uint64_t{1} << (reinterpret_cast<std::uintptr_t>(what) * golden >> top_six);
}

/// `seen`: the bits of the data so far, so that hardly any is looked for in vain.
void add(plan& to, std::uint64_t& seen, data* what, access_mode mode, bool placed,
         place_index place) {
  const std::uint64_t bit = bit_of(what);
  std::size_t i = to.accesses.size();
  if ((seen & bit) != 0) {
    i = 0;
    while (i < to.accesses.size() && to.accesses[i].what != what)
      ++i;
  }
  seen |= bit;
  to.access_of_dep.push_back(static_cast<std::uint16_t>(i));
  if (i < to.accesses.size()) {
    merge(to, to.accesses[i], mode, placed, place);
    return;
  }
  access& fresh = to.accesses.emplace_back();
  fresh.what = what;
  fresh.mode = mode;
  fresh.placed = placed;
  fresh.place = place;
}

// A body may follow the address of an instance on another device; only copies see to it themselves.
void let_reach(machine& on, plan& of) {
  if (of.exec < 0 || !on.has(backend::capability::values)) return;
  for (const access& each : of.accesses) {
    if (each.place == host_place) of.host_on_device = true;
    if (each.place < 0 || each.place == of.exec || each.what->token) continue;
    const backend::status allowed = on.driver().enable_peer(of.exec, each.place);
    if (allowed.ok()) continue;
    throw error(allowed.code(),
                base::cat(of.full_name(), " cannot use ", locked_name(*each.what),
                          " where it is to be: ", allowed.text()),
                locked_name(*each.what));
  }
}

}  // namespace

bool plan::writes_any() const noexcept {
  return std::any_of(accesses.begin(), accesses.end(),
                     [](const access& each) { return writes(each.mode); });
}

const char* plan::call() const noexcept {
  return reader != nullptr ? reader : to_string(kind);
}

std::string plan::name() const {
  if (reader != nullptr) return reader;
  if (!symbol.empty()) return base::cat("task ", base::quoted(symbol));
  return id == 0 ? std::string("task") : base::cat("task ", id);
}

std::string plan::full_name() const {
  const std::string at = base::site_text(site);
  return at.empty() ? name() : base::cat(name(), " (", at, ")");
}

std::string plan::written_names() const {
  std::string names;
  for (const access& each : accesses) {
    if (!writes(each.mode) || each.shared) continue;
    if (!names.empty()) names += ", ";
    names += each.what->name();
  }
  return names;
}

namespace {

// What is known of the place alone becomes an error of the task that names it.
template <class Place, class... Rest>
place_index resolve_for(const plan& of, Place place, Rest&... rest) {
  try {
    return resolve(place, rest...);
  } catch (const error& why) {
    throw error(why.code(),
                base::cat(of.full_name(), " names a place that cannot be used: ", why.what()));
  }
}

}  // namespace

void make_plan(context& in, const task_spec& what, plan& made) {
  made.accesses.clear();
  made.access_of_dep.clear();
  made.host_on_device = false;
  made.uses_device = what.uses_device;
  made.kind = what.kind;
  made.symbol = what.symbol;
  made.site = what.site;
  if (what.deps.size() > most_deps) {
    throw error(errc::invalid_value,
                base::cat(made.full_name(), " has ", what.deps.size(), " dependencies; at most ",
                          most_deps, " are allowed"));
  }
  made.exec = resolve_for(made, what.place, in.on());
  if (!made.uses_device && made.exec != host_place) {
    throw error(errc::invalid_value,
                base::cat(made.full_name(),
                          " is declared not to use the device (uses_device = false), but runs on "
                          "one; give it the host place, or leave the declaration out"));
  }
  bool is_any_placed = false;
  std::uint64_t seen = 0;
  for (const task_dep& dep : what.deps) {
    check_dep(in, made, dep);
    const bool placed = dep.place.what() != data_place::kind::affine;
    is_any_placed = is_any_placed || placed;
    add(made, seen, dep.data.state(), dep.mode, placed,
        placed ? resolve_for(made, dep.place, made.exec, in.on()) : made.exec);
  }
  if (is_any_placed) let_reach(in.on(), made);
}

}  // namespace millstream::core
