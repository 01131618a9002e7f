// SPDX-License-Identifier: Apache-2.0
/// What the driver poses as, and which calls shall fail. Read from the environment at the first
/// use and at a reset; README.md lists the variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/fakes/cuda_driver/rows.hpp"

namespace fake_cuda {

struct planned_fault {
  std::string name;        // empty = any entry point that does something
  std::uint64_t left = 0;  // fires when this reaches 0
  result answer = result::unknown;
  bool sticky = false;
};

struct settings {
  int devices = 2;
  int version = 13000;
  std::uint64_t seed = 0;
  std::size_t device_bytes = std::size_t{512} << 20U;
  std::size_t park_limit = 0;
  bool peers = true;
  bool background = true;
  int idle_ms = 50;       // 0 = never
  int refused_node = -1;  // a type; -1 = none
  result init_answer = result::success;
  std::set<std::string> hidden;
  std::map<std::uint32_t, int> attributes;
  std::vector<planned_fault> faults;
  std::string log_path;  // empty = no file

  [[nodiscard]] static settings from_environment();
};

}  // namespace fake_cuda
