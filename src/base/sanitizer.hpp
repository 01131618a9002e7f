// SPDX-License-Identifier: Apache-2.0
/// Which sanitizer this build has, and the marks it understands.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define MILLSTREAM_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MILLSTREAM_ADDRESS_SANITIZER 1
#endif
#endif

#if defined(__SANITIZE_THREAD__)
#define MILLSTREAM_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MILLSTREAM_THREAD_SANITIZER 1
#endif
#endif

#if defined(MILLSTREAM_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#endif

namespace millstream::base {

#if defined(MILLSTREAM_ADDRESS_SANITIZER)
inline constexpr bool address_sanitizer = true;
#else
inline constexpr bool address_sanitizer = false;
#endif

#if defined(MILLSTREAM_THREAD_SANITIZER)
inline constexpr bool thread_sanitizer = true;
#else
inline constexpr bool thread_sanitizer = false;
#endif

/// From now on touching the range is a reported error; nothing without the address sanitizer.
inline void forbid_access([[maybe_unused]] const void* block,
                          [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MILLSTREAM_ADDRESS_SANITIZER)
  __asan_poison_memory_region(block, bytes);
#endif
}

inline void allow_access([[maybe_unused]] const void* block,
                         [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(MILLSTREAM_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(block, bytes);
#endif
}

}  // namespace millstream::base
