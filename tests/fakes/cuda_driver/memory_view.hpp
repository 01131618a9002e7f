// SPDX-License-Identifier: Apache-2.0
/// How the work of one context sees memory: which blocks it may touch, and where their bytes are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/fakes/cuda_driver/state.hpp"

namespace fake_cuda {

class memory_view {
 public:
  memory_view(state& all, context_ptr seen_from) : all_(&all), seen_from_(std::move(seen_from)) {}

  /// For calls: the whole range is memory of the driver that nobody has asked to free, and the
  /// context may touch it. Whether it exists yet is found when the work runs.
  [[nodiscard]] bool may_name(device_pointer where, std::size_t bytes, access_flags how) const;
  /// For running work: as above, and the memory exists at this point of the order.
  [[nodiscard]] bool can_reach(device_pointer where, std::size_t bytes, access_flags how) const;
  /// The bytes behind an address; `bytes` is made smaller where they do not lie in one piece.
  /// Throws `device_fault`.
  [[nodiscard]] std::byte* touch(device_pointer where, std::size_t& bytes, access_flags how) const;

 private:
  template <class Check>
  [[nodiscard]] bool all_blocks(device_pointer where, std::size_t bytes, Check check) const;
  [[nodiscard]] bool allows(const block& what, access_flags how) const;

  state* all_;
  context_ptr seen_from_;
};

/// "0x7f.. (12 bytes)".
[[nodiscard]] std::string describe(device_pointer where, std::size_t bytes);

}  // namespace fake_cuda
