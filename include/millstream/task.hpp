// SPDX-License-Identifier: Apache-2.0
/// Tasks: their options, what their bodies are given, and tasks whose list of dependencies is only
/// known at run time. `context::task` is in context.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <millstream/data.hpp>
#include <millstream/untyped.hpp>
#include <millstream/view.hpp>

namespace millstream::inline v1 {

/// Where a task's own asynchronous work belongs: the optional first parameter of a body, and the
/// result of `context::fence`. On a GPU machine:
///
///     ctx.task(x.rw(), [](ms::stream s, ms::view<double> v) {
///       scale<<<blocks, 256, 0, static_cast<cudaStream_t>(s.get())>>>(v.data(), v.size());
///     });
class stream {
 public:
  stream() noexcept = default;
  stream(void* native, std::uint64_t number, int device) noexcept
      : native_(native), number_(number), device_(device) {}
  explicit stream(const body_call& call) noexcept : stream(call.stream, call.queue, call.device) {}

  /// The native stream (a cudaStream_t or CUstream); null on host devices and host places, where
  /// the body itself is the work.
  [[nodiscard]] void* get() const noexcept { return native_; }
  /// Its number, never zero (a default-constructed stream has none).
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  /// Device number; -1 = host.
  [[nodiscard]] int device() const noexcept { return device_; }
  /// Blocks until everything queued on it so far has ended. Throws error(invalid_value) when it is
  /// gone.
  void synchronize() const { millstream::synchronize(number_); }

 private:
  void* native_ = nullptr;
  std::uint64_t number_ = 0;
  int device_ = -1;
};

/// What a task is besides its dependencies and its body. Give it first:
/// `ctx.task({.symbol = "axpy"}, x.read(), y.rw(), body)`.
struct task_options {
  std::string_view symbol{};  ///< name in errors and traces; read during the call only
  exec_place place{};
  source_site site = std::source_location::current();  ///< line of the braces
  bool uses_device = true;  ///< of a host function: see context_ref::host_launch
};

namespace detail {

/// "double", for messages. Looked for by the compiler, since tasks keep it for each view.
template <class T>
[[nodiscard]] consteval std::string_view type_name() noexcept {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  return text.substr(0, text.find_first_of(";]"));
}

/// What the compiler knows of a dependency's view.
struct view_type {
  std::string_view element;  ///< without const; empty for tokens
  bool is_const = false;
  std::size_t rank = 0;
};
template <class T, std::size_t Rank>
inline constexpr view_type type_of{type_name<std::remove_const_t<T>>(), std::is_const_v<T>, Rank};
inline constexpr view_type type_of_token{};

/// What a dynamic_task keeps of a dependency, to check `get`.
struct dynamic_view {
  const view_type* type;
  std::array<std::size_t, max_rank> extents;  ///< as many as the rank says
};

template <class T, std::size_t Rank>
[[nodiscard]] dynamic_view describe(const view_dep<T, Rank>& dep) noexcept {
  dynamic_view what;
  what.type = &type_of<T, Rank>;
  for (std::size_t d = 0; d != Rank; ++d)
    what.extents[d] = dep.extents.extent(d);
  return what;
}
[[nodiscard]] inline dynamic_view describe(const token_dep&) noexcept {
  dynamic_view what;
  what.type = &type_of_token;
  return what;
}

[[nodiscard]] inline std::string view_text(std::string_view element, bool is_const,
                                           std::size_t rank) {
  return "view<" + std::string(is_const ? "const " : "") + std::string(element) + ", " +
         std::to_string(rank) + ">";
}

template <class View>
struct view_traits;
template <class T, std::size_t Rank>
struct view_traits<view<T, Rank>> {
  using element = T;
  static constexpr std::size_t rank = Rank;
};

/// Views in the order of their dependencies. The first ones cost no allocation, and those that are
/// not used no store.
class view_list {
 public:
  view_list() noexcept {}  // NOLINT(modernize-use-equals-default): leaves `near_` as it is
  view_list(view_list&& other) noexcept { *this = std::move(other); }
  view_list& operator=(view_list&& other) noexcept {
    size_ = other.size_;
    far_ = std::move(other.far_);
    std::copy_n(other.near_.begin(), std::min(size_, near_.size()), near_.begin());
    return *this;
  }
  ~view_list() = default;

