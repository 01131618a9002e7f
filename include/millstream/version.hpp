// SPDX-License-Identifier: Apache-2.0
/// Version of the library; the one place it is written (the build and the wheel read it here).
#pragma once

#define MILLSTREAM_VERSION_MAJOR 0
#define MILLSTREAM_VERSION_MINOR 1
#define MILLSTREAM_VERSION_PATCH 0
#define MILLSTREAM_VERSION "0.1.0"
