// SPDX-License-Identifier: Apache-2.0
/// Copies and fills in the driver's shapes.
#include <algorithm>
#include <cstring>

#include "backend/block.hpp"
#include "backend/cuda/state.hpp"
#include "backend/cuda/stream.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {
namespace {

// The driver's limit for the distance of rows (CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device).
constexpr std::ptrdiff_t max_pitch = 0x7fffffff;

abi::device_pointer address_of(const void* pointer) noexcept {
  return reinterpret_cast<abi::device_pointer>(pointer);
}

bool is_pitch(std::ptrdiff_t stride, std::size_t row_bytes) noexcept {
  return stride > 0 && stride <= max_pitch && static_cast<std::size_t>(stride) >= row_bytes;
}

/// Planes are a whole number of rows apart, and do not overlap.
bool is_plane_stride(std::ptrdiff_t stride, std::ptrdiff_t pitch, std::size_t rows) noexcept {
  return stride > 0 && stride % pitch == 0 && static_cast<std::size_t>(stride / pitch) >= rows;
}

/// Whether one call of the driver can do it.
bool is_driver_shape(const copy_request& what) noexcept {
  if (what.rank == 1) return true;
  if (what.rank > 3) return false;
  const std::uint32_t rows = what.rank - 2;
  const std::size_t row_bytes = what.extents[rows + 1];
  for (const auto* strides : {&what.to_strides, &what.from_strides}) {
    if (!is_pitch((*strides)[rows], row_bytes)) return false;
    if (what.rank == 3 && !is_plane_stride((*strides)[0], (*strides)[1], what.extents[1])) {
      return false;
    }
  }
  return true;
}

abi::memory_type type_of(memory_home home) noexcept {
  if (home == memory_home::host) return abi::memory_type::on_host;
  return home == memory_home::managed ? abi::memory_type::unified : abi::memory_type::on_device;
}

/// Fills in what the driver's three descriptions have in common.
template <class Description>
Description describe(const copy_request& what) noexcept {
  const std::uint32_t rows = what.rank - 2;
  Description made{};
  made.from_type = type_of(what.from_home);
  made.from_host = what.from;
  made.from_device = address_of(what.from);
  made.from_pitch = static_cast<std::size_t>(what.from_strides[rows]);
  made.to_type = type_of(what.to_home);
  made.to_host = what.to;
  made.to_device = address_of(what.to);
  made.to_pitch = static_cast<std::size_t>(what.to_strides[rows]);
  made.width_bytes = what.extents[rows + 1];
  made.height = what.extents[rows];
  return made;
}

template <class Description>
Description describe_planes(const copy_request& what) noexcept {
  auto made = describe<Description>(what);
  made.depth = what.rank == 3 ? what.extents[0] : 1;
  if (what.rank == 3) {
    made.from_height = static_cast<std::size_t>(what.from_strides[0] / what.from_strides[1]);
    made.to_height = static_cast<std::size_t>(what.to_strides[0] / what.to_strides[1]);
  }
  return made;
}

/// The two devices of a copy between different ones; null otherwise.
struct device_pair {
  device_state* to = nullptr;
  device_state* from = nullptr;
};

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
    const auto rows = describe<abi::copy_2d>(what);
    return api->cuMemcpy2DAsync(&rows, on);
  }
  const auto planes = describe_planes<abi::copy_3d>(what);
  return api->cuMemcpy3DAsync(&planes, on);
}

abi::result copy_shapes(const driver& api, abi::stream on, const copy_request& what,
                        const device_pair& pair) noexcept {
  if (is_driver_shape(what)) return copy_shape(api, on, what, pair);
  for (std::size_t at = 0; at < what.extents[0]; ++at) {
    const abi::result answer = copy_shapes(api, on, slice(what, at, 1), pair);
    if (answer != abi::result::success) return answer;
  }
  return abi::result::success;
}

/// The smallest pattern that repeats to the given one.
std::size_t period_of(const fill_request& what) noexcept {
  const std::size_t bytes = what.pattern_bytes;
  for (std::size_t period = 1; period < bytes; ++period) {
    if (bytes % period != 0) continue;
    if (std::memcmp(what.pattern.data(), what.pattern.data() + period, bytes - period) == 0) {
      return period;
    }
  }
  return bytes;
}

