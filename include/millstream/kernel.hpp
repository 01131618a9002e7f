// SPDX-License-Identifier: Apache-2.0
/// Device code, and how a kernel is launched, without types. Programs launch in `kernel_task`: see
/// kernel_task.hpp.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <millstream/export.hpp>
#include <millstream/machine.hpp>
#include <millstream/untyped.hpp>

namespace millstream::core {
class kernel_source;
class program;
}  // namespace millstream::core

namespace millstream::inline v1 {

/// A kernel that devices can run. Copies are cheap. Any thread. A device looks it up at its first
/// launch there, and keeps the answer with the object and its copies: launch the same object again
/// rather than one made anew.
class MILLSTREAM_API device_kernel {
 public:
  /// None.
  device_kernel() noexcept = default;
  /// One that somebody else loaded, by its native handle: a CUfunction, CUkernel or cudaKernel_t.
  /// It must stay loaded until the tasks that launch it have ended; a CUfunction can be launched on
  /// the device it was loaded for. What was unloaded and loaded again is another kernel, also where
  /// its handle is the same: make another object.
  explicit device_kernel(std::uint64_t native);
  explicit device_kernel(const void* native)
      : device_kernel(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(native))) {}
  /// The same for a handle that may be unloaded and come again while the object is there: it is
  /// looked at anew at each launch, which costs a call of the driver.
  [[nodiscard]] static device_kernel by_handle(std::uint64_t native);
  /// For the library.
  explicit device_kernel(std::shared_ptr<core::kernel_source> source) noexcept
      : source_(std::move(source)) {}

  explicit operator bool() const noexcept { return source_ != nullptr; }
  /// For the library.
  [[nodiscard]] const std::shared_ptr<core::kernel_source>& source() const noexcept {
    return source_;
  }

 private:
  std::shared_ptr<core::kernel_source> source_;
};

/// Device code: a cubin, a fatbin, or PTX text. Copies share it. A device loads it at its first
/// launch there, which may take long, since drivers compile PTX. It stays loaded until the last
/// copy, and the last `device_kernel` of it, are gone and its launches have ended. Any thread.
class MILLSTREAM_API program {
 public:
  /// Copies the image. It is looked at when it is loaded.
  program(const machine& on, std::span<const std::byte> image);
  program(const machine& on, std::string_view ptx);

  /// The kernel with that name in the image. It is looked for at the launch, which throws
  /// error(invalid_value) if there is none.
  [[nodiscard]] device_kernel kernel(std::string_view entry) const;

 private:
  std::shared_ptr<core::program> state_;
};

/// Up to three extents: `4`, `{4, 2}`, `{4, 2, 1}`.
struct dims {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t z = 1;

  constexpr dims() noexcept = default;
  template <std::integral X, std::integral Y = int, std::integral Z = int>
  constexpr dims(X x_, Y y_ = 1, Z z_ = 1) noexcept  // NOLINT(google-explicit-constructor)
      : x(static_cast<std::int64_t>(x_)),
        y(static_cast<std::int64_t>(y_)),
        z(static_cast<std::int64_t>(z_)) {}
};

/// How a kernel is launched.
struct launch_config {
  dims grid{};                     ///< blocks
  dims block{};                    ///< threads of a block
  std::uint64_t shared_bytes = 0;  ///< dynamic shared memory of a block
  dims cluster{};                  ///< blocks of a cluster; 1 = what the kernel was compiled for
  bool cooperative = false;        ///< all blocks are resident at once and may synchronise
  /// May begin before the kernels that it comes after have ended, where these allow it; so it waits
  /// for them by itself (`griddepcontrol.wait`) before it uses memory. Where the driver has no such
  /// order (in graphs before 12.3), it begins when they have ended.
  bool programmatic = false;
};

/// One argument, copied during the call.
struct kernel_argument {
  const void* value = nullptr;
  std::size_t bytes = 0;
  std::size_t alignment = 1;  ///< a power of two
  /// A signed number of 64 bits that takes the size of the kernel's parameter, if it fits.
  bool is_integer = false;
};

/// One launch of a kernel task. On machines with GPUs `what` is launched. Where devices run host
/// code, `call` is called once instead, at the launch's turn, and the rest is checked only.
struct kernel_launch {
  const device_kernel* what = nullptr;
  launch_config how;
  std::span<const kernel_argument> arguments;
  body_ptr call;
};

}  // namespace millstream::inline v1
