// SPDX-License-Identifier: Apache-2.0
/// The extents of an array, the first of them without an allocation.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "interpreter.hpp"

namespace millstream::python {

/// Does not change once it is made.
class extent_list {
 public:
  extent_list() noexcept = default;
  /// What `get` gives for each axis.
  template <class Get>
  extent_list(std::size_t rank, Get&& get) : size_(rank) {
    if (rank > near_.size()) far_ = std::make_unique<Py_ssize_t[]>(rank);
    Py_ssize_t* const extents = far_ ? far_.get() : near_.data();
    for (std::size_t axis = 0; axis < rank; ++axis)
      extents[axis] = get(axis);
  }
  explicit extent_list(std::span<const Py_ssize_t> extents)
      : extent_list(extents.size(), [&](std::size_t axis) { return extents[axis]; }) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const Py_ssize_t* data() const noexcept { return far_ ? far_.get() : near_.data(); }
  [[nodiscard]] const Py_ssize_t* begin() const noexcept { return data(); }
  [[nodiscard]] const Py_ssize_t* end() const noexcept { return data() + size_; }

 private:
  std::array<Py_ssize_t, 4> near_{};
  std::unique_ptr<Py_ssize_t[]> far_;
  std::size_t size_ = 0;
};

}  // namespace millstream::python