  void push_back(const dynamic_view& next) {
    if (size_ < near_.size()) {
      near_[size_] = next;
    } else {
      far_.push_back(next);
    }
    ++size_;
  }
  void pop_back() noexcept {
    if (size_-- > near_.size()) far_.pop_back();
  }
  [[nodiscard]] const dynamic_view& at(std::size_t index) const {
    return index < near_.size() ? near_[index] : far_.at(index - near_.size());
  }

 private:
  std::size_t size_ = 0;
  std::vector<dynamic_view> far_;
  std::array<dynamic_view, 8> near_;
};

template <class View>
inline constexpr bool is_view = false;
template <class T, std::size_t Rank>
inline constexpr bool is_view<view<T, Rank>> = true;
/// For static_asserts in overloads that are mistakes.
template <class T>
inline constexpr bool never = false;

/// Copies the untyped part of an lvalue dependency, moves that of a temporary.
[[nodiscard]] inline task_dep take(const task_dep& dep) {
  return dep;
}
[[nodiscard]] inline task_dep take(task_dep&& dep) noexcept {
  return std::move(dep);
}

/// The typed dependencies; `task_dep` itself has no view.
template <class Dep>
concept typed_dep = requires { typename std::remove_cvref_t<Dep>::binding_type; };

}  // namespace detail

/// A task whose dependencies are added one by one and whose body is the caller's own code between
/// `start()` and `end()`:
///
///     auto t = ctx.task();
///     for (auto& x : inputs) t.add_deps(x.read());
///     t.add_deps(sum.rw());
///     t.start();                 // on host devices: blocks until the data is ready
///     auto s = t.get<view<double>>(inputs.size());
///     ...
///     t.end();
///
/// On a GPU `start` only orders `get_stream()` behind the data: the views have addresses of device
/// memory, for kernels and copies queued on that stream, and the host must not follow them.
///
/// Leaving the scope by an exception, or otherwise without `end`, makes the task a failed one: what
/// it was to write is poisoned. Used by one thread at a time. See untyped_task for what is thrown.
class dynamic_task : public untyped_task {
 public:
  dynamic_task() noexcept = default;
  dynamic_task(const untyped_context& in, const task_options& options)
      : untyped_task(in, options.site) {
    if (options.place != exec_place{}) untyped_task::set_place(options.place);
    if (!options.symbol.empty()) untyped_task::set_symbol(options.symbol);
  }

  /// Before start.
  template <class... Deps>
  dynamic_task& add_deps(Deps&&... deps) {
    static_assert((detail::typed_dep<Deps> && ...),
                  "add_deps takes accesses, such as x.read(), y.write() or z.rw()");
    (add_one(std::forward<Deps>(deps)), ...);
    return *this;
  }
  dynamic_task& set_symbol(std::string_view name) {
    untyped_task::set_symbol(name);
    return *this;
  }
  dynamic_task& set_place(exec_place place) {
    untyped_task::set_place(place);
    return *this;
  }

  /// Between start and end: dependency `index`, tokens counted. `View` is `view<T, Rank>`, with
  /// const T for a `read()` (a writable one may be seen as const too). Throws error(invalid_type)
  /// for any other view, error(out_of_range) past the list, error(usage) when not open or for a
  /// token.
  template <class View>
  [[nodiscard]] View get(std::size_t index) const {
    static_assert(
        detail::is_view<View>,
        "get<View>(index) needs a view type, such as get<millstream::view<double, 1>>(0)");
    if constexpr (detail::is_view<View>) return view_of<View>(index);
  }
  /// Between start and end.
  [[nodiscard]] stream get_stream() const { return stream(call()); }

