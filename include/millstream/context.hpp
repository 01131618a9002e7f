// SPDX-License-Identifier: Apache-2.0
/// The context: where a program names its data and submits its tasks.
///
///     std::vector<double> x(n, 1.0), y(n, 2.0);      // before the context: see `context`
///     millstream::context ctx;
///     auto lx = ctx.logical_data(x).set_symbol("x");
///     auto ly = ctx.logical_data(y).set_symbol("y");
///     ctx.task(lx.read(), ly.rw(), [alpha](auto x, auto y) {
///       for (std::size_t i = 0; i < y.size(); ++i) y[i] += alpha * x[i];
///     });
///     ctx.finalize();                                // y has its value now
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <millstream/array.hpp>
#include <millstream/data.hpp>
#include <millstream/kernel_task.hpp>
#include <millstream/parallel_for.hpp>
#include <millstream/shape.hpp>
#include <millstream/task.hpp>
#include <millstream/untyped.hpp>
#include <millstream/view.hpp>

namespace millstream::inline v1 {

namespace detail {

template <class First>
concept leads_task = std::is_same_v<std::remove_cvref_t<First>, exec_place> ||
                     std::is_same_v<std::remove_cvref_t<First>, task_options> ||
                     std::is_same_v<std::remove_cvref_t<First>, std::source_location>;

/// A graph of ours, a native one, or its number.
template <class Graph>
inline constexpr bool is_graph =
    std::is_same_v<Graph, recorded_graph> || std::is_same_v<Graph, std::uint64_t> ||
    (std::is_pointer_v<Graph> && !std::is_arithmetic_v<std::remove_pointer_t<Graph>>);

/// One value, as opposed to the containers, pointers and shapes that have overloads of their own.
template <class Value>
concept scalar_value =
    (std::is_arithmetic_v<std::remove_cvref_t<Value>> ||
     std::is_enum_v<std::remove_cvref_t<Value>> || std::is_class_v<std::remove_cvref_t<Value>>) &&
    std::is_trivially_copyable_v<std::remove_cvref_t<Value>>;

template <class Class>
inline constexpr bool has_own_overload = false;
template <class T, std::size_t N>
inline constexpr bool has_own_overload<std::span<T, N>> = true;
template <class T, std::size_t N>
inline constexpr bool has_own_overload<std::array<T, N>> = true;
template <class T, std::size_t Rank>
inline constexpr bool has_own_overload<view<T, Rank>> = true;
template <std::size_t Rank>
inline constexpr bool has_own_overload<shape<Rank>> = true;
template <class T, std::size_t Rank>
inline constexpr bool has_own_overload<typed_shape<T, Rank>> = true;

/// Row-major shape of a C array type, e.g. (2, 3) for double[2][3].
template <class Array, std::size_t... D>
[[nodiscard]] consteval shape<sizeof...(D)> shape_of_array(std::index_sequence<D...>) {
  return std::array<std::size_t, sizeof...(D)>{std::extent_v<Array, D>...};
}

}  // namespace detail

/// A context without the duty to close it: copies share the context, as untyped_context. Take it as
/// a parameter, or keep it by value in a body that submits further tasks. It is made from a
/// `context`, which must be there for as long as tasks are submitted.
///
/// **Data.** A registered buffer belongs to the user and must live, unchanged by anybody else,
/// until `finalize`, or until the last handle is dropped and the last task that uses it ended; then
/// it holds the result. Const data is registered read-only. Buffers are contiguous and row-major.
/// An overload that takes a vector by move, or a shared pointer, shares in the ownership instead.
///
/// **Bodies** are moved (or copied) in, and run LATER, on another thread, on the host machine and
/// on every host place, and at once on a GPU. So a body must not capture anything by reference that
/// may be gone by then, nor views or pointers of other tasks: write `[alpha]`, not `[&]`. The
/// library cannot detect this. What a body returns is ignored; what it throws makes the task a
/// failed one: its outputs are poisoned, tasks that read them are skipped, and the next `wait`,
/// `finalize` or `check_errors` throws.
///
/// Any thread may use any context. All functions throw `error`, before anything was changed where
/// the cause is a broken rule.
class context_ref : public untyped_context {
 public:
  explicit context_ref(untyped_context shared) : untyped_context(std::move(shared)) {
    for (const std::string& name : where().capabilities()) {
      if (name == "runs_jobs") runs_jobs_ = true;
      if (name == "host_memory") host_memory_ = true;
      if (name == "values") values_ = true;
    }
  }

