// SPDX-License-Identifier: Apache-2.0
#include "backend/block.hpp"

namespace millstream::backend {
namespace {

using strides = std::array<std::ptrdiff_t, max_block_rank>;

std::ptrdiff_t stride_of(const copy_request& request, const strides& of,
                         std::uint32_t axis) noexcept {
  return axis + 1 == request.rank ? 1 : of[axis];
}

/// Whether a step along the axis goes just past the end of the next inner one.
bool is_gap_free(const copy_request& request, const strides& of, std::uint32_t axis) noexcept {
  const auto inner = static_cast<std::ptrdiff_t>(request.extents[axis + 1]);
  return of[axis] == inner * stride_of(request, of, axis + 1);
}

void erase_axis(copy_request& request, std::uint32_t axis) noexcept {
  for (std::uint32_t i = axis; i + 1 < request.rank; ++i) {
    request.extents[i] = request.extents[i + 1];
    request.to_strides[i] = request.to_strides[i + 1];
    request.from_strides[i] = request.from_strides[i + 1];
  }
  --request.rank;
}

}  // namespace

copy_request joined(copy_request request) noexcept {
  for (std::uint32_t axis = request.rank - 1; axis-- > 0;) {
    const bool joins =
        request.extents[axis] == 1 || (is_gap_free(request, request.to_strides, axis) &&
                                       is_gap_free(request, request.from_strides, axis));
    if (!joins) continue;
    request.extents[axis + 1] *= request.extents[axis];
    erase_axis(request, axis);
  }
  return request;
}

copy_request slice(copy_request request, std::size_t at, std::size_t count) noexcept {
  const auto steps = static_cast<std::ptrdiff_t>(at);
  request.to =
      static_cast<std::byte*>(request.to) + steps * stride_of(request, request.to_strides, 0);
  request.from = static_cast<const std::byte*>(request.from) +
                 steps * stride_of(request, request.from_strides, 0);
  request.extents[0] = count;
  if (count == 1 && request.rank > 1) erase_axis(request, 0);
  return request;
}

std::array<std::ptrdiff_t, max_block_rank> packed_strides(const copy_request& request) noexcept {
  strides packed{};
  auto bytes = static_cast<std::ptrdiff_t>(request.extents[request.rank - 1]);
  for (std::uint32_t axis = request.rank - 1; axis-- > 0;) {
    packed[axis] = bytes;
    bytes *= static_cast<std::ptrdiff_t>(request.extents[axis]);
  }
  return packed;
}

}  // namespace millstream::backend
