// SPDX-License-Identifier: Apache-2.0
/// THE CONTRACT. A machine is the root object of a backend; everything else is reached from it.
/// Drivers report a status, they never throw; exceptions begin in `core`. Every object has one
/// owner. What may block says so in its comment.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "backend/call.hpp"
#include "backend/capability.hpp"
#include "backend/device.hpp"
#include "backend/range.hpp"

namespace millstream::backend {

class machine {
 public:
  virtual ~machine() = default;
  machine() = default;
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  [[nodiscard]] virtual capability_set capabilities() const noexcept = 0;
  [[nodiscard]] virtual int device_count() const noexcept = 0;
  /// 0 <= index < device_count().
  [[nodiscard]] virtual device& at(int index) noexcept = 0;
  /// The host side: its queues always run jobs, on the library's own worker threads.
  [[nodiscard]] virtual device& host() noexcept = 0;
  /// The device a task without a place runs on (the caller's current one on CUDA, else 0).
  [[nodiscard]] virtual int current_device() noexcept = 0;
  /// The device that can `adopt` this native stream, -1 for the host side. `invalid_value` for a
  /// number known to be no stream, `unsupported` where there are no native streams.
  [[nodiscard]] virtual result<int> device_of_stream(std::uint64_t native_stream);

  /// Where memory is that somebody else allocated, as the number of a memory_home: that of the host
  /// for all that the machine does not know, `invalid_value` for a device that is not one of its.
  /// Legal under capture.
  [[nodiscard]] virtual result<int> home_of(const void* /*address*/) {
    return static_cast<int>(memory_home::host);
  }

  /// Says whether a device failed for good; null where none can. Its calls answer `device_lost`
  /// from then on, with the text that `loss` gives. Looked at for each task.
  [[nodiscard]] const std::atomic<bool>* loss_flag() const noexcept { return lost_; }
  [[nodiscard]] virtual status loss() noexcept { return {}; }

  /// Makes a range of the user's host memory fast to copy from and to, where the machine needs
  /// that (page-locking); a no-op elsewhere.
  virtual status register_memory(void* block, std::size_t bytes) = 0;
  virtual status unregister_memory(void* block) = 0;

  /// Lets kernels of device `by` touch memory of device `of`; copies see to it themselves.
  /// `unsupported` where they cannot reach each other. May take the driver a while at the first
  /// time.
  virtual status enable_peer(int by, int of);
  /// A range of addresses of its own, at least `bytes` long (capability::vmm), without memory yet.
  [[nodiscard]] virtual result<std::unique_ptr<virtual_range>> reserve_range(std::size_t bytes);
  /// A device of the given native context, which somebody else made and which outlives it; the
  /// caller owns the device. `unsupported` where there are no native contexts.
  [[nodiscard]] virtual result<std::unique_ptr<device>> adopt_context(std::uint64_t native);

  /// Calls made so far by kind. Only counted where this is the machine's purpose (null) or a test
  /// asked for it; zeros elsewhere.
  [[nodiscard]] virtual call_counts calls() const noexcept = 0;
  virtual void set_fault_plan(const fault_plan& plan) noexcept = 0;
  /// Contract objects and memory blocks alive (queues, events, blocks, ...): the leak gate of
  /// tests.
  [[nodiscard]] virtual std::int64_t live_objects() const noexcept = 0;

 protected:
  /// `lost` belongs to the derived class, which sets it.
  explicit machine(const std::atomic<bool>& lost) noexcept : lost_(&lost) {}

 private:
  const std::atomic<bool>* lost_ = nullptr;
};

struct open_options {
  int devices = 0;  ///< 0 = the backend's default
  std::optional<std::uint64_t> seed;
};

using machine_result = result<std::unique_ptr<machine>>;

/// One compiled-in backend. `open` answers `invalid_value` for bad options and `unavailable` where
/// the machine is not there, with what was tried; unavailable is not a fault.
struct backend_entry {
  const char* name;
  machine_result (*open)(const open_options& options);
  bool may_be_default;  ///< tried in the order of the list when the user names no machine
};

/// All compiled-in backends, best first. Defined in `src/assembly.cpp`, the only file that names
/// them.
[[nodiscard]] std::span<const backend_entry> backends() noexcept;

}  // namespace millstream::backend
