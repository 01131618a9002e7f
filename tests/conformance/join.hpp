// SPDX-License-Identifier: Apache-2.0
/// How a backend takes part in the conformance suite: one small file defines one `joined`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/machine.hpp"

namespace conformance {

namespace backend = millstream::backend;
using backend::capability;

/// A promise that the backend can never keep, and why. "suite.Name".
struct never {
  std::string promise;
  std::string reason;
};

/// A promise that the backend does not keep yet. It is run, and keeping it is a failure: the line
/// must then go.
struct not_yet {
  std::string promise;
  int issue;
};

struct join {
  std::string name;
  backend::machine_result (*open)(const backend::open_options& options);
  backend::capability_set bits;  ///< exactly these, nothing more or less
  std::vector<never> never_list;
  std::vector<not_yet> not_yet_list;
  /// Promises that hold in any order but not under a seed, where the backend runs one operation at
  /// a time.
  std::vector<never> never_seeded;
};

/// A static object of this type in a file of its own makes the backend known.
class joined {
 public:
  explicit joined(join with);
  [[nodiscard]] static const join* find(const std::string& name);
};

}  // namespace conformance
