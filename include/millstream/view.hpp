// SPDX-License-Identifier: Apache-2.0
/// What a task body sees of a datum: a typed window on memory that it does not own.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <string>
#include <type_traits>

#include <millstream/error.hpp>
#include <millstream/shape.hpp>

/// 1: an index outside its extent throws error(out_of_range), which fails the task. 0: it is
/// undefined behaviour, as with a pointer. On by default in builds without NDEBUG. One program is
/// compiled with one value. Device code never checks.
#if !defined(MILLSTREAM_BOUNDS_CHECK)
#if defined(NDEBUG)
#define MILLSTREAM_BOUNDS_CHECK 0
#else
#define MILLSTREAM_BOUNDS_CHECK 1
#endif
#endif

namespace millstream::inline v1 {

namespace detail {

[[noreturn]] inline void throw_out_of_bounds(std::size_t index, std::size_t extent,
                                             std::size_t dimension) {
  throw error(errc::out_of_range, "view index " + std::to_string(index) + " is outside dimension " +
                                      std::to_string(dimension) + " of extent " +
                                      std::to_string(extent) + "; indices count from 0");
}

MILLSTREAM_HOST_DEVICE constexpr void check_bounds([[maybe_unused]] std::size_t index,
                                                   [[maybe_unused]] std::size_t extent,
                                                   [[maybe_unused]] std::size_t dimension) {
#if MILLSTREAM_BOUNDS_CHECK && !defined(__CUDA_ARCH__)
  if (index >= extent) throw_out_of_bounds(index, extent, dimension);
#endif
}

/// What indexing does not check, taking apart a view does: it is rare.
MILLSTREAM_HOST_DEVICE constexpr void check_part([[maybe_unused]] std::size_t end,
                                                 [[maybe_unused]] std::size_t extent,
                                                 [[maybe_unused]] std::size_t dimension) {
#if !defined(__CUDA_ARCH__)
  if (end > extent) throw_out_of_bounds(end - 1, extent, dimension);
#endif
}

}  // namespace detail

/// A row-major window of `Rank` dimensions (0 to 4) on elements of type T: a pointer, extents, and
/// the distances between rows, planes, ... in elements. The last dimension is always contiguous,
/// so a rank-1 view is a plain array. Trivially copyable; pass it by value. Copying copies no
/// element, and `const view` does not make the elements const: `view<const T, Rank>` does.
/// A view got in a task body is good until the body returns.
template <class T, std::size_t Rank = 1>
class view {
  static_assert(Rank <= max_rank, "a millstream view has at most 4 dimensions");

 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  static constexpr std::size_t rank = Rank;

  constexpr view() noexcept = default;
  /// On contiguous elements.
  MILLSTREAM_HOST_DEVICE constexpr view(T* data, const millstream::shape<Rank>& extents) noexcept
      : data_(data), shape_(extents) {
    if constexpr (Rank > 1) {
      strides_.at[Rank - 2] = extents.extent(Rank - 1);
      for (std::size_t d = Rank - 2; d-- > 0;) {
        strides_.at[d] = strides_.at[d + 1] * extents.extent(d + 1);
      }
    }
  }
  /// With distances in elements for all dimensions but the last.
  constexpr view(T* data, const millstream::shape<Rank>& extents,
                 const std::array<std::size_t, (Rank > 1 ? Rank - 1 : 1)>& strides) noexcept
    requires(Rank > 1)
      : data_(data), shape_(extents) {
    for (std::size_t d = 0; d + 1 < Rank; ++d)
      strides_.at[d] = strides[d];
  }
  /// A window for reading on the same elements.
  template <class Other>
    requires(std::same_as<const Other, T> && !std::same_as<Other, T>)
  MILLSTREAM_HOST_DEVICE constexpr view(
      const view<Other, Rank>& other) noexcept  // NOLINT(google-explicit-constructor)
      : data_(other.data_), shape_(other.shape_), strides_(other.strides_) {}

  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T* data() const noexcept { return data_; }
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr const millstream::shape<Rank>& shape()
      const noexcept {
    return shape_;
  }
  /// `dimension` < Rank, here and in `stride`.
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr std::size_t extent(
      std::size_t dimension) const noexcept {
    return shape_.extent(dimension);
  }
  /// Number of elements.
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr std::size_t size() const noexcept {
    return shape_.size();
  }
  /// Distance in elements between neighbours along a dimension.
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr std::size_t stride(
      [[maybe_unused]] std::size_t dimension) const noexcept {
    if constexpr (Rank > 1) {
      if (dimension + 1 < Rank) return strides_.at[dimension];
    }
    return 1;
  }
  /// Whether the elements lie without gaps.
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr bool is_contiguous() const noexcept {
    return *this == view(data_, shape_) || size() == 0;
  }

