// SPDX-License-Identifier: Apache-2.0
/// An owning, contiguous, row-major array on the host: what `context::wait` gives back.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <millstream/shape.hpp>
#include <millstream/view.hpp>

namespace millstream::inline v1 {

/// Owns its elements; it can be moved, not copied. Elements of a new array have no value yet. As
/// thread-safe as a container of the standard library.
template <class T, std::size_t Rank = 1>
class array {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
  static_assert(std::is_default_constructible_v<T>,
                "millstream::array needs elements with a default constructor");

 public:
  using value_type = T;
  static constexpr std::size_t rank = Rank;

  array() : array(millstream::shape<Rank>{}) {}
  explicit array(const millstream::shape<Rank>& extents)
      : shape_(extents),
        data_(std::make_unique_for_overwrite<T[]>(detail::checked_bytes(extents, sizeof(T)) /
                                                  sizeof(T))) {}
  /// The other array is left without elements.
  array(array&& other) noexcept
      : shape_(std::exchange(other.shape_, {})), data_(std::move(other.data_)) {}
  array& operator=(array&& other) noexcept {
    std::swap(shape_, other.shape_);
    std::swap(data_, other.data_);
    return *this;
  }

  [[nodiscard]] const millstream::shape<Rank>& shape() const noexcept { return shape_; }
  [[nodiscard]] std::size_t extent(std::size_t dimension) const noexcept {
    return shape_.extent(dimension);
  }
  [[nodiscard]] std::size_t size() const noexcept { return shape_.size(); }
  [[nodiscard]] T* data() noexcept { return data_.get(); }
  [[nodiscard]] const T* data() const noexcept { return data_.get(); }

  /// Windows on the elements, good as long as the array.
  [[nodiscard]] millstream::view<T, Rank> view() noexcept { return {data(), shape_}; }
  [[nodiscard]] millstream::view<const T, Rank> view() const noexcept { return {data(), shape_}; }

  /// The element at these coordinates, checked as a view's.
  template <class... Indices>
  [[nodiscard]] T& operator()(Indices... indices) {
    return view()(indices...);
  }
  template <class... Indices>
  [[nodiscard]] const T& operator()(Indices... indices) const {
    return view()(indices...);
  }
  [[nodiscard]] T& operator[](std::size_t index)
    requires(Rank == 1)
  {
    return view()[index];
  }
  [[nodiscard]] const T& operator[](std::size_t index) const
    requires(Rank == 1)
  {
    return view()[index];
  }

  /// All elements in row-major order.
  [[nodiscard]] T* begin() noexcept { return data(); }
  [[nodiscard]] T* end() noexcept { return data() + size(); }
  [[nodiscard]] const T* begin() const noexcept { return data(); }
  [[nodiscard]] const T* end() const noexcept { return data() + size(); }

 private:
  millstream::shape<Rank> shape_;
  std::unique_ptr<T[]> data_;
};

}  // namespace millstream::inline v1
