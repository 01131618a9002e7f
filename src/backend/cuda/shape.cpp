// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/shape.hpp"

#include <cstring>

namespace millstream::backend::cuda {
namespace {

// The driver's limit for the distance of rows (CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device).
constexpr std::ptrdiff_t max_pitch = 0x7fffffff;

bool is_pitch(std::ptrdiff_t stride, std::size_t row_bytes) noexcept {
  return stride > 0 && stride <= max_pitch && static_cast<std::size_t>(stride) >= row_bytes;
}

/// Planes are a whole number of rows apart, and do not overlap.
bool is_plane_stride(std::ptrdiff_t stride, std::ptrdiff_t pitch, std::size_t rows) noexcept {
  return stride > 0 && stride % pitch == 0 && static_cast<std::size_t>(stride / pitch) >= rows;
}

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

std::size_t unit_of(const fill_request& what, std::size_t period) noexcept {
  const std::size_t both = period | address_of(what.to);
  return both % 4 == 0 ? 4 : both % 2 == 0 ? 2 : 1;
}

/// A contiguous block as one row. A block that is longer than a pitch may be has none, which the
/// driver does not look at for one row.
copy_request as_row(const copy_request& block) noexcept {
  copy_request row = block;
  row.rank = 2;
  row.extents = {1, block.extents[0]};
  const auto bytes = static_cast<std::ptrdiff_t>(block.extents[0]);
  const std::ptrdiff_t pitch = bytes <= max_pitch ? bytes : 0;
  row.to_strides = {pitch};
  row.from_strides = {pitch};
  return row;
}

}  // namespace

result<device_pair> pair_of(machine_state& machine, const copy_request& what,
                            const std::string& who) {
  const int to = static_cast<int>(what.to_home);
  const int from = static_cast<int>(what.from_home);
  if (to < 0 || from < 0 || to == from) return device_pair{};
  auto to_device = device_of(machine, to, who);
  if (!to_device) return to_device.take_status();
  auto from_device = device_of(machine, from, who);
  if (!from_device) return from_device.take_status();
  const device_pair pair{to_device.value(), from_device.value()};
  static_cast<void>(pair.to->reach(*pair.from));
  static_cast<void>(pair.from->reach(*pair.to));
  return pair;
}

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

abi::copy_3d describe_block(const copy_request& what, const device_pair& pair) noexcept {
  auto block = describe_planes<abi::copy_3d>(what.rank == 1 ? as_row(what) : what);
  if (pair.to != nullptr) {
    block.to_type = abi::memory_type::unified;
    block.from_type = abi::memory_type::unified;
  }
  return block;
}

fill_shape shape_of(const fill_request& what) noexcept {
  constexpr std::size_t first_rows = 1024;
  fill_shape shape;
  shape.period = period_of(what);
  shape.unit = unit_of(what, shape.period);
  shape.rows = std::min(what.bytes / shape.period, first_rows);
  return shape;
}

std::uint32_t word_at(const fill_request& what, const fill_shape& shape, std::size_t at) noexcept {
  std::uint32_t word = 0;  // the machine is little-endian, as the driver is
  std::memcpy(&word, what.pattern.data() + at, shape.unit);
  return word;
}

}  // namespace millstream::backend::cuda
