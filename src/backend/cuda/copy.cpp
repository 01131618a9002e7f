// SPDX-License-Identifier: Apache-2.0
/// Copies and fills on streams.
#include "backend/cuda/shape.hpp"
#include "backend/cuda/stream.hpp"

namespace millstream::backend::cuda {
namespace {

abi::result copy_row(const driver& api, abi::stream on, const copy_request& what,
                     const device_pair& pair) noexcept {
  const std::size_t bytes = what.extents[0];
  const abi::device_pointer to = address_of(what.to);
  const abi::device_pointer from = address_of(what.from);
  if (pair.to != nullptr) {
    return api->cuMemcpyPeerAsync(to, pair.to->context(), from, pair.from->context(), bytes, on);
  }
  const bool to_device = static_cast<int>(what.to_home) >= 0;
  const bool from_device = static_cast<int>(what.from_home) >= 0;
  if (to_device && from_device) return api->cuMemcpyDtoDAsync(to, from, bytes, on);
  if (to_device && what.from_home == memory_home::host) {
    return api->cuMemcpyHtoDAsync(to, what.from, bytes, on);
  }
  if (from_device && what.to_home == memory_home::host) {
    return api->cuMemcpyDtoHAsync(what.to, from, bytes, on);
  }
  return api->cuMemcpyAsync(to, from, bytes, on);
}

abi::result copy_shape(const driver& api, abi::stream on, const copy_request& what,
                       const device_pair& pair) noexcept {
  if (what.rank == 1) return copy_row(api, on, what, pair);
  if (pair.to != nullptr) {
    auto planes = describe_planes<abi::copy_3d_peer>(what);
    planes.to_context = pair.to->context();
    planes.from_context = pair.from->context();
    return api->cuMemcpy3DPeerAsync(&planes, on);
  }
  if (what.rank == 2) {
    const auto rows = describe_rows<abi::copy_2d>(what);
    return api->cuMemcpy2DAsync(&rows, on);
  }
  const auto planes = describe_planes<abi::copy_3d>(what);
  return api->cuMemcpy3DAsync(&planes, on);
}

/// Sets one column of words in rows of a period.
abi::result fill_column(const driver& api, abi::stream on, const fill_request& what,
                        const fill_shape& shape, std::size_t at) noexcept {
  const abi::device_pointer to = address_of(what.to) + at;
  const std::uint32_t word = word_at(what, shape, at);
  if (shape.unit == 4) {
    return api->cuMemsetD2D32Async(to, shape.period, word, 1, shape.rows, on);
  }
  if (shape.unit == 2) {
    return api->cuMemsetD2D16Async(to, shape.period, static_cast<std::uint16_t>(word), 1,
                                   shape.rows, on);
  }
  return api->cuMemsetD2D8Async(to, shape.period, static_cast<unsigned char>(word), 1, shape.rows,
                                on);
}

/// One call for a pattern that is one word of the driver.
abi::result fill_words(const driver& api, abi::stream on, const fill_request& what,
                       const fill_shape& shape) noexcept {
  const abi::device_pointer to = address_of(what.to);
  const std::size_t count = what.bytes / shape.unit;
  const std::uint32_t word = word_at(what, shape, 0);
  if (shape.unit == 4) return api->cuMemsetD32Async(to, word, count, on);
  if (shape.unit == 2) {
    return api->cuMemsetD16Async(to, static_cast<std::uint16_t>(word), count, on);
  }
  return api->cuMemsetD8Async(to, static_cast<unsigned char>(word), count, on);
}

/// No device code is needed, and every step may be captured.
abi::result fill_pattern(const driver& api, abi::stream on, const fill_request& what,
                         const fill_shape& shape) noexcept {
  for (std::size_t at = 0; at < shape.period; at += shape.unit) {
    const abi::result answer = fill_column(api, on, what, shape, at);
    if (answer != abi::result::success) return answer;
  }
  const abi::device_pointer to = address_of(what.to);
  return for_each_doubling(what, shape, [&](std::size_t done, std::size_t more) {
    return api->cuMemcpyDtoDAsync(to + done, to, more, on);
  });
}

}  // namespace

status stream::copy_by_driver(const copy_request& request) {
  auto pair = pair_of(on.machine(), request, on.who());
  if (!pair) return pair.take_status();
  const context_guard in(on.api(), on.context());
  return on.check("queue a copy",
                  for_each_driver_shape(joined(request), [&](const copy_request& part) {
                    return copy_shape(on.api(), raw, part, pair.value());
                  }));
}

status stream::fill_device(const fill_request& request) {
  const fill_shape shape = shape_of(request);
  const context_guard in(on.api(), on.context());
  return on.check("queue a fill", shape.is_word() ? fill_words(on.api(), raw, request, shape)
                                                  : fill_pattern(on.api(), raw, request, shape));
}

}  // namespace millstream::backend::cuda
