// SPDX-License-Identifier: Apache-2.0
/// Short words for tests of the engine through its untyped interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <millstream/untyped.hpp>

namespace millstream::test {

[[nodiscard]] inline untyped_context open(const char* machine_name, int devices,
                                          std::optional<std::uint64_t> seed = {}) {
  context_options options;
  options.on = machine({.name = machine_name, .devices = devices, .seed = seed});
  return untyped_context(std::move(options));
}

/// Submits `body` (taking `const body_call&`).
template <class Body>
void run(untyped_context& on, exec_place place, std::span<const task_dep> deps, Body&& body,
         std::string_view name = {}, task_kind kind = task_kind::task) {
  task_spec what;
  what.kind = kind;
  what.place = place;
  what.symbol = name;
  what.deps = deps;
  on.submit(what, make_body(std::forward<Body>(body)));
}
template <class Body>
void run(untyped_context& on, exec_place place, std::initializer_list<task_dep> deps, Body&& body,
         std::string_view name = {}, task_kind kind = task_kind::task) {
  run(on, place, std::span<const task_dep>(deps.begin(), deps.size()), std::forward<Body>(body),
      name, kind);
}

inline constexpr auto nothing = [](const body_call&) {};

/// A registered buffer.
template <class Element>
[[nodiscard]] untyped_data registered(untyped_context& on, std::vector<Element>& buffer,
                                      std::string_view name = {}) {
  registration what;
  what.block = buffer.data();
  what.bytes = buffer.size() * sizeof(Element);
  what.symbol = name;
  return on.register_data(what);
}

template <class Element>
[[nodiscard]] Element& first(const body_call& call, std::size_t index = 0) {
  return *static_cast<Element*>(call.pointers[index]);
}

template <class Element>
[[nodiscard]] Element content(untyped_context& on, const untyped_data& of) {
  std::vector<Element> all(of.bytes() / sizeof(Element));
  on.read_back(of, all.data());
  return all.at(0);
}

/// The code of what the call throws; ok = nothing. The text goes to `text`.
template <class Call>
[[nodiscard]] errc thrown(Call&& call, std::string* text = nullptr) {
  try {
    call();
  } catch (const error& fault) {
    if (text != nullptr) *text = fault.what();
    return fault.code();
  }
  return errc::ok;
}

[[nodiscard]] inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// Calls of the null machine since the object was made, those that did not happen left out.
class call_meter {
 public:
  explicit call_meter(machine on) : on_(std::move(on)), before_(on_.call_counts()) {}
  [[nodiscard]] std::map<std::string, std::uint64_t> calls() const {
    std::map<std::string, std::uint64_t> since;
    for (const auto& [name, count] : on_.call_counts())
      since[name] = count;
    // Kinds that were not called are not listed.
    for (const auto& [name, count] : before_) {
      if ((since[name] -= count) == 0) since.erase(name);
    }
    return since;
  }

 private:
  machine on_;
  std::vector<std::pair<std::string, std::uint64_t>> before_;
};

}  // namespace millstream::test