  // Data. Overloads that deduce the element type have a first template parameter that is no type,
  // which keeps them out of calls such as logical_data<double>(0, 4).

  /// Contiguous elements of the user's.
  template <int = 0, class T, std::size_t N>
  [[nodiscard]] millstream::logical_data<T, 1> logical_data(
      std::span<T, N> elements, data_place place = data_place::host(),
      std::source_location at = std::source_location::current()) {
    return add(elements.data(), shape<1>(elements.size()), place, at);
  }
  template <int = 0, class T, class Allocator>
  [[nodiscard]] millstream::logical_data<T, 1> logical_data(
      std::vector<T, Allocator>& elements, data_place place = data_place::host(),
      std::source_location at = std::source_location::current()) {
    return add_vector(elements, place, at);
  }
  template <int = 0, class T, class Allocator>
  [[nodiscard]] millstream::logical_data<const T, 1> logical_data(
      const std::vector<T, Allocator>& elements, data_place place = data_place::host(),
      std::source_location at = std::source_location::current()) {
    return add_vector(elements, place, at);
  }
  template <int = 0, class T, std::size_t N>
  [[nodiscard]] auto logical_data(std::array<T, N>& elements, data_place place = data_place::host(),
                                  std::source_location at = std::source_location::current()) {
    return add(elements.data(), shape<1>(N), place, at);
  }
  template <int = 0, class T, std::size_t N>
  [[nodiscard]] auto logical_data(const std::array<T, N>& elements,
                                  data_place place = data_place::host(),
                                  std::source_location at = std::source_location::current()) {
    return add(elements.data(), shape<1>(N), place, at);
  }
  /// A C array of one or more dimensions: double[2][3] has rank 2.
  template <int = 0, class T, std::size_t N>
  [[nodiscard]] auto logical_data(T (&elements)[N], data_place place = data_place::host(),
                                  std::source_location at = std::source_location::current()) {
    using element = std::remove_all_extents_t<T>;
    constexpr auto extents =
        detail::shape_of_array<T[N]>(std::make_index_sequence<std::rank_v<T[N]>>{});
    return add(static_cast<element*>(static_cast<cv_void<element>*>(elements)), extents, place, at);
  }
  /// A view of contiguous elements. Throws error(invalid_value) for one with gaps.
  template <int = 0, class T, std::size_t Rank>
  [[nodiscard]] millstream::logical_data<T, Rank> logical_data(
      const view<T, Rank>& elements, data_place place = data_place::host(),
      std::source_location at = std::source_location::current()) {
    if (!elements.is_contiguous()) {
      throw error(errc::invalid_value, "view of shape " + to_string(elements.shape()) +
                                           " has gaps between its rows and cannot be registered; "
                                           "copy it into contiguous memory first");
    }
    return add(elements.data(), elements.shape(), place, at);
  }
  /// Elements at an address: `logical_data(pointer, rows, columns)`.
  template <int = 0, class T>
  [[nodiscard]] auto logical_data(T* elements, std::size_t n0,
                                  data_place place = data_place::host(),
                                  std::source_location at = std::source_location::current()) {
    return add(elements, shape<1>(n0), place, at);
  }
  template <int = 0, class T>
  [[nodiscard]] auto logical_data(T* elements, std::size_t n0, std::size_t n1,
                                  data_place place = data_place::host(),
                                  std::source_location at = std::source_location::current()) {
    return add(elements, shape<2>(n0, n1), place, at);
  }
  template <int = 0, class T>
  [[nodiscard]] auto logical_data(T* elements, std::size_t n0, std::size_t n1, std::size_t n2,
                                  data_place place = data_place::host(),
                                  std::source_location at = std::source_location::current()) {
    return add(elements, shape<3>(n0, n1, n2), place, at);
  }
  template <int = 0, class T>
  [[nodiscard]] auto logical_data(T* elements, std::size_t n0, std::size_t n1, std::size_t n2,
                                  std::size_t n3, data_place place = data_place::host(),
                                  std::source_location at = std::source_location::current()) {
    return add(elements, shape<4>(n0, n1, n2, n3), place, at);
  }
  template <int = 0, class T, std::size_t Rank>
  [[nodiscard]] millstream::logical_data<T, Rank> logical_data(
      T* elements, const shape<Rank>& extents, data_place place = data_place::host(),
      std::source_location at = std::source_location::current()) {
    return add(elements, extents, place, at);
  }
  template <int = 0, class T, std::size_t Rank>
  [[nodiscard]] millstream::logical_data<T, Rank> logical_data(
      T* elements, const std::array<std::size_t, Rank>& extents,
      data_place place = data_place::host(),
      std::source_location at = std::source_location::current()) {
    return add(elements, shape<Rank>(extents), place, at);
  }
  template <int = 0, class Pointer>
    requires(std::is_pointer_v<std::remove_cvref_t<Pointer>> ||
             std::is_null_pointer_v<std::remove_cvref_t<Pointer>>)
  void logical_data(Pointer&& /*elements*/) {
    static_assert(detail::never<Pointer>,
                  "a pointer needs the number of elements: write logical_data(p, n)");
  }
  template <int = 0, class Text>
    requires(std::is_same_v<std::remove_cvref_t<Text>, std::string>)
  void logical_data(Text&& /*text*/) {
    static_assert(detail::never<Text>,
                  "register the characters: write logical_data(std::span(text))");
  }
  /// One variable of the user's, a number or a trivially copyable struct: rank 0.
  template <int = 0, detail::scalar_value T>
    requires(!detail::has_own_overload<std::remove_const_t<T>>)
  [[nodiscard]] millstream::logical_data<T, 0> logical_data(
      T& value, data_place place = data_place::host(),
      std::source_location at = std::source_location::current()) {
    return add(&value, shape<0>{}, place, at);
  }
  /// A value: the context keeps a copy of it. Get it back with `wait`.
  template <int = 0, detail::scalar_value T>
    requires(std::is_same_v<T, std::remove_cvref_t<T>> && !detail::has_own_overload<T>)
  [[nodiscard]] millstream::logical_data<T, 0> logical_data(
      T&& value, std::source_location at = std::source_location::current()) {
    auto owner = std::make_shared<T>(value);
    T* const block = owner.get();
    return add(block, shape<0>{}, data_place::host(), at, std::move(owner));
  }

