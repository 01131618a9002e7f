// SPDX-License-Identifier: Apache-2.0
// Fills with elements of 1, 2 or 4 bytes.
#include <algorithm>
#include <cstring>

#include "tests/fakes/cuda_driver/call.hpp"
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

template <class Element>
result fill(call& in, device_pointer to, std::size_t pitch, Element value, std::size_t width,
            std::size_t height, const stream_ptr& on) {
  if (width == 0 || height == 0) return result::success;
  require(to % sizeof(Element) == 0 && pitch % sizeof(Element) == 0);
  require(height == 1 || pitch >= width * sizeof(Element));
  const memory_view seen(in.all, on->owner);
  require(
      seen.may_name(to, (height - 1) * pitch + width * sizeof(Element), access_flags::read_write));
  issue(in, on, node_type::fill, [=, owner = on->owner] {
    return make_operation("fill", owner, [=] {
      for (std::size_t y = 0; y < height; ++y)
        fill_row(seen, to + y * pitch, value, width);
      return turn::done;
    });
  });
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
