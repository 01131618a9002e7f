// SPDX-License-Identifier: Apache-2.0
/// Extents without data: `shape` (from zero), `box` (from anywhere), `typed_shape` (with an element
/// type). All are small value types; coordinates are row-major, the last one runs fastest.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include <millstream/error.hpp>

/// Marks what device code may call, where a device compiler reads this file.
#if defined(__CUDACC__)
#define MILLSTREAM_HOST_DEVICE __host__ __device__
#else
#define MILLSTREAM_HOST_DEVICE
#endif

namespace millstream::inline v1 {

/// Data and loops have at most this many dimensions.
inline constexpr std::size_t max_rank = 4;

namespace detail {

/// A plain array that may be empty and that device code can index. Members of one class have
/// different roles: empty ones of the same type would need different addresses.
template <std::size_t Count, int Role = 0>
struct words {
  std::size_t at[Count]{};
  friend constexpr bool operator==(const words&, const words&) noexcept = default;
};
template <int Role>
struct words<0, Role> {
  friend constexpr bool operator==(const words&, const words&) noexcept = default;
};

[[noreturn]] inline void throw_negative_extent(long long extent) {
  throw error(errc::invalid_value, "shape has the negative extent " + std::to_string(extent) +
                                       "; extents count elements from 0");
}

/// Throws error(invalid_value) for a negative number (on the host).
template <std::integral Number>
MILLSTREAM_HOST_DEVICE constexpr std::size_t to_extent(Number number) {
#if !defined(__CUDA_ARCH__)
  if constexpr (std::is_signed_v<Number>) {
    if (number < 0) throw_negative_extent(static_cast<long long>(number));
  }
#endif
  return static_cast<std::size_t>(number);
}

}  // namespace detail

/// The extents of a rectangular index space of `Rank` dimensions; rank 0 has one element.
/// Arithmetic is 64-bit throughout. Iterating gives coordinates in row-major order:
/// `for (auto [i, j] : shape(2, 3))`.
template <std::size_t Rank>
class shape {
  static_assert(Rank <= max_rank, "millstream data and loops have at most 4 dimensions");

 public:
  using coordinates_type = std::array<std::size_t, Rank>;
  static constexpr std::size_t rank = Rank;

  /// All extents zero (rank 0: one element).
  constexpr shape() noexcept = default;
  /// One extent per dimension, outermost first. Throws error(invalid_value) for a negative one.
  template <std::integral... Extents>
    requires(sizeof...(Extents) == Rank && Rank > 0)
  MILLSTREAM_HOST_DEVICE explicit(Rank == 1) constexpr shape(Extents... extents)
      : extents_{{detail::to_extent(extents)...}} {}
  constexpr shape(
      const coordinates_type& extents) noexcept {  // NOLINT(google-explicit-constructor)
    if constexpr (Rank > 0) {
      for (std::size_t d = 0; d != Rank; ++d)
        extents_.at[d] = extents[d];
    }
  }

  /// `dimension` < Rank.
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr std::size_t extent(
      [[maybe_unused]] std::size_t dimension) const noexcept {
    if constexpr (Rank == 0) {
      return 1;
    } else {
      return extents_.at[dimension];
    }
  }
  [[nodiscard]] constexpr coordinates_type extents() const noexcept {
    coordinates_type all{};
    for (std::size_t d = 0; d != Rank; ++d)
      all[d] = extent(d);
    return all;
  }
  /// Number of elements.
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr std::size_t size() const noexcept {
    std::size_t product = 1;
    for (std::size_t d = 0; d != Rank; ++d)
      product *= extent(d);
    return product;
  }

  /// Position of an element in row-major order, and back. No check of the range.
  [[nodiscard]] constexpr std::size_t index(const coordinates_type& at) const noexcept {
    std::size_t position = 0;
    for (std::size_t d = 0; d != Rank; ++d)
      position = position * extent(d) + at[d];
    return position;
  }
  [[nodiscard]] constexpr coordinates_type coordinates(std::size_t position) const noexcept {
    coordinates_type at{};
    for (std::size_t d = Rank; d-- > 0;) {
      at[d] = position % extent(d);
      position /= extent(d);
    }
    return at;
  }

  /// Goes over the coordinates.
  class iterator {
   public:
    constexpr iterator(const shape& of, std::size_t position) noexcept
        : of_(&of), position_(position) {
      if (position < of.size()) at_ = of.coordinates(position);
    }
    constexpr const coordinates_type& operator*() const noexcept { return at_; }
    constexpr iterator& operator++() noexcept {
      ++position_;
      for (std::size_t d = Rank; d-- > 0;) {
        if (++at_[d] < of_->extent(d)) break;
        at_[d] = 0;
      }
      return *this;
    }
    friend constexpr bool operator==(const iterator& a, const iterator& b) noexcept {
      return a.position_ == b.position_;
    }

