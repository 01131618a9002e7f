// SPDX-License-Identifier: Apache-2.0
/// Kernel tasks: kernels that are described to the library, which launches them.
/// `context::kernel_task` is in context.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include <millstream/kernel.hpp>
#include <millstream/task.hpp>
#include <millstream/untyped.hpp>

namespace millstream::inline v1 {

/// A kernel with the types of its parameters, device code, host code, or both: then the same
/// program runs on machines with GPUs and without.
///
///     ms::kernel<void(double, const double*, double*, std::size_t)> axpy(
///         code.kernel("axpy"), &axpy_on_host);
///
/// The host function is called once per launch and does the work of all threads.
template <class Signature>
class kernel;
template <class... Parameters>
class kernel<void(Parameters...)> {
 public:
  using host_function = void (*)(Parameters...);

  kernel(device_kernel device, host_function host) noexcept
      : device_(std::move(device)), host_(host) {}
  explicit kernel(device_kernel device) noexcept : kernel(std::move(device), nullptr) {}
  explicit kernel(host_function host) noexcept : kernel(device_kernel(), host) {}

  [[nodiscard]] const device_kernel& on_device() const noexcept { return device_; }
  [[nodiscard]] host_function on_host() const noexcept { return host_; }

 private:
  device_kernel device_;
  host_function host_ = nullptr;
};
template <class... Parameters>
kernel(device_kernel, void (*)(Parameters...)) -> kernel<void(Parameters...)>;
template <class... Parameters>
kernel(void (*)(Parameters...)) -> kernel<void(Parameters...)>;

namespace detail {

template <class T>
[[nodiscard]] kernel_argument as_argument(const T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T>,
                "arguments of kernels are copied to the device as bytes: pass numbers, pointers "
                "such as x.data(), views, or trivially copyable structs");
  return {&value, sizeof(T), alignof(T), false};
}

template <class... Values>
[[nodiscard]] std::array<kernel_argument, sizeof...(Values)> as_arguments(
    const Values&... values) noexcept {
  return {as_argument(values)...};
}

}  // namespace detail

/// What the body of a kernel task launches with, once or several times. Launches run one after the
/// other, in the order of the calls, when the body has returned. Arguments are copied during the
/// call. Valid in the body only.
class kernel_launcher {
 public:
  explicit kernel_launcher(untyped_task& in) noexcept : task_(&in) {}

  /// A kernel with known parameters: the arguments are converted to them, as in a call. Throws
  /// error(invalid_value) for a shape that is not positive and for a kernel that takes other
  /// parameters, where the machine can tell; error(unsupported) if the kernel has no code for it.
  template <class... Parameters, class... Arguments>
  void launch(const kernel<void(Parameters...)>& what, const launch_config& how,
              Arguments&&... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                  "launch takes one argument for each parameter of the kernel");
    if constexpr (sizeof...(Parameters) == sizeof...(Arguments)) {
      const std::tuple<std::decay_t<Parameters>...> values(
          static_cast<std::decay_t<Parameters>>(std::forward<Arguments>(arguments))...);
      body_ptr call;
      if (what.on_host() != nullptr) {
        call = make_body([function = what.on_host(), values](const body_call&) {
          std::apply(function, values);
        });
      }
      std::apply(
          [&](const auto&... each) {
            launch_untyped(what.on_device(), how, std::move(call), each...);
          },
          values);
    }
  }
  template <class... Parameters, class... Arguments>
  void launch(const kernel<void(Parameters...)>& what, const dims& grid, const dims& block,
              Arguments&&... arguments) {
    launch(what, config(grid, block), std::forward<Arguments>(arguments)...);
  }

  /// Device code whose parameters are not known here: the arguments must have exactly their types.
  template <class... Arguments>
  void launch(const device_kernel& what, const launch_config& how, const Arguments&... arguments) {
    launch_untyped(what, how, nullptr, arguments...);
  }
  template <class... Arguments>
  void launch(const device_kernel& what, const dims& grid, const dims& block,
              const Arguments&... arguments) {
    launch_untyped(what, config(grid, block), nullptr, arguments...);
  }

  /// A host function, where devices run host code. It is called once.
  template <class... Parameters, class... Arguments>
  void launch(void (*what)(Parameters...), const launch_config& how, Arguments&&... arguments) {
    launch(kernel<void(Parameters...)>(what), how, std::forward<Arguments>(arguments)...);
  }
  template <class... Parameters, class... Arguments>
  void launch(void (*what)(Parameters...), const dims& grid, const dims& block,
              Arguments&&... arguments) {
    launch(what, config(grid, block), std::forward<Arguments>(arguments)...);
  }

  /// Whether the last `launch` threw.
  [[nodiscard]] bool was_refused() const noexcept { return refused_; }

 private:
  [[nodiscard]] static launch_config config(const dims& grid, const dims& block) noexcept {
    launch_config how;
    how.grid = grid;
    how.block = block;
    return how;
  }
  template <class... Values>
  void launch_untyped(const device_kernel& what, const launch_config& how, body_ptr call,
                      const Values&... values) {
    const auto list = detail::as_arguments(values...);
    refused_ = true;
    task_->launch({&what, how, list, std::move(call)});
    refused_ = false;
  }

  untyped_task* task_;
  bool refused_ = false;
};

