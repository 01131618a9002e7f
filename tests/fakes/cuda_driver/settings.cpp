// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/settings.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <type_traits>

namespace fake_cuda {

namespace {

std::string_view variable(const std::string& name) {
  const char* const value = std::getenv(("MILLSTREAM_FAKE_CUDA_" + name).c_str());
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::vector<std::string_view> split(std::string_view text, char by) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(by);
    parts.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return parts;
}

/// A wrong setting would make a test pass for the wrong reason, so it is told, and left alone.
template <class Number>
bool parse(std::string_view text, Number& into) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), into);
  if (fault == std::errc{} && end == text.data() + text.size()) return true;
  std::fprintf(stderr, "fake cuda driver: '%.*s' is not a number; the setting is ignored\n",
               static_cast<int>(text.size()), text.data());
  return false;
}

template <class Number>
void read(const char* name, Number& into) {
  const std::string_view text = variable(name);
  Number number{};
  if (!text.empty() && parse(text, number)) into = number;
}

void read_flag(const char* name, bool& into) {
  const std::string_view text = variable(name);
  if (!text.empty()) into = text != "0";
}

result to_result(int number) {
  return static_cast<result>(number);
}

/// `name:nth:result[:sticky]`; the name `*` means any.
void read_fault(std::string_view text, std::vector<planned_fault>& into) {
  const std::vector<std::string_view> parts = split(text, ':');
  planned_fault fault;
  int answer = 0;
  if (parts.size() < 3 || !parse(parts[1], fault.left) || !parse(parts[2], answer)) return;
  if (parts[0] != "*") fault.name = parts[0];
  fault.answer = to_result(answer);
  fault.sticky = parts.size() > 3 && parts[3] == "sticky";
  if (fault.left > 0) into.push_back(fault);
}

}  // namespace

settings settings::from_environment() {
  settings made;
  read("DEVICES", made.devices);
  read("VERSION", made.version);
  read("SEED", made.seed);
  read("MEMORY", made.device_bytes);
  read("PARK_LIMIT", made.park_limit);
  read("IDLE_MS", made.idle_ms);
  read_flag("PEERS", made.peers);
  read_flag("BACKGROUND", made.background);
  int init_answer = 0;
  read("INIT", init_answer);
  made.init_answer = to_result(init_answer);
  for (const std::string_view name : split(variable("HIDE"), ','))
    made.hidden.emplace(name);
  for (const std::string_view fault : split(variable("FAIL"), ','))
    read_fault(fault, made.faults);
  for (const std::string_view pair : split(variable("ATTRIBUTES"), ',')) {
    const std::vector<std::string_view> parts = split(pair, '=');
    std::uint32_t what = 0;
    int value = 0;
    if (parts.size() == 2 && parse(parts[0], what) && parse(parts[1], value))
      made.attributes[what] = value;
  }
  made.log_path = variable("LOG");
  return made;
}

}  // namespace fake_cuda
