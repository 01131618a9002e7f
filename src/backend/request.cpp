// SPDX-License-Identifier: Apache-2.0
#include "backend/request.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backend/guarded.hpp"

namespace millstream::backend {
namespace {

using strides = std::array<std::ptrdiff_t, max_block_rank>;

status refuse(std::string_view who, std::string_view how) {
  return {errc::invalid_value, base::cat(who, ' ', how)};
}

/// Bytes below and above the start that a block reaches; false if they leave the address space.
struct reach {
  std::ptrdiff_t below = 0;
  std::ptrdiff_t above = 0;
};
bool add_axis(reach& so_far, std::size_t extent, std::ptrdiff_t stride) noexcept {
  if (extent > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max())) return false;
  std::ptrdiff_t last = 0;
  if (__builtin_mul_overflow(static_cast<std::ptrdiff_t>(extent) - 1, stride, &last)) return false;
  std::ptrdiff_t& end = last < 0 ? so_far.below : so_far.above;
  return !__builtin_add_overflow(end, last, &end);
}

bool span_of(const void* start, const copy_request& request, const strides& steps,
             byte_span& span) noexcept {
  reach reached;
  for (std::uint32_t axis = 0; axis + 1 < request.rank; ++axis) {
    if (!add_axis(reached, request.extents[axis], steps[axis])) return false;
  }
  const std::size_t row = request.extents[request.rank - 1];
  if (!add_axis(reached, row, 1) || __builtin_add_overflow(reached.above, 1, &reached.above)) {
    return false;
  }
  const auto base = reinterpret_cast<std::uintptr_t>(start);
  return !__builtin_sub_overflow(base, static_cast<std::uintptr_t>(-reached.below), &span.first) &&
         !__builtin_add_overflow(base, static_cast<std::uintptr_t>(reached.above), &span.past);
}

/// Whether two blocks of the same extents and strides, `apart` bytes from one another, share a
/// byte, looking at `axis` and those inside it. Per axis only few index differences bring the inner
/// parts close enough; where there are many, the strides are not nested and the answer is yes to be
/// on the safe side.
bool share_a_byte(const copy_request& request, std::uint32_t axis, std::ptrdiff_t apart) noexcept {
  constexpr std::ptrdiff_t most_tries = 8;
  const auto extent = static_cast<std::ptrdiff_t>(request.extents[axis]);
  if (axis + 1 == request.rank) return std::abs(apart) < extent;
  const std::ptrdiff_t step = std::abs(request.to_strides[axis]);
  if (step == 0) return share_a_byte(request, axis + 1, apart);
  std::ptrdiff_t inner = static_cast<std::ptrdiff_t>(request.extents[request.rank - 1]);
  for (std::uint32_t i = axis + 1; i + 1 < request.rank; ++i) {
    inner +=
        (static_cast<std::ptrdiff_t>(request.extents[i]) - 1) * std::abs(request.to_strides[i]);
  }
  const std::ptrdiff_t first = std::max((apart - inner) / step - 1, 1 - extent);
  const std::ptrdiff_t last = std::min((apart + inner) / step + 1, extent - 1);
  if (last - first > most_tries) return true;
  for (std::ptrdiff_t k = first; k <= last; ++k) {
    if (share_a_byte(request, axis + 1, apart - k * step)) return true;
  }
  return false;
}

bool overlap(const copy_request& request, const copy_spans& spans) noexcept {
  if (!spans.to.meets(spans.from)) return false;
  const auto steps_end = static_cast<std::ptrdiff_t>(request.rank) - 1;
  if (!std::equal(request.to_strides.begin(), request.to_strides.begin() + steps_end,
                  request.from_strides.begin())) {
    return true;  // interleaved blocks of different strides: not worth an exact answer
  }
  // The spans meet, so the distance is below the size of one of them.
  const auto apart = static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(request.to) -
                                                 reinterpret_cast<std::uintptr_t>(request.from));
  return share_a_byte(request, 0, apart);
}

}  // namespace

result<copy_spans> check_copy(const copy_request& request, std::string_view who) noexcept {
  return guarded(who, [&]() -> result<copy_spans> {
    if (request.rank < 1 || request.rank > max_block_rank) {
      return refuse(who, base::cat("cannot copy a block of rank ", request.rank, "; use 1 to 4"));
    }
    copy_spans spans;
    const auto* extents_end = request.extents.data() + request.rank;
    if (std::find(request.extents.data(), extents_end, 0U) != extents_end) return spans;
    if (request.to == nullptr || request.from == nullptr) {
      return refuse(who, "cannot copy from or to null; give both addresses");
    }
    if (!span_of(request.to, request, request.to_strides, spans.to) ||
        !span_of(request.from, request, request.from_strides, spans.from)) {
      return refuse(who, "cannot copy a block beyond the end of memory; check extents and strides");
    }
    if (overlap(request, spans)) {
      return refuse(who, "cannot copy between overlapping blocks; copy through a block of its own");
    }
    return spans;
  });
}

result<byte_span> check_fill(const fill_request& request, std::string_view who) noexcept {
  return guarded(who, [&]() -> result<byte_span> {
    const std::size_t pattern = request.pattern_bytes;
    if (pattern < 1 || pattern > request.pattern.size()) {
      return refuse(who, base::cat("cannot fill with a pattern of ", pattern, " bytes; use 1 to ",
                                   request.pattern.size()));
    }
    if (request.bytes % pattern != 0) {
      return refuse(who, base::cat("cannot fill ", request.bytes, " bytes with a pattern of ",
                                   pattern, "; fill a multiple of the pattern"));
    }
    if (request.bytes == 0) return byte_span{};
    byte_span span{reinterpret_cast<std::uintptr_t>(request.to), 0};
    if (request.to == nullptr || __builtin_add_overflow(span.first, request.bytes, &span.past)) {
      return refuse(who, "cannot fill memory that is not there; check address and size");
    }
    return span;
  });
}

}  // namespace millstream::backend
