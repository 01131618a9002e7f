// SPDX-License-Identifier: Apache-2.0
/// Copies and fills in the driver's shapes, for streams and for graphs. Requests were checked.
#pragma once

#include <algorithm>
#include <string>

#include "backend/block.hpp"
#include "backend/cuda/state.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::cuda {

[[nodiscard]] inline abi::device_pointer address_of(const void* pointer) noexcept {
  return reinterpret_cast<abi::device_pointer>(pointer);
}

/// The two devices of a copy between different ones; null otherwise.
struct device_pair {
  device_state* to = nullptr;
  device_state* from = nullptr;
};
/// Lets the two reach one another, where they can: else the driver goes through host memory.
[[nodiscard]] result<device_pair> pair_of(machine_state& machine, const copy_request& what,
                                          const std::string& who);

/// Whether one call, or one node, of the driver can do it.
[[nodiscard]] bool is_driver_shape(const copy_request& what) noexcept;
[[nodiscard]] abi::memory_type type_of(memory_home home) noexcept;

/// Fills in what the driver's three descriptions have in common. Of rank 2 or 3.
template <class Description>
[[nodiscard]] Description describe_rows(const copy_request& what) noexcept {
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
[[nodiscard]] Description describe_planes(const copy_request& what) noexcept {
  auto made = describe_rows<Description>(what);
  made.depth = what.rank == 3 ? what.extents[0] : 1;
  if (what.rank == 3) {
    made.from_height = static_cast<std::size_t>(what.from_strides[0] / what.from_strides[1]);
    made.to_height = static_cast<std::size_t>(what.to_strides[0] / what.to_strides[1]);
  }
  return made;
}

/// Of any driver shape; memory of two devices is named by its address alone.
[[nodiscard]] abi::copy_3d describe_block(const copy_request& what,
                                          const device_pair& pair) noexcept;

/// Calls `body` for copies of driver shapes, which together are the whole, until one is refused.
template <class Body>
[[nodiscard]] abi::result for_each_driver_shape(const copy_request& what, Body&& body) {
  if (is_driver_shape(what)) return body(what);
  for (std::size_t at = 0; at < what.extents[0]; ++at) {
    const abi::result answer = for_each_driver_shape(slice(what, at, 1), body);
    if (answer != abi::result::success) return answer;
  }
  return abi::result::success;
}

/// A pattern is filled by words of `unit` bytes. It is one word, or else a row of several, and rows
/// are set column by column.
struct fill_shape {
  std::size_t period = 1;  ///< the smallest pattern that repeats to the given one
  std::size_t unit = 1;    ///< 1, 2 or 4
  std::size_t rows = 0;    ///< that are set so; each copy after that doubles what is there

  [[nodiscard]] bool is_word() const noexcept { return period == unit; }
};
[[nodiscard]] fill_shape shape_of(const fill_request& what) noexcept;
[[nodiscard]] std::uint32_t word_at(const fill_request& what, const fill_shape& shape,
                                    std::size_t at) noexcept;

/// Calls `body` with how many bytes are there and how many to add, until one is refused.
template <class Body>
[[nodiscard]] abi::result for_each_doubling(const fill_request& what, const fill_shape& shape,
                                            Body&& body) {
  for (std::size_t done = shape.rows * shape.period; done < what.bytes;) {
    const std::size_t more = std::min(done, what.bytes - done);
    const abi::result answer = body(done, more);
    if (answer != abi::result::success) return answer;
    done += more;
  }
  return abi::result::success;
}

}  // namespace millstream::backend::cuda