  // Data that the context owns, or owns a share of.

  /// Takes the vector over. Get the result with `wait`.
  template <int = 0, class T>
  [[nodiscard]] millstream::logical_data<T, 1> logical_data(
      std::vector<T>&& elements, std::source_location at = std::source_location::current()) {
    return logical_data(std::make_shared<std::vector<T>>(std::move(elements)), at);
  }
  /// Keeps the vector alive for as long as work may touch it. Its size must not change.
  template <int = 0, class T>
  [[nodiscard]] millstream::logical_data<T, 1> logical_data(
      std::shared_ptr<std::vector<T>> elements,
      std::source_location at = std::source_location::current()) {
    if (elements == nullptr) {
      throw error(errc::invalid_value, "shared pointer to a vector is null; give one to a vector");
    }
    std::vector<T>& alias = *elements;
    return add_vector(alias, data_place::host(), at, std::move(elements));
  }
  template <int = 0, class T, std::size_t Rank>
  [[nodiscard]] millstream::logical_data<T, Rank> logical_data(
      std::shared_ptr<T[]> elements, const shape<Rank>& extents,
      std::source_location at = std::source_location::current()) {
    T* const block = elements.get();
    return add(block, extents, data_place::host(), at,
               std::const_pointer_cast<std::remove_const_t<T>[]>(std::move(elements)));
  }

