// SPDX-License-Identifier: Apache-2.0
/// Counts the heap allocations of a thread.
#pragma once

#include <cstdint>

namespace millstream::test {

/// Calls of any `operator new` by this thread since it began. The replacement lives in
/// heap_meter.cpp, so it is in effect in the whole test program.
[[nodiscard]] std::uint64_t heap_allocations() noexcept;

/// Pools hand every request on to the heap there, so that lifetimes are checked.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool pools_are_off = true;
#else
inline constexpr bool pools_are_off = false;
#endif

}  // namespace millstream::test
