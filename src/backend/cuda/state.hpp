// SPDX-License-Identifier: Apache-2.0
/// What all objects of one CUDA machine share, and what those of one device share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend/call_gate.hpp"
#include "backend/capability.hpp"
#include "backend/cuda/driver.hpp"
#include "backend/cuda/guard.hpp"
#include "backend/cuda/memory.hpp"
#include "backend/device.hpp"
#include "backend/live_count.hpp"

namespace millstream::backend::cuda {

class adopted_kernels;
class host_memory;
class host_runner;
class stream;
class word_pool;
struct loaded_module;
struct machine_state;

/// Where a device computes.
struct device_home {
  int index = 0;                           ///< in the machine, also that of its memory
  abi::device ordinal = 0;                 ///< of the driver
  std::string name;                        ///< "cuda:0"
  abi::context foreign = nullptr;          ///< somebody else's context
  abi::green_context partition = nullptr;  ///< owned; the context is that of the whole device
};

/// One context and what was made in it. A primary context is retained at first use and released
/// with the machine; a foreign one is never touched. Any thread. Lives as long as the machine, or,
/// for partitions and foreign contexts, as long as anything made of it.
class device_state {
 public:
  /// `machine` outlives this; `whole` is the device that a partition is part of.
  device_state(machine_state& machine, device_home home, device_state* whole = nullptr);
  ~device_state();
  device_state(const device_state&) = delete;
  device_state& operator=(const device_state&) = delete;

  [[nodiscard]] int index() const noexcept { return home_.index; }
  [[nodiscard]] abi::device ordinal() const noexcept { return home_.ordinal; }
  [[nodiscard]] const std::string& name() const noexcept { return home_.name; }
  /// "device 'cuda:0'".
  [[nodiscard]] const std::string& who() const noexcept { return who_; }
  [[nodiscard]] machine_state& machine() const noexcept { return machine_; }
  [[nodiscard]] const driver& api() const noexcept { return api_; }

  /// Success: the context is there and not lost. The first call retains it and makes the memory
  /// pool, which takes long; later ones cost two loads. Before anything below is used.
  status open() noexcept { return is_open() ? status{} : open_or_refuse(); }
  /// Whether that would be success at a look.
  [[nodiscard]] bool is_open() noexcept {
    return !root().lost_.load(std::memory_order_acquire) && context() != nullptr;
  }
  [[nodiscard]] abi::context context() const noexcept {
    return context_.load(std::memory_order_acquire);
  }
  /// The context that this device's streams belong to. The same, but for a partition: events for
  /// its streams are made in its own context, which only one thread at a time may be in.
  [[nodiscard]] abi::context stream_context() const noexcept {
    return partition_context_ != nullptr ? partition_context_ : context();
  }
  /// While it lives, the thread may enter `stream_context`.
  [[nodiscard]] std::unique_lock<std::mutex> enter_home() noexcept {
    return partition_context_ != nullptr ? std::unique_lock(partition_mutex_)
                                         : std::unique_lock<std::mutex>();
  }
  /// What the driver answered to an attempt to `what`, as a status. A sticky error is noted: from
  /// then on `open` answers `device_lost` with its text.
  status check(std::string_view what, abi::result answer) noexcept {
    return answer == abi::result::success ? status{} : refuse(what, answer);
  }
  /// Not ok after a sticky error, with its text.
  status loss() noexcept;
  [[nodiscard]] int attribute(abi::device_attribute what) const noexcept;
  /// Read at the first call.
  [[nodiscard]] const launch_limits& limits() noexcept;

  /// A stream that nobody uses and that has nothing to do; never one that is destroyed later on
  /// before the device is closed.
  [[nodiscard]] result<std::unique_ptr<stream>> take_stream();
  /// Work may still be in it.
  void give_back(std::unique_ptr<stream> gone) noexcept;

  [[nodiscard]] device_memory& memory() noexcept { return whole_ ? whole_->memory() : *memory_; }
  /// The device whose context this is: the whole one for a partition.
  [[nodiscard]] device_state& root() noexcept { return whole_ ? *whole_ : *this; }