  // Data without content: the first task must `write` it. Its memory comes and goes with its use.

  template <int = 0, class T, std::size_t Rank>
  [[nodiscard]] millstream::logical_data<T, Rank> logical_data(
      const typed_shape<T, Rank>& extents,
      std::source_location at = std::source_location::current()) {
    return make<T>(static_cast<const shape<Rank>&>(extents), at);
  }
  /// `logical_data<double>(rows, columns)`; without extents: one element of rank 0.
  template <class T>
  [[nodiscard]] millstream::logical_data<T, 0> logical_data(
      std::source_location at = std::source_location::current()) {
    return make<T>(shape<0>{}, at);
  }
  template <class T>
  [[nodiscard]] millstream::logical_data<T, 1> logical_data(
      std::size_t n0, std::source_location at = std::source_location::current()) {
    return make<T>(shape<1>(n0), at);
  }
  template <class T>
  [[nodiscard]] millstream::logical_data<T, 2> logical_data(
      std::size_t n0, std::size_t n1, std::source_location at = std::source_location::current()) {
    return make<T>(shape<2>(n0, n1), at);
  }
  template <class T>
  [[nodiscard]] millstream::logical_data<T, 3> logical_data(
      std::size_t n0, std::size_t n1, std::size_t n2,
      std::source_location at = std::source_location::current()) {
    return make<T>(shape<3>(n0, n1, n2), at);
  }
  template <class T>
  [[nodiscard]] millstream::logical_data<T, 4> logical_data(
      std::size_t n0, std::size_t n1, std::size_t n2, std::size_t n3,
      std::source_location at = std::source_location::current()) {
    return make<T>(shape<4>(n0, n1, n2, n3), at);
  }
  /// Something that only orders tasks. It may be read at once.
  [[nodiscard]] millstream::token token(std::source_location at = std::source_location::current()) {
    return millstream::token(make_token({}, at));
  }

  // Tasks.

  /// `task([place or options,] deps..., body)` submits a task. Its body takes, optionally, a
  /// `stream`, then one view per dependency, in their order, tokens left out, by value or const
  /// reference: `view<const T, Rank>` for `read()`, `view<T, Rank>` for `write()` and `rw()`.
  ///
  /// A body that takes a `stream` can serve host devices (null stream; the body is the work) and
  /// GPUs: there it is called at once, in the calling thread, queues the work on the stream with
  /// the runtime or driver API, and must not follow the views' addresses, which are those of device
  /// memory (`x.data()`). A body that takes views and no stream is host code: on a GPU it throws
  /// error(unsupported). May block while another thread has a conflicting task open.
  template <class First, class... Rest>
    requires(!detail::leads_task<First>)
  void task(First&& first, Rest&&... rest) {
    task(unnamed(), std::forward<First>(first), std::forward<Rest>(rest)...);
  }
  template <class First, class... Rest>
    requires(!detail::leads_task<First>)
  void task(exec_place place, First&& first, Rest&&... rest) {
    task(unnamed(place), std::forward<First>(first), std::forward<Rest>(rest)...);
  }
  template <class First, class... Rest>
    requires(!detail::leads_task<First>)
  void task(const task_options& options, First&& first, Rest&&... rest) {
    using arguments = detail::task_arguments<First, Rest...>;
    if constexpr (arguments::is_host_code()) {
      if (!runs_host_code(options.place))
        detail::throw_needs_stream(options.symbol, where().name());
      check_host_memory("task", options, first, rest...);
    }
    arguments::submit(*this, task_kind::task, options, std::forward<First>(first),
                      std::forward<Rest>(rest)...);
  }
  template <class First, class... Rest>
    requires(detail::leads_task<First>)
  void task(exec_place /*place*/, First&& /*second*/, Rest&&... /*rest*/) {
    static_assert(detail::never<First>, "a task takes one place or options, as its first argument");
  }
  /// A task to be filled in: see dynamic_task.
  [[nodiscard]] dynamic_task task(std::source_location at = std::source_location::current()) {
    return {*this, {.symbol = {}, .place = {}, .site = at}};
  }
  [[nodiscard]] dynamic_task task(exec_place place,
                                  std::source_location at = std::source_location::current()) {
    return {*this, {.symbol = {}, .place = place, .site = at}};
  }
  [[nodiscard]] dynamic_task task(const task_options& options) { return {*this, options}; }