 private:
  template <class View>
  [[nodiscard]] View view_of(std::size_t index) const {
    using element = typename detail::view_traits<View>::element;
    constexpr std::size_t rank = View::rank;
    void* const block = pointer(index);
    const detail::dynamic_view& what = views_.at(index);
    const detail::view_type& type = *what.type;
    if (type.element != detail::type_name<std::remove_const_t<element>>() || type.rank != rank ||
        (type.is_const && !std::is_const_v<element>)) {
      throw_wrong_view(index, detail::view_text(detail::type_name<std::remove_const_t<element>>(),
                                                std::is_const_v<element>, rank));
    }
    std::array<std::size_t, rank> extents{};
    for (std::size_t d = 0; d != rank; ++d)
      extents[d] = what.extents[d];
    return View(static_cast<element*>(block), shape<rank>(extents));
  }
  template <class Dep>
  void add_one(Dep&& dep) {
    static_assert(!std::remove_cvref_t<Dep>::is_reduction,
                  "reduce() is for parallel_for; use rw() in a task");
    views_.push_back(detail::describe(dep));
    try {
      add_dep(detail::take(std::forward<Dep>(dep)));
    } catch (...) {
      views_.pop_back();
      throw;
    }
  }
  [[noreturn]] void throw_wrong_view(std::size_t index, const std::string& asked) const {
    const detail::view_type& what = *views_.at(index).type;
    const std::string given = detail::view_text(what.element, what.is_const, what.rank);
    throw error(errc::invalid_type, name() + " was asked for dependency " + std::to_string(index) +
                                        " as " + asked + ", but it is " + given + "; ask for get<" +
                                        given + ">(" + std::to_string(index) + ")");
  }

  detail::view_list views_;
};

namespace detail {

/// What can be wrong with the arguments of task, host_launch and parallel_for. Each has its own
/// message in `check_arguments`.
enum class fault {
  none,
  no_body,
  bare_data,
  untyped_access,
  late_option,
  unknown_argument,
  stray_reduction,
  body_not_kept,
  body_signature,
  kernel_signature,
};

template <class Argument, bool IsLoop>
[[nodiscard]] consteval fault dep_fault() {
  using plain = std::remove_cvref_t<Argument>;
  if constexpr (typed_dep<plain>) {
    return plain::is_reduction && !IsLoop ? fault::stray_reduction : fault::none;
  } else if constexpr (std::is_base_of_v<task_dep, plain>) {
    return fault::untyped_access;
  } else if constexpr (std::is_base_of_v<untyped_data, plain>) {
    return fault::bare_data;
  } else if constexpr (std::is_same_v<plain, exec_place> || std::is_same_v<plain, task_options>) {
    return fault::late_option;
  } else {
    return fault::unknown_argument;
  }
}

/// The first fault among the dependencies, in order.
template <bool IsLoop, class... Arguments>
[[nodiscard]] consteval fault deps_fault() {
  fault first = fault::none;
  ((first = first != fault::none ? first : dep_fault<Arguments, IsLoop>()), ...);
  return first;
}

template <class Argument>
[[nodiscard]] consteval fault last_fault() {
  using plain = std::remove_cvref_t<Argument>;
  if constexpr (std::is_base_of_v<task_dep, plain>) return fault::no_body;
  if constexpr (std::is_base_of_v<untyped_data, plain>) return fault::bare_data;
  if constexpr (!std::is_constructible_v<std::decay_t<Argument>, Argument>) {
    return fault::body_not_kept;
  }
  return fault::none;
}

/// The dependencies of one call: which of them give the body an argument.
template <class... Deps>
struct dep_list {
  static constexpr std::size_t kept_count = (std::size_t{0} + ... + (Deps::is_token ? 0U : 1U));
  [[nodiscard]] static consteval std::array<std::size_t, kept_count> kept() {
    std::array<std::size_t, kept_count> positions{};
    [[maybe_unused]] std::size_t next = 0;
    [[maybe_unused]] std::size_t position = 0;
    ((Deps::is_token ? ++position : positions[next++] = position++), ...);
    return positions;
  }
  static constexpr auto positions = kept();
  using bindings = std::tuple<typename Deps::binding_type...>;
  template <std::size_t I>
  using argument = typename std::tuple_element_t<positions[I], bindings>::argument;
  using sequence = std::make_index_sequence<kept_count>;
};

/// Whether `Body` can be called with `First...` and then the arguments of the dependencies.
template <class Body, class List, class... First>
[[nodiscard]] consteval bool accepts() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::is_invocable_v<Body&, First..., typename List::template argument<I>...>;
  }(typename List::sequence{});
}

