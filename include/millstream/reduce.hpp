// SPDX-License-Identifier: Apache-2.0
/// Reductions of `parallel_for`: `x.reduce(reducer::sum<double>{})`.
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include <millstream/shape.hpp>
#include <millstream/untyped.hpp>

namespace millstream::inline v1 {

namespace detail {

/// The ends of a type's range. Constants, because device code may not call numeric_limits.
template <class T>
struct ends {
  using limits = std::numeric_limits<T>;
  static constexpr T highest = limits::has_infinity ? limits::infinity() : limits::max();
  static constexpr T lowest = limits::has_infinity ? -highest : limits::lowest();
};

}  // namespace detail

/// Ready-made operators. An operator of your own is a copyable struct with the same two functions:
/// `identity()`, the value that changes nothing, and `operator()(a, b)`, which combines two partial
/// results and must be associative (partial results may be combined in any grouping).
namespace reducer {

template <class T>
struct sum {
  [[nodiscard]] MILLSTREAM_HOST_DEVICE static constexpr T identity() noexcept { return T{}; }
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const {
    return static_cast<T>(a + b);
  }
};

template <class T>
struct product {
  [[nodiscard]] MILLSTREAM_HOST_DEVICE static constexpr T identity() noexcept {
    return static_cast<T>(1);
  }
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const {
    return static_cast<T>(a * b);
  }
};

/// Identity: infinity where the type has one, else the largest value.
template <class T>
struct min {
  [[nodiscard]] MILLSTREAM_HOST_DEVICE static constexpr T identity() noexcept {
    return detail::ends<T>::highest;
  }
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};

/// Identity: minus infinity where the type has one, else the lowest value.
template <class T>
struct max {
  [[nodiscard]] MILLSTREAM_HOST_DEVICE static constexpr T identity() noexcept {
    return detail::ends<T>::lowest;
  }
  [[nodiscard]] MILLSTREAM_HOST_DEVICE constexpr T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};

}  // namespace reducer

/// `x.reduce(op, accumulate)`: combine with the value x has, instead of overwriting it.
struct accumulate_t {
  explicit constexpr accumulate_t() = default;
};
inline constexpr accumulate_t accumulate{};

namespace detail {

template <class Op, class T>
concept reduction_operator =
    std::is_copy_constructible_v<Op> && requires(Op op, const T& a, const T& b) {
      { op.identity() } -> std::same_as<T>;
      { op(a, b) } -> std::same_as<T>;
    };

/// A partial result during one loop. The body works on `argument()`; `close` stores the result.
template <class T, class Op>
class reduction_slot {
 public:
  reduction_slot(T* target, const Op& op, bool accumulates)
      : value_(op.identity()), target_(target), op_(op), accumulates_(accumulates) {}
  [[nodiscard]] T& argument() noexcept { return value_; }
  void close(bool loop_was_empty) {
    if (!accumulates_) {
      *target_ = value_;
    } else if (!loop_was_empty) {
      *target_ = static_cast<T>(op_(*target_, value_));
    }
  }

 private:
  T value_;
  T* target_;
  Op op_;
  bool accumulates_;
};

/// What a loop keeps of a reduce_dep.
template <class T, class Op>
struct reduction_binding {
  using argument = T&;
  Op op;
  bool accumulates = false;
  [[nodiscard]] reduction_slot<T, Op> open(void* pointer) const {
    return {static_cast<T*>(pointer), op, accumulates};
  }
};

}  // namespace detail

/// One reduction of a loop; made by `logical_data::reduce`. The body gets a `T&`, a partial result
/// that begins with the identity.
template <class T, class Op>
struct reduce_dep : task_dep {
  using binding_type = detail::reduction_binding<T, Op>;
  static constexpr bool is_token = false;
  static constexpr bool is_reduction = true;

  Op op;
  bool accumulates = false;
  [[nodiscard]] binding_type binding() const { return {op, accumulates}; }
};

}  // namespace millstream::inline v1