  /// `kernel_task([place or options,] deps..., body)` launches kernels that the body describes:
  ///
  ///     ctx.kernel_task(x.read(), y.rw(), [&](ms::kernel_launcher& k, auto x, auto y) {
  ///       k.launch(axpy, blocks, 256, alpha, x.data(), y.data(), y.size());
  ///     });
  ///
  /// The body is called at once, in the calling thread, before the data are there: its views say
  /// where they will be. What it launches runs in order, as soon as the data are ready, on the
  /// device; each is one node of a recorded context. Where devices run host code, a launch calls a
  /// host function once, later, on the device's thread. A task with a poisoned input is skipped and
  /// its body is not called. What the body throws is thrown here: if a `launch` was refused, the
  /// data are as before; else the task has failed. Throws error(invalid_value) for the host place.
  template <class First, class... Rest>
    requires(!detail::leads_task<First>)
  void kernel_task(First&& first, Rest&&... rest) {
    kernel_task(unnamed(), std::forward<First>(first), std::forward<Rest>(rest)...);
  }
  template <class First, class... Rest>
    requires(!detail::leads_task<First>)
  void kernel_task(exec_place place, First&& first, Rest&&... rest) {
    kernel_task(unnamed(place), std::forward<First>(first), std::forward<Rest>(rest)...);
  }
  template <class First, class... Rest>
    requires(!detail::leads_task<First>)
  void kernel_task(const task_options& options, First&& first, Rest&&... rest) {
    detail::kernel_arguments<First, Rest...>::submit(*this, options, std::forward<First>(first),
                                                     std::forward<Rest>(rest)...);
  }

  /// `add_graph([place or options,] graph, deps...)`: a graph that was made elsewhere as one task.
  /// The graph is what `to_graph` gave, or a native one (a CUgraph), which stays the caller's and
  /// may be destroyed after this: see `untyped_context::add_graph`.
  using untyped_context::add_graph;
  template <class Graph, class... Deps>
    requires detail::is_graph<Graph>
  void add_graph(const task_options& options, const Graph& graph, const Deps&... deps) {
    static_assert((std::is_base_of_v<task_dep, Deps> && ...),
                  "after the graph come dependencies: write x.read(), y.rw()");
    const std::array<task_dep, sizeof...(Deps)> list{static_cast<const task_dep&>(deps)...};
    task_spec what;
    what.place = options.place;
    what.symbol = options.symbol;
    what.site = options.site;
    if constexpr (sizeof...(Deps) > 0) {
      if (what.site.file == nullptr) what.site = list[0].site;
    }
    what.deps = list;
    if constexpr (std::is_pointer_v<Graph>) {
      untyped_context::add_graph(what, reinterpret_cast<std::uint64_t>(graph));
    } else {
      untyped_context::add_graph(what, graph);
    }
  }
  template <class Graph, class... Deps>
    requires detail::is_graph<Graph>
  void add_graph(exec_place place, const Graph& graph, const Deps&... deps) {
    add_graph(unnamed(place), graph, deps...);
  }
  template <class Graph, class... Deps>
    requires detail::is_graph<Graph>
  void add_graph(const Graph& graph, const Deps&... deps) {
    add_graph(unnamed(), graph, deps...);
  }

