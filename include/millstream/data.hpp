// SPDX-License-Identifier: Apache-2.0
/// Typed handles to data and tokens, and the dependencies made from them.
#pragma once

#include <cstddef>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <millstream/reduce.hpp>
#include <millstream/shape.hpp>
#include <millstream/untyped.hpp>
#include <millstream/view.hpp>

namespace millstream::inline v1 {

namespace detail {

/// What a body keeps of a view_dep until it runs.
template <class T, std::size_t Rank>
struct view_binding {
  using argument = const view<T, Rank>&;

  /// Same interface as reduction_slot.
  struct slot {
    view<T, Rank> window;
    [[nodiscard]] const view<T, Rank>& argument() const noexcept { return window; }
    void close(bool) const noexcept {}
  };

  [[no_unique_address]] shape<Rank> extents;
  [[nodiscard]] view<T, Rank> bind(void* pointer) const noexcept {
    return {static_cast<T*>(pointer), extents};
  }
  [[nodiscard]] slot open(void* pointer) const noexcept { return {bind(pointer)}; }
};

/// Tokens leave nothing for the body.
struct token_binding {};

/// "data 'x'" or "data 12", for messages.
[[nodiscard]] inline std::string name_of(const untyped_data& data) {
  const std::string symbol = data.symbol();
  return symbol.empty() ? "data " + std::to_string(data.id()) : "data '" + symbol + "'";
}

[[noreturn]] inline void throw_not_one_element(const untyped_data& data, std::size_t elements) {
  throw error(errc::invalid_value, name_of(data) + " has " + std::to_string(elements) +
                                       " elements and takes no reduction; reduce into data of one "
                                       "element");
}

}  // namespace detail

/// One access of a task to a datum; made by `read`, `write`, `rw`. The body gets a
/// `view<T, Rank>`, where T is const for readers.
template <class T, std::size_t Rank>
struct view_dep : task_dep {
  using binding_type = detail::view_binding<T, Rank>;
  static constexpr bool is_token = false;
  static constexpr bool is_reduction = false;

  [[no_unique_address]] shape<Rank> extents;
  [[nodiscard]] binding_type binding() const { return {extents}; }
};

/// One access of a task to a token. The body gets nothing for it.
struct token_dep : task_dep {
  using binding_type = detail::token_binding;
  static constexpr bool is_token = true;
  static constexpr bool is_reduction = false;

  [[nodiscard]] binding_type binding() const { return {}; }
};

/// A value of `Rank` dimensions (0: a scalar) with elements of type T, which may have copies on
/// many places. A handle, as untyped_data: copies share the value; the last one lets it go, queues
/// the write-back to a registered buffer, and waits for nothing. Any thread may use a handle.
///
/// T is trivially copyable. A const T was registered from const data and can only be read.
template <class T, std::size_t Rank = 1>
class logical_data : public untyped_data {
  static_assert(std::is_trivially_copyable_v<T>,
                "elements of logical data must be trivially copyable, because they are moved "
                "between places as bytes");
  static constexpr bool is_const = std::is_const_v<T>;

 public:
  using element_type = T;
  using shape_type = millstream::shape<Rank>;
  static constexpr std::size_t rank = Rank;

  logical_data() noexcept = default;
  /// Gives an untyped handle a type. Throws error(invalid_value) unless its size is that of
  /// `extents`.
  explicit logical_data(untyped_data data, const shape_type& extents)
      : untyped_data(std::move(data)), extents_(extents) {
    check_size();
  }
  /// A handle that can only read.
  template <class Other>
    requires(std::is_same_v<const Other, T> && !std::is_const_v<Other>)
  logical_data(const logical_data<Other, Rank>& other)  // NOLINT(google-explicit-constructor)
      : untyped_data(other), extents_(other.shape()) {}

