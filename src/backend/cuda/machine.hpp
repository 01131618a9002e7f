// SPDX-License-Identifier: Apache-2.0
/// The CUDA machine: the GPUs of this computer through the driver, found at run time.
#pragma once

#include <string>

#include "backend/machine.hpp"

namespace millstream::backend::cuda {

/// Loads the driver named by MILLSTREAM_CUDA_DRIVER, else `libcuda.so.1`. Nothing of it is touched
/// before. `options.devices` of 0 means all GPUs that the driver shows, else the first so many.
/// Opens the caller's current device, or device 0; the others are opened at their first use. A seed
/// has no effect: a GPU takes the order that it takes.
/// `unavailable`, with what was tried, without a driver, with one older than 12.0, without enough
/// devices, and where that device does not open.
[[nodiscard]] machine_result open(const open_options& options);
[[nodiscard]] machine_result open_with(const open_options& options, const std::string& library);

}  // namespace millstream::backend::cuda