  /// `host_launch([options,] deps..., body)`: as `task`, but the body runs on one of the library's
  /// worker threads and its views are of host memory, on every machine (a dependency that was given
  /// a device's memory is error(invalid_value) on a GPU machine). It may take long, may use the
  /// library and the GPU and wait for the GPU, but must not wait for its own context. A task for a
  /// GPU that comes after it is submitted when it has ended, and that call returns then.
  ///
  /// In a recorded context on a GPU it closes the stage. One that is declared not to use the
  /// device, `host_launch({.uses_device = false}, deps..., body)`, becomes a node instead, called
  /// on a thread of the driver's: it must make no call of CUDA, must not use this library on that
  /// machine (error(usage), which names the task), and must not wait for a thread that does. What
  /// comes after it in the same stage runs even if it throws; data are poisoned as always, and no
  /// registered buffer is written back with what was made of its result.
  template <class First, class... Rest>
    requires(!detail::leads_task<First>)
  void host_launch(First&& first, Rest&&... rest) {
    host_launch(unnamed(), std::forward<First>(first), std::forward<Rest>(rest)...);
  }
  template <class First, class... Rest>
    requires(!detail::leads_task<First>)
  void host_launch(const task_options& options, First&& first, Rest&&... rest) {
    check_host_memory("host_launch", options, first, rest...);
    detail::task_arguments<First, Rest...>::submit(*this, task_kind::host_launch, on_host(options),
                                                   std::forward<First>(first),
                                                   std::forward<Rest>(rest)...);
  }

  /// `parallel_for([place or options,] shape, deps..., body)` calls the body once per element of
  /// the shape (a `shape`, a `box`, or a number of iterations), in any order as far as the body can
  /// know. The body takes one std::size_t per dimension, outermost first, then one view per
  /// dependency as in `task`, and for `reduce()` a `T&`, its partial result. The loop is one task:
  /// host places run it as one job, so cut large loops into several. Throws error(unsupported)
  /// where the place runs device code only, as GPUs do: launch a kernel in a `task` there.
  template <class Space, class First, class... Rest>
    requires(!detail::leads_task<Space>)
  void parallel_for(const Space& over, First&& first, Rest&&... rest) {
    parallel_for(unnamed(), over, std::forward<First>(first), std::forward<Rest>(rest)...);
  }
  template <class Space, class First, class... Rest>
    requires(!detail::leads_task<Space>)
  void parallel_for(exec_place place, const Space& over, First&& first, Rest&&... rest) {
    parallel_for(unnamed(place), over, std::forward<First>(first), std::forward<Rest>(rest)...);
  }
  template <class Space, class First, class... Rest>
    requires(!detail::leads_task<Space>)
  void parallel_for(const task_options& options, const Space& over, First&& first, Rest&&... rest) {
    check_runs_loops(options);
    check_host_memory("parallel_for", options, first, rest...);
    detail::loop_arguments<Space, First, Rest...>::submit(
        *this, options, over, std::forward<First>(first), std::forward<Rest>(rest)...);
  }

  /// Sets every element. An element has 1 to 16 bytes.
  template <class T, std::size_t Rank>
  void fill(const millstream::logical_data<T, Rank>& target, const std::type_identity_t<T>& value,
            std::source_location at = std::source_location::current()) {
    fill(target, value, {.symbol = {}, .place = {}, .site = at});
  }
  template <class T, std::size_t Rank>
  void fill(const millstream::logical_data<T, Rank>& target, const std::type_identity_t<T>& value,
            const task_options& options) {
    static_assert(sizeof(T) <= 16, "fill takes elements of at most 16 bytes; use parallel_for");
    std::array<std::byte, sizeof(T)> pattern;
    std::memcpy(pattern.data(), &value, sizeof(T));
    view_dep<T, Rank> dep = target.write();
    dep.site = options.site;
    untyped_context::fill(dep, pattern, options.place, options.symbol);
  }
  template <detail::typed_dep Dep, class Value>
    requires(!std::is_convertible_v<Value, std::span<const std::byte>>)
  void fill(const Dep& /*access*/, const Value& /*value*/) {
    static_assert(detail::never<Dep>,
                  "fill takes the data: write fill(x, v), not fill(x.write(), v)");
  }
  using untyped_context::fill;

