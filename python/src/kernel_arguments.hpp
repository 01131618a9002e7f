// SPDX-License-Identifier: Apache-2.0
/// Arguments of kernels, from Python values to bytes.
#pragma once

#include <cstddef>
#include <vector>

#include <millstream/kernel.hpp>

#include "interpreter.hpp"

namespace millstream::python {

/// Copies of the values; good until it is changed. Needs the interpreter lock.
class kernel_arguments {
 public:
  /// An int takes the size of the kernel's parameter; a float is a double; scalars of ctypes and
  /// NumPy and structures of ctypes are their bytes; views and device arrays are their addresses.
  /// TypeError for anything else, NumberRangeError for an int of more than 64 bits.
  void add(nb::handle value);
  [[nodiscard]] const std::vector<kernel_argument>& list();

 private:
  void add_bytes(const void* value, std::size_t bytes, std::size_t alignment,
                 bool is_integer = false);
  void add_integer(nb::handle value);
  [[nodiscard]] bool add_buffer(nb::handle value);

  std::vector<std::byte> bytes_;
  std::vector<std::size_t> offsets_;
  std::vector<kernel_argument> list_;
};

}  // namespace millstream::python
