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

using executable_graph = struct executable_graph_object*;
enum class node_type : std::uint32_t {
  kernel = 0,
  copy = 1,
  fill = 2,
  host = 3,
  child = 4,
  empty = 5,
  wait_event = 6,
  record_event = 7,
  memory_allocation = 10,
  memory_free = 11,
  memory_words = 12,
};

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
