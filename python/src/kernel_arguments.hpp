// SPDX-License-Identifier: Apache-2.0
/// Arguments of kernels, from Python values to bytes.
#pragma once

#include <array>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include <millstream/kernel.hpp>

#include "interpreter.hpp"

namespace millstream::python {

/// Copies of the values; good until it is changed. Needs the interpreter lock.
class kernel_arguments {
 public:
  explicit kernel_arguments(std::size_t count);
  kernel_arguments(const kernel_arguments&) = delete;
  kernel_arguments& operator=(const kernel_arguments&) = delete;

  /// An int takes the size of the kernel's parameter; a float is a double; scalars of ctypes and
  /// NumPy and structures of ctypes are their bytes; views and device arrays are their addresses.
  /// TypeError for anything else, NumberRangeError for an int of more than 64 bits.
  void add(nb::handle value);
  [[nodiscard]] std::span<const kernel_argument> list();

 private:
  void add_bytes(const void* value, std::size_t bytes, std::size_t alignment,
                 bool is_integer = false);
  void add_integer(nb::handle value);
  [[nodiscard]] bool add_buffer(nb::handle value);

  // Room for what most kernels take.
  std::array<std::byte, 1024> room_;
  std::pmr::monotonic_buffer_resource from_{room_.data(), room_.size()};
  std::pmr::vector<std::byte> bytes_{&from_};
  std::pmr::vector<std::size_t> offsets_{&from_};
  std::pmr::vector<kernel_argument> list_{&from_};
};

}  // namespace millstream::python
