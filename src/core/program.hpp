// SPDX-License-Identifier: Apache-2.0
/// Device code of the user's, loaded device by device, and kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/program.hpp"
#include "core/machine.hpp"

namespace millstream::core {

class program;

/// State behind millstream::device_kernel: an entry point of a program, which owns it, or a kernel
/// of somebody else's. Keeps what each device made of it. Any thread.
class kernel_source {
 public:
  /// `may_change`: whether the handle may come to name another kernel.
  kernel_source(std::uint64_t native, bool may_change) noexcept
      : native_(native), may_change_(may_change) {}
  kernel_source(program& of, std::string entry) noexcept : of_(&of), entry_(std::move(entry)) {}
  kernel_source(const kernel_source&) = delete;
  kernel_source& operator=(const kernel_source&) = delete;
  ~kernel_source();

  /// Null for somebody else's.
  [[nodiscard]] const program* of() const noexcept { return of_; }
  [[nodiscard]] const std::string& entry() const noexcept { return entry_; }
  /// Asks the device at the first call for it; if the handle may change, also when that shows. The
  /// answer is good as long as this object, and for good if the kernel is of no program.
  [[nodiscard]] backend::result<backend::kernel*> find(machine& on, place_index device) {
    backend::kernel* const known = find_known(on, device);
    if (known != nullptr && (!may_change_ || known->is_current())) return known;
    return look_up(on, device);
  }
  /// What the handle names now, if that is no longer `was`; else null.
  [[nodiscard]] backend::kernel* find_other(machine& on, place_index device,
                                            const backend::kernel& was);

 private:
  struct found {
    const machine* on;  // machines are not destroyed
    place_index device;
    backend::kernel* what;
    const found* next;
  };
  [[nodiscard]] backend::kernel* find_known(const machine& on, place_index device) const noexcept {
    for (const found* each = found_.load(std::memory_order_acquire); each != nullptr;
         each = each->next) {
      if (each->on == &on && each->device == device) return each->what;
    }
    return nullptr;
  }
  [[nodiscard]] backend::result<backend::kernel*> look_up(machine& on, place_index device);

  program* const of_ = nullptr;
  const std::uint64_t native_ = 0;
  const bool may_change_ = false;
  const std::string entry_;
  std::atomic<const found*> found_{nullptr};  // grows in front: the newest comes first
};

/// State behind millstream::program. Any thread.
class program {
 public:
  program(std::shared_ptr<machine> on, std::span<const std::byte> image);

  [[nodiscard]] const machine& on() const noexcept { return *on_; }
  /// The same object for the same name.
  [[nodiscard]] kernel_source& kernel(std::string_view entry);
  /// Loads the image for that device at the first call. The answer is good as long as this object.
  [[nodiscard]] backend::result<backend::kernel*> find(place_index device,
                                                       const std::string& entry);

 private:
  [[nodiscard]] backend::result<backend::program*> loaded(place_index device);

  const std::shared_ptr<machine> on_;
  const std::vector<std::byte> image_;
  std::mutex mutex_;  // guards the members below; a device may load under it
  std::vector<std::unique_ptr<backend::program>> by_device_;
  std::map<std::string, std::unique_ptr<kernel_source>, std::less<>> kernels_;
};

}  // namespace millstream::core
