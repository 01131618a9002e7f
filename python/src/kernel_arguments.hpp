// SPDX-License-Identifier: Apache-2.0
/// Arguments of kernels, from Python values to bytes.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <millstream/kernel.hpp>

#include "interpreter.hpp"

namespace millstream::python {

/// Copies of the values; good until it is changed. Needs the interpreter lock.
class kernel_arguments {
 public:
  /// Room for `count` of them.
  explicit kernel_arguments(std::size_t count);
  kernel_arguments(const kernel_arguments&) = delete;
  kernel_arguments& operator=(const kernel_arguments&) = delete;

  /// An int takes the size of the kernel's parameter; a float is a double; scalars of ctypes and
  /// NumPy and structures of ctypes are their bytes; views and device arrays are their addresses.
  /// TypeError for anything else, NumberRangeError for an int of more than 64 bits. Not more than
  /// `count` times.
  void add(nb::handle value);
  [[nodiscard]] std::span<const kernel_argument> list() const noexcept { return {list_, size_}; }

 private:
  void add_bytes(const void* value, std::size_t bytes, std::size_t alignment,
                 bool is_integer = false);
  void add_integer(nb::handle value);
  [[nodiscard]] bool add_buffer(nb::handle value);

  [[nodiscard]] std::byte* take(std::size_t bytes);

  // Room for what most kernels take: the list, then the values. Left as it is found.
  alignas(kernel_argument) std::array<std::byte, 1024> room_;
  std::size_t used_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> more_;  // blocks that found no room
  kernel_argument* list_;
  std::size_t size_ = 0;
};

}  // namespace millstream::python