  // Ends.

  /// A stream that has ended its work when everything submitted so far has ended. Does not block,
  /// but on a GPU machine until the host functions submitted so far have ended.
  [[nodiscard]] stream fence() {
    const std::uint64_t number = untyped_context::fence();
    // Where device memory is host memory there is no native stream, only a number.
    void* const native =
        host_memory_ ? nullptr : reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
    return {native, number, -1};
  }

  /// Blocks until the value is known and gives a copy of it: a T for rank 0, else an array. Throws
  /// every failure not yet thrown, as one error(task_failed); else error(poisoned) or
  /// error(not_written) where the datum has no value. Throws error(deadlock) in a body of this
  /// context, and error(out_of_memory) where the process has no room for the copy.
  template <class T>
  std::remove_const_t<T> wait(const millstream::logical_data<T, 0>& data) {
    static_assert(std::is_default_constructible_v<T>,
                  "wait needs elements with a default constructor; read the value in host_launch");
    std::remove_const_t<T> value{};
    wait_for(data, &value);
    return value;
  }
  template <class T, std::size_t Rank>
  array<std::remove_const_t<T>, Rank> wait(const millstream::logical_data<T, Rank>& data) {
    // Data without a value says so before there is memory for a copy.
    with_failures([&] { await_content(data); });
    auto values = room_for(data);
    wait_for(data, values.data());
    return values;
  }
  /// Blocks until all work that uses the token so far has ended.
  void wait(const millstream::token& order) { wait_for(order, nullptr); }
  template <detail::typed_dep Dep>
  void wait(const Dep& /*access*/) {
    static_assert(detail::never<Dep>, "wait takes the data: write wait(x), not wait(x.read())");
  }

 private:
  template <class T>
  using cv_void = std::conditional_t<std::is_const_v<T>, const void, void>;

  template <class T, std::size_t Rank>
  [[nodiscard]] millstream::logical_data<T, Rank> add(T* block, const shape<Rank>& extents,
                                                      data_place place, source_site site,
                                                      std::shared_ptr<void> owner = {}) {
    registration what;
    what.block = const_cast<std::remove_const_t<T>*>(block);
    what.bytes = detail::checked_bytes(extents, sizeof(T));
    what.place = place;
    what.readonly = std::is_const_v<T>;
    what.site = site;
    what.owner = std::move(owner);
    return millstream::logical_data<T, Rank>(register_data(what), extents);
  }
  template <class Vector>
  [[nodiscard]] auto add_vector(Vector& elements, data_place place, source_site site,
                                std::shared_ptr<void> owner = {}) {
    constexpr bool has_elements = !std::is_same_v<typename Vector::value_type, bool>;
    static_assert(has_elements,
                  "std::vector<bool> has no elements in memory; use "
                  "std::vector<char>");
    if constexpr (has_elements) {
      return add(elements.data(), shape<1>(elements.size()), place, site, std::move(owner));
    } else {
      return millstream::logical_data<bool, 1>();
    }
  }
  template <class T, std::size_t Rank>
  [[nodiscard]] millstream::logical_data<T, Rank> make(const shape<Rank>& extents,
                                                       source_site site) {
    static_assert(!std::is_const_v<T>, "data without content must be writable");
    return millstream::logical_data<T, Rank>(
        make_data(detail::checked_bytes(extents, sizeof(T)), {}, site), extents);
  }

