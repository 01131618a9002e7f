// SPDX-License-Identifier: Apache-2.0
/// References to Python objects, the first of them without an allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "interpreter.hpp"

namespace millstream::python {

/// Grows at its end. Needs the interpreter lock, but where it is empty.
class object_list {
 public:
  object_list() noexcept = default;
  object_list(object_list&& other) noexcept
      : near_(std::move(other.near_)),
        far_(std::move(other.far_)),
        size_(std::exchange(other.size_, 0)) {}
  object_list& operator=(object_list&& other) noexcept {
    std::swap(near_, other.near_);
    std::swap(far_, other.far_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~object_list() = default;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const nb::object& operator[](std::size_t index) const noexcept {
    return index < near_.size() ? near_[index] : far_[index - near_.size()];
  }
  void push_back(nb::object next) {
    if (size_ < near_.size()) {
      near_[size_] = std::move(next);
    } else {
      far_.push_back(std::move(next));
    }
    ++size_;
  }
  /// In their order. It is empty before the first one goes, whose end may run code that looks at
  /// it.
  void clear() noexcept {
    const std::size_t near_count = std::min(std::exchange(size_, 0), near_.size());
    for (std::size_t i = 0; i < near_count; ++i)
      near_[i].reset();
    far_.clear();
  }

 private:
  std::array<nb::object, 3> near_;
  std::vector<nb::object> far_;
  std::size_t size_ = 0;
};

}  // namespace millstream::python