  /// The element at these coordinates, outermost first.
  template <class... Indices>
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T& operator()(Indices... indices) const {
    static_assert(sizeof...(Indices) == Rank,
                  "a view takes one index per dimension: v(i, j) for rank 2");
    static_assert((std::is_integral_v<Indices> && ...), "view indices are integers");
    return data_[offset(static_cast<std::size_t>(indices)...)];
  }
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T& operator[](std::size_t index) const
    requires(Rank == 1)
  {
    return data_[offset(index)];
  }
  /// The element of a rank-0 view.
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T& operator*() const noexcept
    requires(Rank == 0)
  {
    return *data_;
  }
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T* begin() const noexcept
    requires(Rank == 1)
  {
    return data_;
  }
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T* end() const noexcept
    requires(Rank == 1)
  {
    return data_ + size();
  }

  /// Row (plane, ...) `index`: the view without its first dimension. Throws error(out_of_range).
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr view<T, (Rank > 0 ? Rank - 1 : 0)> row(
      std::size_t index) const
    requires(Rank > 0)
  {
    detail::check_part(index + 1, extent(0), 0);
    view<T, Rank - 1> part;
    part.data_ = data_ + index * stride(0);
    if constexpr (Rank > 1) part.shape_ = drop_first(shape_);
    if constexpr (Rank > 2) {
      for (std::size_t d = 1; d + 1 < Rank; ++d)
        part.strides_.at[d - 1] = strides_.at[d];
    }
    return part;
  }
  /// The part that begins at `from` and has these extents. Throws error(out_of_range) if it
  /// sticks out.
  [[nodiscard]] constexpr view block(const std::array<std::size_t, Rank>& from,
                                     const millstream::shape<Rank>& extents) const
    requires(Rank > 0)
  {
    view part = *this;
    part.shape_ = extents;
    for (std::size_t d = 0; d != Rank; ++d) {
      detail::check_part(from[d], extent(d), d);
      detail::check_part(extents.extent(d), extent(d) - from[d], d);
      part.data_ += from[d] * stride(d);
    }
    return part;
  }
  /// All elements in row-major order as one row. Throws error(usage) unless is_contiguous().
  [[nodiscard]] constexpr view<T, 1> flat() const {
    if (!is_contiguous()) {
      throw error(errc::usage,
                  "view has gaps between its rows and cannot be seen as one row; "
                  "go over its rows with row(i)");
    }
    return {data_, millstream::shape<1>(size())};
  }

  /// Same window (not: same content).
  friend constexpr bool operator==(const view&, const view&) noexcept = default;

 private:
  template <class, std::size_t>
  friend class view;

  template <class... Indices>
  MILLSTREAM_HOST_DEVICE constexpr std::size_t offset(Indices... indices) const {
    std::size_t position = 0;
    [[maybe_unused]] std::size_t d = 0;
    ((detail::check_bounds(indices, extent(d), d), position += indices * stride(d), ++d), ...);
    return position;
  }
  MILLSTREAM_HOST_DEVICE static constexpr auto drop_first(const millstream::shape<Rank>& of) {
    if constexpr (Rank == 2) return millstream::shape<1>(of.extent(1));
    if constexpr (Rank == 3) return millstream::shape<2>(of.extent(1), of.extent(2));
    if constexpr (Rank == 4) {
      return millstream::shape<3>(of.extent(1), of.extent(2), of.extent(3));
    }
  }

  T* data_ = nullptr;
  [[no_unique_address]] millstream::shape<Rank> shape_;
  [[no_unique_address]] detail::words<(Rank > 1 ? Rank - 1 : 0), 1> strides_;
};

}  // namespace millstream::inline v1