   private:
    const shape* of_;
    std::size_t position_;
    coordinates_type at_{};
  };
  [[nodiscard]] constexpr iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] constexpr iterator end() const noexcept { return {*this, size()}; }

  friend constexpr bool operator==(const shape&, const shape&) noexcept = default;

 private:
  [[no_unique_address]] detail::words<Rank> extents_;
};

shape() -> shape<0>;
template <std::integral... Extents>
shape(Extents...) -> shape<sizeof...(Extents)>;

/// Indices from `begin` to before `end`.
struct range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// A rectangular index space that need not begin at zero: `box({1, n - 1}, {0, m})`. A range whose
/// end lies before its begin is empty.
template <std::size_t Rank>
class box {
 public:
  static constexpr std::size_t rank = Rank;

  constexpr box() noexcept = default;
  constexpr box(const shape<Rank>& whole) noexcept  // NOLINT(google-explicit-constructor)
      : extents_(whole) {}
  explicit constexpr box(range r0) noexcept
    requires(Rank == 1)
      : box(std::array<range, Rank>{r0}) {}
  constexpr box(range r0, range r1) noexcept
    requires(Rank == 2)
      : box(std::array<range, Rank>{r0, r1}) {}
  constexpr box(range r0, range r1, range r2) noexcept
    requires(Rank == 3)
      : box(std::array<range, Rank>{r0, r1, r2}) {}
  constexpr box(range r0, range r1, range r2, range r3) noexcept
    requires(Rank == 4)
      : box(std::array<range, Rank>{r0, r1, r2, r3}) {}
  explicit constexpr box(const std::array<range, Rank>& ranges) noexcept {
    std::array<std::size_t, Rank> extents{};
    for (std::size_t d = 0; d != Rank; ++d) {
      begins_[d] = ranges[d].begin;
      extents[d] = ranges[d].end > ranges[d].begin ? ranges[d].end - ranges[d].begin : 0;
    }
    extents_ = extents;
  }

  /// `dimension` < Rank.
  [[nodiscard]] constexpr std::size_t begin(std::size_t dimension) const noexcept {
    return begins_[dimension];
  }
  [[nodiscard]] constexpr std::size_t end(std::size_t dimension) const noexcept {
    return begins_[dimension] + extents_.extent(dimension);
  }
  [[nodiscard]] constexpr std::size_t extent(std::size_t dimension) const noexcept {
    return extents_.extent(dimension);
  }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return extents_.size(); }
  friend constexpr bool operator==(const box&, const box&) noexcept = default;

 private:
  std::array<std::size_t, Rank> begins_{};
  shape<Rank> extents_;
};

template <std::size_t Rank>
box(shape<Rank>) -> box<Rank>;
box(range) -> box<1>;
box(range, range) -> box<2>;
box(range, range, range) -> box<3>;
box(range, range, range, range) -> box<4>;

/// A shape that also says what its elements are, for data without content.
template <class T, std::size_t Rank>
class typed_shape : public shape<Rank> {
 public:
  using element_type = T;
  using shape<Rank>::shape;
  constexpr typed_shape(const shape<Rank>& extents) noexcept  // NOLINT(google-explicit-constructor)
      : shape<Rank>(extents) {}
};

/// `shape_of<double>(n, m)`: n rows of m numbers.
template <class T, std::integral... Extents>
[[nodiscard]] constexpr typed_shape<T, sizeof...(Extents)> shape_of(Extents... extents) {
  return shape<sizeof...(Extents)>(extents...);
}

/// "(2, 3)", for messages.
template <std::size_t Rank>
[[nodiscard]] std::string to_string(const shape<Rank>& extents) {
  std::string text = "(";
  for (std::size_t d = 0; d != Rank; ++d) {
    if (d > 0) text += ", ";
    text += std::to_string(extents.extent(d));
  }
  return text + (Rank == 1 ? ",)" : ")");
}

namespace detail {

[[noreturn]] inline void throw_too_large(const std::string& extents, std::size_t element_bytes) {
  throw error(errc::invalid_value, "shape " + extents + " of elements of " +
                                       std::to_string(element_bytes) +
                                       " bytes is larger than memory can be; check for a negative "
                                       "number or an overflow where the extents are computed");
}

/// Size in bytes of a block with these extents. Throws error(invalid_value) when no block can be
/// that large.
template <std::size_t Rank>
[[nodiscard]] constexpr std::size_t checked_bytes(const shape<Rank>& extents,
                                                  std::size_t element_bytes) {
  constexpr auto limit = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  for (std::size_t d = 0; d != Rank; ++d) {
    if (extents.extent(d) == 0) return 0;
  }
  std::size_t bytes = element_bytes;
  for (std::size_t d = 0; d != Rank; ++d) {
    if (extents.extent(d) > limit / bytes) throw_too_large(to_string(extents), element_bytes);
    bytes *= extents.extent(d);
  }
  return bytes;
}

}  // namespace detail

}  // namespace millstream::inline v1
