// SPDX-License-Identifier: Apache-2.0
// Fills with elements of 1, 2 or 4 bytes.
#include <algorithm>
#include <cstring>

#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/graph.hpp"
#include "tests/fakes/cuda_driver/memory_view.hpp"

namespace fake_cuda {

namespace {

template <class Element>
void fill_row(const memory_view& seen, std::uint64_t to, Element value, std::size_t count) {
  std::size_t left = count * sizeof(Element);
  while (left > 0) {
    std::size_t bytes = left;
    std::byte* const target = seen.touch(to, bytes, access_flags::read_write);
    for (std::size_t i = 0; i + sizeof(Element) <= bytes; i += sizeof(Element))
      std::memcpy(target + i, &value, sizeof(Element));
    to += bytes;
    left -= bytes;
  }
}

struct fill_area {
  device_pointer to;
  std::size_t pitch;
  std::size_t width;
  std::size_t height;
};

template <class Element>
op_factory check_fill(call& in, const fill_area& area, Element value, const context_ptr& owner) {
  require(area.to % sizeof(Element) == 0 && area.pitch % sizeof(Element) == 0);
  require(area.height == 1 || area.pitch >= area.width * sizeof(Element));
  const memory_view seen(in.all, owner);
  require(seen.may_name(area.to, (area.height - 1) * area.pitch + area.width * sizeof(Element),
                        access_flags::read_write));
  return [=] {
    return make_operation("fill", owner, [=] {
      for (std::size_t y = 0; y < area.height; ++y)
        fill_row(seen, area.to + y * area.pitch, value, area.width);
      return turn::done;
    });
  };
}

template <class Element>
result fill(call& in, device_pointer to, std::size_t pitch, Element value, std::size_t width,
            std::size_t height, const stream_ptr& on) {
  if (width == 0 || height == 0) return result::success;
  issue(in, on, node_type::fill, check_fill(in, {to, pitch, width, height}, value, on->owner));
  return result::success;
}

template <class Element>
result fill_and_wait(call& in, device_pointer to, Element value, std::size_t count) {
  const stream_ptr on = in.at(nullptr);
  const result answer = fill(in, to, 0, value, count, 1, on);
  finish(in, on->tail);
  refuse_faulted(*on->owner);
  return answer;
}

}  // namespace

op_factory make_fill(call& in, const fill_node& what, const context_ptr& owner) {
  require(what.width > 0 && what.height > 0);
  const fill_area area{what.to, what.pitch, what.width, what.height};
  switch (what.element_bytes) {
    case 1: return check_fill(in, area, static_cast<std::uint8_t>(what.value), owner);
    case 2: return check_fill(in, area, static_cast<std::uint16_t>(what.value), owner);
    case 4: return check_fill(in, area, what.value, owner);
    default: throw refusal{result::invalid_value};
  }
}

namespace served {

result cuMemsetD8Async(call& in, device_pointer to, unsigned char value, std::size_t count,
                       stream on) {
  return fill(in, to, 0, value, count, 1, in.at(on));
}

result cuMemsetD16Async(call& in, device_pointer to, std::uint16_t value, std::size_t count,
                        stream on) {
  return fill(in, to, 0, value, count, 1, in.at(on));
}

result cuMemsetD32Async(call& in, device_pointer to, std::uint32_t value, std::size_t count,
                        stream on) {
  return fill(in, to, 0, value, count, 1, in.at(on));
}

result cuMemsetD2D8Async(call& in, device_pointer to, std::size_t pitch, unsigned char value,
                         std::size_t width, std::size_t height, stream on) {
  return fill(in, to, pitch, value, width, height, in.at(on));
}

result cuMemsetD2D16Async(call& in, device_pointer to, std::size_t pitch, std::uint16_t value,
                          std::size_t width, std::size_t height, stream on) {
  return fill(in, to, pitch, value, width, height, in.at(on));
}

result cuMemsetD2D32Async(call& in, device_pointer to, std::size_t pitch, std::uint32_t value,
                          std::size_t width, std::size_t height, stream on) {
  return fill(in, to, pitch, value, width, height, in.at(on));
}

result cuMemsetD8(call& in, device_pointer to, unsigned char value, std::size_t count) {
  return fill_and_wait(in, to, value, count);
}

result cuMemsetD32(call& in, device_pointer to, std::uint32_t value, std::size_t count) {
  return fill_and_wait(in, to, value, count);
}

}  // namespace served
}  // namespace fake_cuda
