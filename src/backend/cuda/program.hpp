// SPDX-License-Identifier: Apache-2.0
/// Device code.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/event.hpp"
#include "backend/program.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::cuda {

class device_state;
class driver;
class program;
struct stream_tail;

/// An entry point of one of our programs, or one that somebody else keeps loaded.
class kernel final : public backend::kernel {
 public:
  /// Of a program, or adopted by its native handle. `on` must be open. The driver is asked for the
  /// size of the arguments.
  kernel(device_state& on, program& of, std::string name, abi::function entry);
  kernel(device_state& on, std::uint64_t native, std::string name, abi::function entry);
  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] const std::vector<kernel_parameter>* parameters() const noexcept override {
    return parameters_ ? &*parameters_ : nullptr;
  }
  [[nodiscard]] bool is_current() const override;
  [[nodiscard]] abi::function entry() const noexcept { return entry_; }
  /// Whether the entry point still takes the arguments that were asked for when this was made.
  [[nodiscard]] bool takes_the_same() const;
  /// Where it runs.
  [[nodiscard]] abi::context context() const noexcept { return context_; }
  /// `invalid_value` for other arguments than it takes, and where it is launched on another device.
  status check_arguments(const device_state& on, const launch_request& request) const;
  status check(const device_state& on, const launch_request& request) const;
  /// Called for each launch, before it is queued.
  void note_launch(const std::shared_ptr<stream_tail>& on, bool captured);
  /// Called for each graph that names it: the graph may be launched when the program is gone.
  void note_graph();

 private:
  [[nodiscard]] bool has_the_same_last_parameter() const;

  device_state& on_;
  const abi::context context_;
  program* const of_ = nullptr;  // null for somebody else's
  const std::uint64_t native_ = 0;
  const std::string name_;
  const abi::function entry_;
  const std::optional<std::vector<kernel_parameter>> parameters_;  // none: the driver does not tell
};

/// A module of the driver and where it was launched.
struct loaded_module {
  abi::module handle = nullptr;
  bool in_graph = false;  ///< launched under capture: never unloaded, the graph may be replayed
  std::vector<mark> last_launches;
};

/// Any thread. At its end the module stays until the launches in flight have ended.
class program final : public backend::program {
 public:
  /// `unavailable` never; `invalid_value` with the compiler's log for an image that cannot be
  /// loaded. Takes long for PTX, which the driver compiles.
  [[nodiscard]] static result<std::unique_ptr<program>> load(std::shared_ptr<device_state> on,
                                                             std::span<const std::byte> image);
  program(std::shared_ptr<device_state> on, abi::module module);
  ~program() override;
  [[nodiscard]] result<backend::kernel*> find(const std::string& entry) override;

  void note_launch(const std::shared_ptr<stream_tail>& on, bool captured);
  void note_graph();

 private:
  [[nodiscard]] result<std::unique_ptr<kernel>> look_up(const std::string& entry);
  void forget_ended_users() noexcept;

  const std::shared_ptr<device_state> on_;
  const live_mark alive_;
  std::mutex mutex_;  // guards the members below; the driver is called under it to look up a name
  std::unique_ptr<loaded_module> module_;
  std::vector<std::shared_ptr<stream_tail>> users_;
  std::size_t users_looked_at_ = 0;  // so many were left when they were looked at
  // Most launches tell nothing new, which is seen without the mutex.
  std::atomic<const stream_tail*> last_user_{nullptr};
  std::atomic<bool> in_graph_{false};
  std::map<std::string, std::unique_ptr<kernel>> kernels_;
};

/// The entry points of others that a device was given, by their handles. Any thread.
class adopted_kernels {
 public:
  /// A kernel of a library is looked up in the context of `on`, which must be open.
  [[nodiscard]] result<backend::kernel*> adopt(device_state& on, std::uint64_t native);

 private:
  std::mutex mutex_;  // guards `kernels_`; the driver is called under it to look one up
  std::map<std::uint64_t, std::unique_ptr<kernel>> kernels_;
  std::vector<std::unique_ptr<kernel>>
      gone_;  // unloaded by their owners; who had one may look at it
};

}  // namespace millstream::backend::cuda
