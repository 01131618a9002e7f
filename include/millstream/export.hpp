// SPDX-License-Identifier: Apache-2.0
/// Symbol visibility. Everything is hidden unless marked with MILLSTREAM_API.
#pragma once

#if defined(MILLSTREAM_SHARED)
#define MILLSTREAM_API __attribute__((visibility("default")))
#else
#define MILLSTREAM_API
#endif