template <class Word>
Word word_at(const fill_request& what, std::size_t at) noexcept {
  Word word{};
  std::memcpy(&word, what.pattern.data() + at, sizeof word);
  return word;
}

/// Sets one column of words of `unit` bytes in rows of `period` bytes.
abi::result fill_column(const driver& api, abi::stream on, const fill_request& what,
                        std::size_t unit, std::size_t period, std::size_t at,
                        std::size_t rows) noexcept {
  const abi::device_pointer to = address_of(what.to) + at;
  if (unit == 4) {
    return api->cuMemsetD2D32Async(to, period, word_at<std::uint32_t>(what, at), 1, rows, on);
  }
  if (unit == 2) {
    return api->cuMemsetD2D16Async(to, period, word_at<std::uint16_t>(what, at), 1, rows, on);
  }
  return api->cuMemsetD2D8Async(to, period, word_at<unsigned char>(what, at), 1, rows, on);
}

/// One call for a pattern that is one word of the driver.
abi::result fill_words(const driver& api, abi::stream on, const fill_request& what,
                       std::size_t unit) noexcept {
  const abi::device_pointer to = address_of(what.to);
  const std::size_t count = what.bytes / unit;
  if (unit == 4) return api->cuMemsetD32Async(to, word_at<std::uint32_t>(what, 0), count, on);
  if (unit == 2) return api->cuMemsetD16Async(to, word_at<std::uint16_t>(what, 0), count, on);
  return api->cuMemsetD8Async(to, word_at<unsigned char>(what, 0), count, on);
}

std::size_t unit_of(const fill_request& what, std::size_t period) noexcept {
  const std::size_t both = period | address_of(what.to);
  return both % 4 == 0 ? 4 : both % 2 == 0 ? 2 : 1;
}

/// Longer patterns: a few rows column by column, then each copy doubles what is there. No device
/// code is needed, and every step may be captured.
abi::result fill_pattern(const driver& api, abi::stream on, const fill_request& what,
                         std::size_t unit, std::size_t period) noexcept {
  constexpr std::size_t first_rows = 1024;
  const std::size_t rows = std::min(what.bytes / period, first_rows);
  for (std::size_t at = 0; at < period; at += unit) {
    const abi::result answer = fill_column(api, on, what, unit, period, at, rows);
    if (answer != abi::result::success) return answer;
  }
  const abi::device_pointer to = address_of(what.to);
  for (std::size_t done = rows * period; done < what.bytes;) {
    const std::size_t more = std::min(done, what.bytes - done);
    const abi::result answer = api->cuMemcpyDtoDAsync(to + done, to, more, on);
    if (answer != abi::result::success) return answer;
    done += more;
  }
  return abi::result::success;
}

}  // namespace

status stream::copy_by_driver(const copy_request& request) {
  device_pair pair;
  const int to = static_cast<int>(request.to_home);
  const int from = static_cast<int>(request.from_home);
  if (to >= 0 && from >= 0 && to != from) {
    auto to_device = device_of(on.machine(), to, on.who());
    if (!to_device) return to_device.take_status();
    auto from_device = device_of(on.machine(), from, on.who());
    if (!from_device) return from_device.take_status();
    pair = {to_device.value(), from_device.value()};
    // Without it the driver goes through host memory, which is right too.
    static_cast<void>(pair.to->reach(*pair.from));
    static_cast<void>(pair.from->reach(*pair.to));
  }
  const context_guard in(on.api(), on.context());
  return on.check("queue a copy", copy_shapes(on.api(), raw, joined(request), pair));
}

status stream::fill_device(const fill_request& request) {
  const std::size_t period = period_of(request);
  const std::size_t unit = unit_of(request, period);
  const context_guard in(on.api(), on.context());
  return on.check("queue a fill", period == unit
                                      ? fill_words(on.api(), raw, request, unit)
                                      : fill_pattern(on.api(), raw, request, unit, period));
}

}  // namespace millstream::backend::cuda