namespace detail {

/// Takes the arguments of `kernel_task` apart: dependencies, then the body.
template <class... Arguments>
class kernel_arguments {
  static constexpr std::size_t dep_count = sizeof...(Arguments) - 1;
  using tuple = std::tuple<Arguments&&...>;
  using body_type = std::remove_reference_t<std::tuple_element_t<dep_count, tuple>>;
  using deps = std::make_index_sequence<dep_count>;
  template <std::size_t I>
  using dep = std::remove_cvref_t<std::tuple_element_t<I, tuple>>;

  template <std::size_t... I>
  static consteval fault find_fault(std::index_sequence<I...>) {
    constexpr fault in_deps = deps_fault<false, std::tuple_element_t<I, tuple>...>();
    if constexpr (in_deps != fault::none) {
      return in_deps;
    } else if constexpr (std::is_base_of_v<task_dep, std::remove_cvref_t<body_type>>) {
      return fault::no_body;
    } else if constexpr (std::is_base_of_v<untyped_data, std::remove_cvref_t<body_type>>) {
      return fault::bare_data;
    } else {
      using list = dep_list<dep<I>...>;
      return accepts<body_type, list, kernel_launcher&>() ? fault::none : fault::kernel_signature;
    }
  }

  template <class List, class Bindings, std::size_t... K>
  static void call(body_type& body, kernel_launcher& with, const untyped_task& in,
                   const Bindings& bindings, std::index_sequence<K...>) {
    body(with, std::get<List::positions[K]>(bindings).bind(in.pointer(List::positions[K]))...);
  }

  template <std::size_t... I>
  static void run(untyped_context& in, const task_options& options, const tuple& all,
                  std::index_sequence<I...>) {
    using list = dep_list<dep<I>...>;
    source_site site = options.site;
    if constexpr (dep_count > 0) {
      if (site.file == nullptr) site = std::get<0>(all).site;
    }
    untyped_task task(in, site);
    task.set_kind(task_kind::cuda_kernel);
    task.set_place(options.place);
    task.set_symbol(options.symbol);
    const std::tuple bindings{std::get<I>(all).binding()...};
    (task.add_dep(take(static_cast<std::tuple_element_t<I, tuple>>(std::get<I>(all)))), ...);
    task.start();
    if (!task.is_skipped()) {
      kernel_launcher with(task);
      try {
        call<list>(std::get<dep_count>(all), with, task, bindings, typename list::sequence{});
      } catch (...) {
        // A launch that was refused has done nothing, and neither have those before it.
        with.was_refused() ? task.abandon() : task.fail(std::current_exception());
        throw;
      }
    }
    task.end();
  }

 public:
  static void submit(untyped_context& in, const task_options& options, Arguments&&... arguments) {
    constexpr fault what = find_fault(deps{});
    report<what, Arguments...>();
    if constexpr (what == fault::none) {
      run(in, options, tuple(std::forward<Arguments>(arguments)...), deps{});
    }
  }
};

}  // namespace detail

}  // namespace millstream::inline v1