/// The erased form of a task's body: what it needs to rebuild the views, and the user's callable.
template <class Body, class List>
class task_call {
 public:
  template <class Callable>
  task_call(typename List::bindings bindings, Callable&& body)
      : bindings_(std::move(bindings)), body_(std::forward<Callable>(body)) {}

  void operator()(const body_call& call) { invoke(call, typename List::sequence{}); }

 private:
  template <std::size_t... I>
  void invoke([[maybe_unused]] const body_call& call, std::index_sequence<I...>) {
    if constexpr (accepts<Body, List>()) {
      pass(argument<I>(call)...);
    } else {
      pass(stream(call), argument<I>(call)...);
    }
  }
  /// Bodies see the arguments as const, so that `auto&` works too.
  template <class... Values>
  void pass(const Values&... values) {
    static_cast<void>(body_(values...));
  }
  template <std::size_t I>
  [[nodiscard]] auto argument(const body_call& call) const {
    constexpr std::size_t position = List::positions[I];
    return std::get<position>(bindings_).bind(call.pointers[position]);
  }

  [[no_unique_address]] typename List::bindings bindings_;
  [[no_unique_address]] Body body_;
};

/// Submits `work` with these dependencies; the list lives on the stack during the call.
template <class... Deps>
void submit(untyped_context& in, task_kind kind, const task_options& options, body_ptr work,
            Deps&&... deps) {
  const std::array<task_dep, sizeof...(Deps)> list{take(std::forward<Deps>(deps))...};
  task_spec spec;
  spec.kind = kind;
  spec.place = options.place;
  spec.symbol = options.symbol;
  spec.site = options.site;
  if constexpr (sizeof...(Deps) > 0) {
    if (spec.site.file == nullptr) spec.site = list[0].site;
  }
  spec.deps = list;
  spec.uses_device = options.uses_device;
  in.submit(spec, std::move(work));
}

/// One readable message per fault. `Where` makes each call one of its own, so that every mistake of
/// a file is reported and not only the first of its kind.
template <fault What, class... Where>
constexpr void report() {
  static_assert(What != fault::no_body,
                "the last argument must be the body, a callable; for a task written between "
                "start() and end() use ctx.task() without arguments and add_deps()");
  static_assert(What != fault::bare_data,
                "a dependency must say how the task uses the data: write x.read(), x.write() or "
                "x.rw() instead of x");
  static_assert(What != fault::untyped_access,
                "an untyped dependency has no view to give to the body; use a logical_data, or "
                "submit() of untyped_context");
  static_assert(What != fault::late_option,
                "the place or the options of a task must be its first argument");
  static_assert(What != fault::unknown_argument,
                "arguments must be ([place or options,] dependencies such as x.read() or y.rw(), "
                "body)");
  static_assert(What != fault::stray_reduction,
                "reduce() is for parallel_for; use rw() or write() in other tasks");
  static_assert(What != fault::body_not_kept,
                "the body is kept until the task runs, so it must be copyable, or moved in with "
                "std::move(body)");
  static_assert(What != fault::body_signature,
                "task body must accept ([stream,] one view per non-token dependency, in their "
                "order, by value or const reference): view<const T, Rank> for read(), "
                "view<T, Rank> for write() and rw()");
  static_assert(What != fault::kernel_signature,
                "the body of a kernel task must accept (kernel_launcher&, one view per non-token "
                "dependency, in their order, by value or const reference)");
}