  [[nodiscard]] const shape_type& shape() const noexcept { return extents_; }
  /// Number of elements.
  [[nodiscard]] std::size_t size() const noexcept { return extents_.size(); }
  /// Names it for errors and traces, and gives the handle back:
  /// `auto x = ctx.logical_data(v).set_symbol("x")`.
  logical_data set_symbol(std::string_view name) const {
    untyped_data::set_symbol(name);
    return *this;
  }

  /// The task reads. Readers may overlap. `place`: where the task wants it (default: nearest).
  [[nodiscard]] view_dep<const T, Rank> read(
      data_place place = {}, std::source_location at = std::source_location::current()) const {
    return {untyped_data::read(place, at), extents_};
  }
  /// The task overwrites every element. What it finds before is undefined.
  [[nodiscard]] view_dep<T, Rank> write(
      data_place place = {}, std::source_location at = std::source_location::current()) const {
    static_assert(!is_const,
                  "write() needs data registered from a non-const buffer; data of const "
                  "elements can only be read");
    return {untyped_data::write(place, at), extents_};
  }
  /// The task reads and modifies; it runs after all earlier uses and before all later ones.
  [[nodiscard]] view_dep<T, Rank> rw(
      data_place place = {}, std::source_location at = std::source_location::current()) const {
    static_assert(!is_const,
                  "rw() needs data registered from a non-const buffer; data of const "
                  "elements can only be read");
    return {untyped_data::rw(place, at), extents_};
  }

  /// For `parallel_for`: the loop reduces into this datum of one element and overwrites it; an
  /// empty loop stores the identity. Ordered as a write. `op`: see namespace `reducer`. Throws
  /// error(invalid_value) if the datum has not exactly one element.
  template <class Op>
  [[nodiscard]] reduce_dep<T, Op> reduce(
      Op op, data_place place = {},
      std::source_location at = std::source_location::current()) const {
    check_reduction<Op>();
    return {untyped_data::write(place, at), std::move(op), false};
  }
  /// The same, but the result is combined with the value the datum has, and an empty loop keeps
  /// that value. Ordered as rw.
  template <class Op>
  [[nodiscard]] reduce_dep<T, Op> reduce(
      Op op, accumulate_t, data_place place = {},
      std::source_location at = std::source_location::current()) const {
    check_reduction<Op>();
    return {untyped_data::rw(place, at), std::move(op), true};
  }

 private:
  template <class Op>
  void check_reduction() const {
    static_assert(!is_const, "reduce() needs data registered from a non-const buffer");
    static_assert(detail::reduction_operator<Op, T>,
                  "a reduction operator is a copyable struct with identity() and "
                  "operator()(a, b), which both give the element type; see millstream::reducer");
    if (size() != 1) detail::throw_not_one_element(*this, size());
  }
  void check_size() const {
    const std::size_t needed = detail::checked_bytes(extents_, sizeof(T));
    if (bytes() != needed) {
      throw error(errc::invalid_value, detail::name_of(*this) + " has " + std::to_string(bytes()) +
                                           " bytes, but the shape " + to_string(extents_) +
                                           " needs " + std::to_string(needed) +
                                           "; give the shape it was made with");
    }
  }

  [[no_unique_address]] shape_type extents_;
};

/// A datum without bytes, which only orders tasks. A handle, as logical_data.
class token : public untyped_data {
 public:
  token() noexcept = default;
  /// `data` is a token.
  explicit token(untyped_data data) noexcept : untyped_data(std::move(data)) {}

  token set_symbol(std::string_view name) const {
    untyped_data::set_symbol(name);
    return *this;
  }
  [[nodiscard]] token_dep read(std::source_location at = std::source_location::current()) const {
    return {untyped_data::read({}, at)};
  }
  [[nodiscard]] token_dep write(std::source_location at = std::source_location::current()) const {
    return {untyped_data::write({}, at)};
  }
  [[nodiscard]] token_dep rw(std::source_location at = std::source_location::current()) const {
    return {untyped_data::rw({}, at)};
  }
};

}  // namespace millstream::inline v1
