// SPDX-License-Identifier: Apache-2.0
/// The CUDA driver, found at run time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backend/cuda/abi.hpp"
#include "backend/status.hpp"

namespace millstream::backend::cuda {
namespace abi {

/// The driver's functions by their names. Optional ones are null where the driver lacks them.
struct entry_points {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the name and the parameters of a declaration
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters) result(*name) parameters = nullptr;
#include "backend/cuda/driver.inc"
#undef MILLSTREAM_CUDA_ROW
};

}  // namespace abi

/// A loaded and initialised driver. Nothing changes after loading; any thread. The library stays
/// loaded until the process ends, because its threads and exit handlers may run at any time.
class driver {
 public:
  /// Opens the library, looks every row of `driver.inc` up at its own version and initialises the
  /// driver. `unavailable`, saying what was tried, if there is no library, the driver is older than
  /// 12.0, lacks a required function, or does not start. An empty path means `libcuda.so.1`.
  [[nodiscard]] static result<std::shared_ptr<const driver>> load(const std::string& path) noexcept;

  [[nodiscard]] const abi::entry_points* operator->() const noexcept { return &calls_; }
  /// 12030 = 12.3.
  [[nodiscard]] int version() const noexcept { return version_; }

  /// "out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)".
  [[nodiscard]] std::string describe(abi::result error) const;
  /// "<who> failed to <what>: <description>", with the code that fits the error.
  [[nodiscard]] status failed(std::string_view who, std::string_view what,
                              abi::result error) const noexcept;

 private:
  status look_up(void* get_address) noexcept;

  abi::entry_points calls_;
  std::string missing_;  // the first required function that is not there
  int version_ = 0;
};

/// Whether the context is of no use after this error: every later call in it answers the same.
[[nodiscard]] bool is_sticky(abi::result error) noexcept;

}  // namespace millstream::backend::cuda
