// SPDX-License-Identifier: Apache-2.0
/// The rows this library serves: those of the product (`backend/cuda/driver.inc`) and a few more
/// (`extra.inc`). Each is implemented by the function of its name in namespace `served`, which gets
/// the call in progress before the driver's own arguments; a row without one does not link.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cuda/abi.hpp"

namespace fake_cuda {

// The driver's types are spoken of on every line of this library.
using namespace millstream::backend::cuda::abi;

/// The call in progress; see call.hpp.
struct call;

enum class row : std::uint16_t {
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters) name,
#include "backend/cuda/driver.inc"
#include "tests/fakes/cuda_driver/extra.inc"
#undef MILLSTREAM_CUDA_ROW
  count
};
inline constexpr std::size_t row_count = static_cast<std::size_t>(row::count);

template <class Signature>
struct with_call;
template <class... Arguments>
struct with_call<result(Arguments...)> {
  using type = result(call&, Arguments...);
};

namespace served {
#define MILLSTREAM_CUDA_ROW(name, version, need, parameters) \
  with_call<result parameters>::type name;
#include "backend/cuda/driver.inc"
#include "tests/fakes/cuda_driver/extra.inc"
#undef MILLSTREAM_CUDA_ROW
}  // namespace served

}  // namespace fake_cuda
