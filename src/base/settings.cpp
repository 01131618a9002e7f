// SPDX-License-Identifier: Apache-2.0
#include "base/settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/text.hpp"

namespace millstream::base {
namespace {

constexpr std::array<std::string_view, 5> log_levels{"debug", "info", "warning", "error", "off"};

/// Reads variables into the fields of a `settings` and notes those that cannot be read.
class reader {
 public:
  reader(settings& into, const char* (*look_up)(const char*)) : into_(into), look_up_(look_up) {}

  void text(const char* variable, std::string& value) {
    if (const std::string found = find(variable); !found.empty()) value = found;
  }
  void number(const char* variable, int least, int most, int& value) {
    const std::string found = find(variable);
    if (found.empty()) return;
    int parsed = 0;
    const auto [end, fault] = std::from_chars(found.data(), found.data() + found.size(), parsed);
    const bool whole = fault == std::errc{} && end == found.data() + found.size();
    if (whole && parsed >= least && parsed <= most) {
      value = parsed;
    } else {
      note(variable, found, cat("a whole number from ", least, " to ", most));
    }
  }
  void bytes(const char* variable, std::size_t& value) {
    const std::string found = find(variable);
    if (found.empty() || parse_bytes(found, value)) return;
    note(variable, found, "a number of bytes above 0, such as 268435456, 256M or 1.5G");
  }
  template <class Words>
  void word(const char* variable, const Words& allowed, const char* allowed_text,
            std::string& value) {
    const std::string found = find(variable);
    if (found.empty()) return;
    if (std::find(allowed.begin(), allowed.end(), found) != allowed.end()) {
      value = found;
    } else {
      note(variable, found, allowed_text);
    }
  }

 private:
  std::string find(const char* variable) {
    const char* found = look_up_(variable);
    return found == nullptr ? std::string() : std::string(found);
  }
  void note(const char* variable, const std::string& found, std::string_view allowed) {
    into_.problems[variable] =
        cat("variable ", quoted(variable), " is ", quoted(found), "; set ", allowed);
  }

  settings& into_;
  const char* (*look_up_)(const char*);
};

}  // namespace

std::string settings::problem_with(std::string_view variable) const {
  const auto found = problems.find(variable);
  return found == problems.end() ? std::string() : found->second;
}

settings read_settings(const char* (*look_up)(const char* variable)) {
  settings read;
  reader from(read, look_up);
  from.text("MILLSTREAM_MACHINE", read.machine);
  from.number("MILLSTREAM_HOST_DEVICES", 1, 64, read.host_devices);
  from.bytes("MILLSTREAM_HOST_MEMORY", read.host_memory_bytes);
  from.word("MILLSTREAM_LOG", log_levels, "debug, info, warning, error or off", read.log_level);
  from.text("MILLSTREAM_CUDA_DRIVER", read.cuda_driver);
  from.number("MILLSTREAM_CHECK_BODIES", 0, 1, read.check_bodies);
  return read;
}

const settings& environment() {
  // Never destroyed: contexts may be closed while statics are being destroyed.
  static const auto* const process = new settings(
      read_settings([](const char* variable) -> const char* { return std::getenv(variable); }));
  return *process;
}

bool parse_bytes(std::string_view text, std::size_t& bytes) noexcept {
  constexpr std::string_view suffixes = "KMGT";
  double unit = 1.0;
  const std::size_t suffix = text.empty() ? text.npos : suffixes.find(text.back());
  if (suffix != text.npos) {
    for (std::size_t i = 0; i <= suffix; ++i)
      unit *= 1024.0;
    text.remove_suffix(1);
  }
  double number = 0.0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc{} || end != text.data() + text.size()) return false;
  const double product = number * unit;
  // 2^63: beyond every address space, and exact as a double.
  if (!(product >= 1.0 && product < 9223372036854775808.0)) return false;
  bytes = static_cast<std::size_t>(product);
  return true;
}

}  // namespace millstream::base