/// The name of a task in errors that come before it is submitted.
[[nodiscard]] inline std::string task_name(std::string_view what, std::string_view symbol) {
  return std::string(what) + (symbol.empty() ? "" : " '" + std::string(symbol) + "'");
}

/// A body of host code on a device that runs device code only.
[[noreturn]] inline void throw_needs_stream(std::string_view symbol, const std::string& machine) {
  throw error(errc::unsupported,
              task_name("task", symbol) +
                  " has a body of host code, since it takes no stream, which cannot run on the "
                  "devices of machine '" +
                  machine +
                  "'; take a millstream::stream first and launch on it, or give "
                  "exec_place::host()");
}

/// Refuses dependencies of host code that were given the memory of a device.
template <class... Arguments>
void check_host_memory(std::string_view what, std::string_view symbol, const Arguments&... all) {
  const auto check = [&](const auto& each) {
    if constexpr (std::is_base_of_v<task_dep, std::remove_cvref_t<decltype(each)>>) {
      if (each.place.what() != data_place::kind::device || each.data.is_token()) return;
      throw error(errc::invalid_value, task_name(what, symbol) + " is host code and cannot touch " +
                                           name_of(each.data) + " in the memory of " +
                                           to_string(each.place) +
                                           "; leave its data place out, or launch device code in "
                                           "a task");
    }
  };
  (check(all), ...);
}

/// Takes the arguments of `task` and `host_launch` apart: dependencies, then the body.
template <class... Arguments>
class task_arguments {
  static constexpr std::size_t dep_count = sizeof...(Arguments) - 1;
  using tuple = std::tuple<Arguments&&...>;
  using body_argument = std::tuple_element_t<dep_count, tuple>;
  using body_type = std::decay_t<body_argument>;

  template <std::size_t... I>
  static consteval fault find_fault(std::index_sequence<I...>) {
    constexpr fault deps = deps_fault<false, std::tuple_element_t<I, tuple>...>();
    constexpr fault last = last_fault<body_argument>();
    if constexpr (deps != fault::none || last != fault::none) {
      return deps != fault::none ? deps : last;
    } else {
      using list = dep_list<std::remove_cvref_t<std::tuple_element_t<I, tuple>>...>;
      return accepts<body_type, list>() || accepts<body_type, list, const stream&>()
                 ? fault::none
                 : fault::body_signature;
    }
  }
  template <std::size_t... I>
  static void run(untyped_context& in, task_kind kind, const task_options& options,
                  const tuple& all, std::index_sequence<I...>) {
    using list = dep_list<std::remove_cvref_t<std::tuple_element_t<I, tuple>>...>;
    body_ptr work;
    if (!is_empty<body_type>(std::get<dep_count>(all))) {
      work = make_body(task_call<body_type, list>(
          {std::get<I>(all).binding()...}, static_cast<body_argument>(std::get<dep_count>(all))));
    }
    detail::submit(in, kind, options, std::move(work),
                   static_cast<std::tuple_element_t<I, tuple>>(std::get<I>(all))...);
  }

  template <std::size_t... I>
  static consteval bool finds_views(std::index_sequence<I...>) {
    using list = dep_list<std::remove_cvref_t<std::tuple_element_t<I, tuple>>...>;
    return list::kept_count > 0 && accepts<body_type, list>();
  }

 public:
  /// Whether the body gets views and no stream: all it can do with them is to touch them.
  [[nodiscard]] static consteval bool is_host_code() {
    using deps = std::make_index_sequence<dep_count>;
    if constexpr (find_fault(deps{}) == fault::none) return finds_views(deps{});
    return false;
  }

  static void submit(untyped_context& in, task_kind kind, const task_options& options,
                     Arguments&&... arguments) {
    using deps = std::make_index_sequence<dep_count>;
    constexpr fault what = find_fault(deps{});
    report<what, Arguments...>();
    if constexpr (what == fault::none) {
      run(in, kind, options, tuple(std::forward<Arguments>(arguments)...), deps{});
    }
  }
};

}  // namespace detail

}  // namespace millstream::inline v1
