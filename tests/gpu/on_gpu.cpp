// SPDX-License-Identifier: Apache-2.0
/// Runs a program on the real CUDA driver.
///
///   millstream_on_gpu [--devices=N] [--check=memcheck|racecheck] [PROGRAM ARGUMENT...]
///
/// Ends with 77, "not available here", where there is no driver, no compute-sanitizer that
/// `--check` needs, or less than N devices (1). Without a program it only says what is there.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "base/dynamic_library.hpp"

namespace {

constexpr int not_available = 77;
constexpr int wrong_usage = 2;
constexpr const char* driver_name = "libcuda.so.1";
constexpr const char* checker_name = "compute-sanitizer";

struct arguments {
  int devices = 1;
  std::string check;
  std::vector<char*> program;
};

arguments parse(int count, char** given) {
  arguments result;
  int i = 1;
  for (; i < count && std::string_view(given[i]).starts_with("--"); ++i) {
    const std::string_view one = given[i];
    constexpr std::string_view devices = "--devices=";
    constexpr std::string_view check = "--check=";
    if (one.starts_with(devices)) {
      result.devices = std::stoi(std::string(one.substr(devices.size())));
    } else if (one.starts_with(check)) {
      result.check = one.substr(check.size());
    } else {
      std::fprintf(stderr, "'%s' is unknown; see the head of tests/gpu/on_gpu.cpp\n", given[i]);
      std::exit(wrong_usage);
    }
  }
  for (; i < count; ++i)
    result.program.push_back(given[i]);
  return result;
}

template <class... Arguments>
std::uint32_t call(const millstream::base::dynamic_library& in, const char* name,
                   Arguments... with) {
  auto* const found = reinterpret_cast<std::uint32_t (*)(Arguments...)>(in.find(name));
  return found == nullptr ? 1 : found(with...);
}

/// Prints what is there, or why nothing is.
int count_devices() {
  std::string why;
  const auto library = millstream::base::dynamic_library::open(driver_name, why);
  if (!library) {
    std::printf("skipped: there is no %s (%s)\n", driver_name, why.c_str());
    return 0;
  }
  const std::uint32_t begun = call(library, "cuInit", 0U);
  int count = 0;
  if (begun != 0 || call(library, "cuDeviceGetCount", &count) != 0 || count == 0) {
    std::printf("skipped: %s answers %u and shows %d devices\n", driver_name, begun, count);
    return 0;
  }
  int version = 0;
  call(library, "cuDriverGetVersion", &version);
  std::array<char, 200> name{};
  call(library, "cuDeviceGetName", name.data(), static_cast<int>(name.size()), 0);
  std::printf("on %d x %s, driver for CUDA %d.%d\n", count, name.data(), version / 1000,
              version % 1000 / 10);
  return count;
}

/// By the search path.
bool is_program(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string file = std::string(rest.substr(0, end)) + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return true;
    rest = end == rest.npos ? std::string_view{} : rest.substr(end + 1);
  }
  return false;
}

std::vector<std::string> checker(const std::string& tool) {
  std::vector<std::string> command{checker_name, "--tool", tool, "--error-exitcode", "1"};
  // Calls that must fail are part of the tests.
  if (tool == "memcheck") command.insert(command.end(), {"--report-api-errors", "no"});
  return command;
}

int run(const arguments& given) {
  const int there = count_devices();
  if (there < given.devices) {
    if (there > 0) std::printf("skipped: %d devices are needed\n", given.devices);
    return not_available;
  }
  if (given.program.empty()) return 0;
  std::vector<std::string> checked;
  if (!given.check.empty()) {
    if (!is_program(checker_name)) {
      std::printf("skipped: there is no %s on PATH\n", checker_name);
      return not_available;
    }
    checked = checker(given.check);
  }
  setenv("MILLSTREAM_CUDA_DRIVER", driver_name, 1);
  std::vector<char*> command;
  for (std::string& word : checked)
    command.push_back(word.data());
  command.insert(command.end(), given.program.begin(), given.program.end());
  command.push_back(nullptr);
  std::fflush(stdout);
  execvp(command.front(), command.data());
  std::perror(command.front());
  return 1;
}

}  // namespace

int main(int count, char** given) {
  try {
    return run(parse(count, given));
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "%s\n", wrong.what());
    return wrong_usage;
  }
}
