// SPDX-License-Identifier: Apache-2.0
/// All rows with what is known about them apart from their implementation.
#pragma once

#include <string_view>

#include "tests/fakes/cuda_driver/rows.hpp"

namespace fake_cuda {

struct row_info {
  row which = row::count;
  std::string_view name;
  int version = 0;
  void* address = nullptr;
  /// Forbidden to a thread while it captures, and to all threads while one captures in global
  /// mode: what such a call does could depend on work that is only being recorded.
  bool unsafe_in_capture = false;
};

[[nodiscard]] const row_info& info_of(row which) noexcept;
/// Null if there is no such name.
[[nodiscard]] const row_info* find_row(std::string_view name) noexcept;

/// What `cuGetProcAddress` does: null and `not_found` for what the driver does not have, does not
/// have yet in the version it poses as, or has only since a later version than the one asked for.
[[nodiscard]] result answer_proc_address(const char* name, void** address, int version,
                                         proc_address_answer* answer) noexcept;

}  // namespace fake_cuda