  [[nodiscard]] static task_options unnamed(exec_place place = {}) noexcept {
    return {.symbol = {}, .place = place, .site = {}};
  }
  [[nodiscard]] static task_options on_host(const task_options& options) {
    if (options.place != exec_place{} && options.place != exec_place::host()) {
      throw error(errc::invalid_value, "host_launch was given " + to_string(options.place) +
                                           ", but runs on the host; leave the place out");
    }
    return {.symbol = options.symbol,
            .place = exec_place::host(),
            .site = options.site,
            .uses_device = options.uses_device};
  }
  [[nodiscard]] bool runs_host_code(exec_place place) const noexcept {
    return runs_jobs_ || place.what() == exec_place::kind::host;
  }
  void check_runs_loops(const task_options& options) const {
    if (runs_host_code(options.place)) return;
    throw error(errc::unsupported, detail::task_name("parallel_for", options.symbol) +
                                       " cannot run on the devices of machine '" + where().name() +
                                       "', which take device code only; give exec_place::host(), "
                                       "or launch a kernel in a task");
  }
  template <class... Arguments>
  void check_host_memory(std::string_view what, const task_options& options,
                         const Arguments&... all) const {
    if (host_memory_ || !values_) return;
    detail::check_host_memory(what, options.symbol, all...);
  }

  template <class T, std::size_t Rank>
  [[nodiscard]] static array<std::remove_const_t<T>, Rank> room_for(
      const millstream::logical_data<T, Rank>& data) {
    try {
      return array<std::remove_const_t<T>, Rank>(data.shape());
    } catch (const std::bad_alloc&) {
      throw error(errc::out_of_memory, "wait has no memory for a copy of " + detail::name_of(data) +
                                           " with " + std::to_string(data.bytes()) +
                                           " bytes; free some, or use the data in a task");
    }
  }
  template <class Call>
  void with_failures(Call&& call) {
    try {
      call();
    } catch (const error& why) {
      // The failure that left the datum without a value says more than that it has none.
      if (why.code() == errc::poisoned || why.code() == errc::not_written) raise(take_failures());
      throw;
    }
  }
  void wait_for(const untyped_data& data, void* to) {
    with_failures([&] { read_back(data, to); });
    raise(take_failures());
  }

  bool runs_jobs_ = false;    // devices run host code, so parallel_for works there
  bool host_memory_ = false;  // the host can touch the memory of devices; no native streams
  bool values_ = false;       // there is any memory to touch
};

/// The owner of a context. Movable, not copyable; pass `context&` or a `context_ref` on.
///
/// **The destructor waits**, as that of std::jthread does, and unlike all others of this library:
/// tasks in flight use buffers of the user's, which usually die at the end of the same block.
/// It finalizes the context unless `finalize` was called, also when an exception is leaving the
/// block. Failures that nobody has seen then go to standard error, since a destructor cannot throw:
/// call `finalize()` to get them. Buffers must be declared BEFORE the context, since C++ destroys
/// in the opposite order; those declared after it need a `finalize()` before the block ends.
class context : public context_ref {
 public:
  /// Opens the machine at first use. Throws error(invalid_value) for bad options and
  /// error(unavailable) where the machine cannot be opened.
  explicit context(context_options options = {})
      : context_ref(untyped_context(std::move(options))) {}
  explicit context(const machine& on) : context(on_machine(on)) {}

  context(context&& other) noexcept = default;
  /// Closes the context that was here, as the destructor does.
  context& operator=(context&& other) noexcept {
    close();
    context_ref::operator=(std::move(other));
    return *this;
  }
  ~context() { close(); }

 private:
  [[nodiscard]] static context_options on_machine(const machine& on) {
    context_options options;
    options.on = on;
    return options;
  }
  void close() noexcept {
    if (state() == nullptr || is_finished()) return;
    try {
      finalize();
    } catch (const std::exception& unseen) {
      std::fprintf(stderr, "millstream: context ended with an error that nobody has seen: %s\n",
                   unseen.what());
      give_up();
    }
  }
  /// It could not be finalized, for instance because a task is open; what was submitted still uses
  /// buffers of the user's.
  void give_up() noexcept {
    try {
      if (!is_finished()) drain();
    } catch (const std::exception& why) {
      std::fprintf(stderr, "millstream: context was left while its tasks run: %s\n", why.what());
    }
    abandon();
  }
};

}  // namespace millstream::inline v1