  /// Runs the jobs of graphs that were made here.
  [[nodiscard]] const std::shared_ptr<host_runner>& runner() noexcept { return root().runner_; }
  /// A part of a device, which computes for itself.
  [[nodiscard]] bool is_partition() const noexcept { return whole_ != nullptr; }

  /// Entry points of others, launched here.
  [[nodiscard]] adopted_kernels& adopted() noexcept { return *adopted_; }

  /// Lets this device reach memory of the other one, once. `unsupported` where it cannot.
  status reach(device_state& other);

  /// A module whose program is gone; unloaded when its last launch has ended.
  void retire(std::unique_ptr<loaded_module> gone) noexcept;
  void sweep_modules() noexcept;

  /// Whether nothing is queued on any stream.
  [[nodiscard]] bool is_idle() noexcept;
  /// Destroys what was made here, as far as it is idle. Nothing may be called afterwards.
  void close(bool machine_is_idle) noexcept;
  /// Lets go of the context after `close`; the machine is idle.
  void leave_context() noexcept;

 private:
  status open_or_refuse() noexcept;
  status refuse(std::string_view what, abi::result answer) noexcept;
  status open_now();
  status enter(abi::context own);
  status note_loss(const std::string& text) noexcept;
  [[nodiscard]] std::unique_ptr<stream> take_idle() noexcept;
  void drop_ended_callers() noexcept;
  [[nodiscard]] result<std::unique_ptr<stream>> make_stream();
  status lost_status() noexcept;
  status open_way_to(device_state& other);
  [[nodiscard]] status unreachable(const device_state& other) const;

  machine_state& machine_;
  const driver& api_;  // of the machine
  const device_home home_;
  device_state* const whole_;
  const std::string who_;
  std::atomic<abi::context> context_{nullptr};
  std::atomic<bool> lost_{false};
  std::unique_ptr<device_memory> memory_;
  const std::unique_ptr<adopted_kernels> adopted_;
  const std::shared_ptr<host_runner> runner_;
  abi::context partition_context_ = nullptr;  // written by `open`
  std::mutex partition_mutex_;  // one thread at a time is in it; the driver makes events under it

  std::once_flag limits_read_;  // guards limits_
  launch_limits limits_;

  std::mutex open_mutex_;  // guards the opening; outermost: the driver is called under it

  std::mutex loss_mutex_;  // guards lost_text_; innermost
  std::string lost_text_;

  // Guards the members below. The driver is asked for marks and streams under it, which takes
  // loss_mutex_ if it fails.
  std::mutex mutex_;
  std::vector<std::unique_ptr<stream>> streams_;  // nobody's; work may still be in them
  std::vector<std::unique_ptr<stream>> callers_;  // of callers, whose work may use parts of them
  std::size_t callers_looked_at_ = 0;  // so many of these were left when they were looked at
  std::vector<std::unique_ptr<loaded_module>> modules_;
  std::vector<const device_state*> reached_;
  std::vector<const device_state*> out_of_reach_;
};

/// Lives until the machine is closed and the last object of it is gone, work of host queues
/// included.
struct machine_state : std::enable_shared_from_this<machine_state> {
  explicit machine_state(std::shared_ptr<const driver> loaded);
  ~machine_state();
  machine_state(const machine_state&) = delete;
  machine_state& operator=(const machine_state&) = delete;

  const std::shared_ptr<const driver> api;
  call_gate gate{call_gate::counting::on_demand};
  live_count live;
  capability_set bits;
  std::vector<std::unique_ptr<device_state>> devices;
  std::atomic<bool> lost{false};  ///< one of the devices failed for good
  device_state* first = nullptr;  ///< open; calls for the host side are made in its context
  std::unique_ptr<host_memory> host;
  std::unique_ptr<word_pool> words;
};

/// The device that memory of that home lies on, opened; `invalid_value` if there is none.
[[nodiscard]] result<device_state*> device_of(machine_state& machine, int index,
                                              const std::string& who);

}  // namespace millstream::backend::cuda
