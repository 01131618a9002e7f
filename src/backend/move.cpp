// SPDX-License-Identifier: Apache-2.0
#include "backend/move.hpp"

#include <algorithm>
#include <cstring>

#include "backend/block.hpp"

namespace millstream::backend {
namespace {

template <std::uint32_t Axis>
void move_axis(const copy_request& request, std::byte* to, const std::byte* from) noexcept {
  if constexpr (Axis + 1 < max_block_rank) {
    if (Axis + 1 < request.rank) {
      for (std::size_t i = 0; i < request.extents[Axis]; ++i) {
        const auto step = static_cast<std::ptrdiff_t>(i);
        move_axis<Axis + 1>(request, to + step * request.to_strides[Axis],
                            from + step * request.from_strides[Axis]);
      }
      return;
    }
  }
  std::memcpy(to, from, request.extents[Axis]);
}

}  // namespace

void move_block(const copy_request& request) noexcept {
  if (request.bytes() == 0) return;
  move_axis<0>(joined(request), static_cast<std::byte*>(request.to),
               static_cast<const std::byte*>(request.from));
}

void fill_block(const fill_request& request) noexcept {
  if (request.bytes == 0) return;
  auto* to = static_cast<std::byte*>(request.to);
  std::memcpy(to, request.pattern.data(), request.pattern_bytes);
  // Each round doubles what is there: a few large copies instead of many small ones.
  for (std::size_t done = request.pattern_bytes; done < request.bytes;) {
    const std::size_t more = std::min(done, request.bytes - done);
    std::memcpy(to + done, to, more);
    done += more;
  }
}

}  // namespace millstream::backend
