// SPDX-License-Identifier: Apache-2.0
/// The loop behind `context::parallel_for`.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include <millstream/shape.hpp>
#include <millstream/task.hpp>
#include <millstream/untyped.hpp>

namespace millstream::inline v1::detail {

/// What a loop can go over: a shape, a box, or a number of iterations.
template <std::size_t Rank>
[[nodiscard]] constexpr box<Rank> to_box(const shape<Rank>& whole) noexcept {
  return whole;
}
template <std::size_t Rank>
[[nodiscard]] constexpr box<Rank> to_box(const box<Rank>& part) noexcept {
  return part;
}
template <std::integral Number>
[[nodiscard]] constexpr box<1> to_box(Number count) {
  return shape<1>(count);
}
template <class Space>
concept loop_space = requires(const Space& over) { to_box(over); };

/// Calls `step` with the coordinates of every element, row-major.
template <std::size_t Dimension = 0, std::size_t Rank, class Step, class... Indices>
void for_each(const box<Rank>& over, Step& step, Indices... indices) {
  if constexpr (Dimension == Rank) {
    step(indices...);
  } else {
    const std::size_t end = over.end(Dimension);
    for (std::size_t i = over.begin(Dimension); i < end; ++i) {
      for_each<Dimension + 1>(over, step, indices..., i);
    }
  }
}

/// One of several coordinates.
template <std::size_t>
struct coordinate {
  using type = std::size_t;
};

/// Whether `Body` can be called with one coordinate per dimension and then the arguments.
template <class Body, class List, std::size_t Rank>
[[nodiscard]] consteval bool accepts_loop() {
  return []<std::size_t... D>(std::index_sequence<D...>) {
    return accepts<Body, List, typename coordinate<D>::type...>();
  }(std::make_index_sequence<Rank>{});
}

/// The erased form of a loop: one job that runs all iterations.
template <class Body, std::size_t Rank, class List>
class loop_call {
 public:
  template <class Callable>
  loop_call(const box<Rank>& over, typename List::bindings bindings, Callable&& body)
      : over_(over), bindings_(std::move(bindings)), body_(std::forward<Callable>(body)) {}

  void operator()(const body_call& call) { run(call, typename List::sequence{}); }

 private:
  template <std::size_t... I>
  void run([[maybe_unused]] const body_call& call, std::index_sequence<I...>) {
    std::tuple slots{open<I>(call)...};
    auto step = [&](auto... coordinates) {
      static_cast<void>(body_(coordinates..., std::get<I>(slots).argument()...));
    };
    for_each(over_, step);
    (std::get<I>(slots).close(over_.size() == 0), ...);
  }
  template <std::size_t I>
  [[nodiscard]] auto open(const body_call& call) const {
    constexpr std::size_t position = List::positions[I];
    return std::get<position>(bindings_).open(call.pointers[position]);
  }

  box<Rank> over_;
  [[no_unique_address]] typename List::bindings bindings_;
  [[no_unique_address]] Body body_;
};

/// Two results for one datum would overwrite each other.
template <class... Deps>
void check_targets(const Deps&... deps) {
  const std::array<const task_dep*, sizeof...(Deps)> all{
      (Deps::is_reduction ? static_cast<const task_dep*>(&deps) : nullptr)...};
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (all[i] == nullptr || all[j] == nullptr || !(all[i]->data == all[j]->data)) continue;
      throw error(errc::usage, "parallel_for reduces twice into " + name_of(all[i]->data) +
                                   "; reduce into two data and combine them in a task");
    }
  }
}

template <fault What, bool HasSpace, class... Where>
constexpr void report_loop() {
  static_assert(HasSpace,
                "parallel_for goes over a shape, a box or a number of iterations, which comes "
                "before the dependencies: ctx.parallel_for(x.shape(), x.rw(), body)");
  if constexpr (What == fault::body_signature) {
    static_assert(What != fault::body_signature,
                  "parallel_for body must accept (one std::size_t per dimension of the shape, then "
                  "one view per non-token dependency and one T& per reduction, in their order)");
  } else {
    report<What, Where...>();
  }
}

/// Takes the arguments of `parallel_for` apart: what to go over, dependencies, the body.
template <class Space, class... Arguments>
class loop_arguments {
  static constexpr std::size_t dep_count = sizeof...(Arguments) - 1;
  static constexpr bool has_space = loop_space<std::remove_cvref_t<Space>>;
  using tuple = std::tuple<Arguments&&...>;
  using body_argument = std::tuple_element_t<dep_count, tuple>;
  using body_type = std::decay_t<body_argument>;

  template <std::size_t... I>
  static consteval fault find_fault(std::index_sequence<I...>) {
    constexpr fault deps = deps_fault<true, std::tuple_element_t<I, tuple>...>();
    constexpr fault last = last_fault<body_argument>();
    if constexpr (deps != fault::none || last != fault::none) {
      return deps != fault::none ? deps : last;
    } else if constexpr (has_space) {
      using list = dep_list<std::remove_cvref_t<std::tuple_element_t<I, tuple>>...>;
      constexpr std::size_t rank = decltype(to_box(std::declval<const Space&>()))::rank;
      return accepts_loop<body_type, list, rank>() ? fault::none : fault::body_signature;
    } else {
      return fault::none;
    }
  }
  template <std::size_t... I>
  static void run(untyped_context& in, const task_options& options, const Space& over,
                  const tuple& all, std::index_sequence<I...>) {
    using list = dep_list<std::remove_cvref_t<std::tuple_element_t<I, tuple>>...>;
    check_targets(std::get<I>(all)...);
    const box space = to_box(over);
    body_ptr work;
    if (!is_empty<body_type>(std::get<dep_count>(all))) {
      work = make_body(loop_call<body_type, decltype(space)::rank, list>(
          space, {std::get<I>(all).binding()...},
          static_cast<body_argument>(std::get<dep_count>(all))));
    }
    detail::submit(in, task_kind::parallel_for, options, std::move(work),
                   static_cast<std::tuple_element_t<I, tuple>>(std::get<I>(all))...);
  }

 public:
  static void submit(untyped_context& in, const task_options& options, const Space& over,
                     Arguments&&... arguments) {
    using deps = std::make_index_sequence<dep_count>;
    constexpr fault what = find_fault(deps{});
    report_loop<what, has_space, Space, Arguments...>();
    if constexpr (what == fault::none && has_space) {
      run(in, options, over, tuple(std::forward<Arguments>(arguments)...), deps{});
    }
  }
};

}  // namespace millstream::inline v1::detail
