// SPDX-License-Identifier: Apache-2.0
/// The opened machine: a backend plus the queues that contexts lease from it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <millstream/machine.hpp>

#include "backend/machine.hpp"
#include "base/fork_guard.hpp"
#include "core/place.hpp"

namespace millstream::core {

class context;

/// A queue with the mark its lessee records for other queues.
struct leased_queue {
  std::unique_ptr<backend::queue> queue;
  std::unique_ptr<backend::event> mark;
  /// Took part in a recording of somebody else's: while that goes on nobody may lease it.
  bool recorded = false;
  /// Host functions are in it or before what is in it: not leased until they have ended.
  bool busy = false;
};

/// Keeps a queue counted that waits for host functions when its context has gone.
class parked_queue {
 public:
  explicit parked_queue(std::shared_ptr<machine> of) noexcept : of_(std::move(of)) {}
  ~parked_queue();
  parked_queue(const parked_queue&) = delete;
  parked_queue& operator=(const parked_queue&) = delete;

 private:
  std::shared_ptr<machine> of_;
};

/// A queue on a stream of the user's.
struct adopted_queue {
  std::unique_ptr<backend::queue> queue;
  place_index place;
};

/// One per process for equal options; never destroyed, because queues may still
/// run when static destructors do. Any thread.
class machine {
 public:
  explicit machine(std::unique_ptr<backend::machine> driver);

  [[nodiscard]] backend::machine& driver() noexcept { return *driver_; }
  [[nodiscard]] const std::string& name() const noexcept { return driver_->name(); }
  [[nodiscard]] bool has(backend::capability bit) const noexcept { return bits_.has(bit); }
  [[nodiscard]] backend::capability_set capabilities() const noexcept { return bits_; }
  /// As backend::machine::current_device. A machine of one device asks nobody.
  [[nodiscard]] int current_device() noexcept {
    return has_one_device_ ? 0 : driver_->current_device();
  }
  [[nodiscard]] backend::device& at(place_index place) noexcept {
    return place >= 0 ? driver_->at(place) : driver_->host();
  }

  /// A queue of that device (or the host side) for the exclusive use of one
  /// context. Work of an earlier lessee may still be in front.
  [[nodiscard]] backend::result<leased_queue> lease(place_index place);
  void give_back(place_index place, leased_queue lease) noexcept;
  /// A queue of that device which no context leases, made at the first call and kept.
  [[nodiscard]] backend::result<std::uint64_t> hand_over_queue(place_index place);
  [[nodiscard]] backend::result<std::unique_ptr<backend::event>> take_event();
  void give_back(std::unique_ptr<backend::event> event) noexcept;

  /// Counts queues of devices that wait for host functions; `unpark` takes it back.
  void park() noexcept { ++parked_; }
  void unpark() noexcept { --parked_; }
  [[nodiscard]] bool has_parked_queues() const noexcept { return parked_.load() > 0; }
  /// A host function has ended, or a move of a host lane: wakes those that wait for that.
  void note_host_end() noexcept;
  /// Blocks until one has ended since `seen` was asked for, or the limit is over.
  [[nodiscard]] bool wait_for_host_end(std::uint64_t seen, std::chrono::milliseconds limit);
  [[nodiscard]] std::uint64_t host_end_count() const noexcept { return host_ends_.load(); }
  /// Throws error(invalid_value) for what is no stream that this machine can use. `one_thread`: see
  /// backend::device::adopt. From now on the stream is one that `knows_queue`.
  [[nodiscard]] adopted_queue adopt(std::uint64_t stream, bool one_thread);

  /// True if this machine ever handed out or adopted a queue with this number.
  [[nodiscard]] bool knows_queue(std::uint64_t handle) const;
  /// For `shut_down`: every queue that is not leased is destroyed.
  void drop_idle_queues() noexcept;

 private:
  [[nodiscard]] std::optional<leased_queue> take_idle(place_index place);
  void note_handle(std::uint64_t handle);
  [[nodiscard]] std::vector<leased_queue>& idle(place_index place) noexcept {
    return idle_[static_cast<std::size_t>(place + 1)];
  }

  // What each task looks at comes first.
  std::unique_ptr<backend::machine> driver_;
  const backend::capability_set bits_;
  const bool has_one_device_;
  std::atomic<std::uint64_t> host_ends_{0};
  mutable std::mutex mutex_;  // guards all below; innermost: no other lock is taken under it
  std::vector<std::vector<leased_queue>> idle_;  // by place + 1
  std::vector<std::unique_ptr<backend::event>> events_;
  std::vector<std::optional<leased_queue>> hand_over_;  // by place + 1
  std::vector<std::uint64_t> handles_;
  std::atomic<int> parked_{0};
  std::condition_variable host_ended_;
};

/// Leases that go back together, when it ends. Not to be ended under a lock of the machine's.
class held_leases {
 public:
  explicit held_leases(machine& of) noexcept : of_(of) {}
  ~held_leases();
  held_leases(const held_leases&) = delete;
  held_leases& operator=(const held_leases&) = delete;
  void add(place_index place, leased_queue lease) { all_.emplace_back(place, std::move(lease)); }

 private:
  machine& of_;
  std::vector<std::pair<place_index, leased_queue>> all_;
};

/// The machine for these options: found or opened. Throws as
/// `millstream::machine` says.
[[nodiscard]] std::shared_ptr<machine> open_machine(const machine_options& options);
/// All machines opened so far.
[[nodiscard]] std::vector<std::shared_ptr<machine>> open_machines();

/// Throws error(unavailable) in a forked child and after `shut_down`.
[[noreturn]] void refuse_process();
inline void check_process() {
  if (!base::is_usable()) refuse_process();
}

}  // namespace millstream::core
