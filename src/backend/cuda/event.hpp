// SPDX-License-Identifier: Apache-2.0
/// Marks in streams and in queues of the host side.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "backend/cuda/abi.hpp"
#include "backend/event.hpp"
#include "backend/lane.hpp"
#include "backend/live_count.hpp"

namespace millstream::backend::cuda {

class device_state;
struct machine_state;

/// An event of the driver, without timing. Destroyed with the last reference, which the driver
/// allows while a record or wait is in flight. Whoever refers to it also keeps `on` alive, which is
/// the whole device where it was made for a partition.
class raw_event {
 public:
  /// The device is open. Legal under capture.
  [[nodiscard]] static result<std::shared_ptr<raw_event>> make(device_state& on);
  raw_event(device_state& of, abi::context made_in, abi::event made) noexcept
      : on(of), home(made_in), handle(made) {}
  ~raw_event();
  raw_event(const raw_event&) = delete;
  raw_event& operator=(const raw_event&) = delete;

  device_state& on;
  const abi::context home;  ///< it can be recorded on streams of this context
  const abi::event handle;
};

/// Failures of work that a host queue does at its turn, when no caller is there to tell. Kept until
/// somebody waits behind it. Any thread.
class late_fault {
 public:
  void note(status why) noexcept;
  /// The first failure since the last call, or success.
  [[nodiscard]] status take() noexcept;

 private:
  std::mutex mutex_;  // guards the members below; innermost
  status first_;
};

/// A position in a stream or a host queue; neither = long past.
struct mark {
  std::shared_ptr<raw_event> raw;
  bool captured = false;  ///< recorded under capture: a place in a graph, not in time

  std::shared_ptr<lane> behind;
  std::uint64_t position = 0;
  std::shared_ptr<late_fault> fault;
};

/// Whether the mark was passed. `usage` for a captured one. Never blocks.
[[nodiscard]] result<bool> is_passed(const mark& what);
/// Blocks until it was passed (true) or the limit is over. A stream is asked again and again with
/// pauses of up to 100 us, because a wait inside the driver cannot be limited.
[[nodiscard]] result<bool> wait_until(const mark& what, time_limit limit);

/// Belongs to no device: its driver event is made at the first record, and again where the next
/// record is on another device or somebody still looks at the mark before.
class event final : public backend::event {
 public:
  event(std::shared_ptr<machine_state> machine, std::string who);

  [[nodiscard]] result<bool> is_done() override;
  [[nodiscard]] result<bool> wait_for(std::chrono::milliseconds limit) override;

  /// A driver event that may be recorded on that device now.
  [[nodiscard]] result<std::shared_ptr<raw_event>> claim(device_state& on);
  /// `kept` keeps what the mark refers to alive.
  void set(mark now, std::shared_ptr<void> kept) noexcept;
  [[nodiscard]] mark last() const noexcept;
  /// Marks the tail of a stream with the driver event it has, which costs no reference count.
  /// Nothing if that event may not be used again; then `claim` and `set`.
  [[nodiscard]] std::optional<abi::result> renew(const device_state& on, abi::stream tail,
                                                 bool captured) noexcept;
  /// For a queue that waits for it: no record comes meanwhile, so that neither a lock nor a copy is
  /// needed.
  [[nodiscard]] const mark& steady() const noexcept { return mark_; }

 private:
  const std::shared_ptr<machine_state> machine_;
  const std::string who_;
  const live_mark alive_;
  // Guards the members below where a record may meet a look of the host; only the driver is called
  // under it.
  mutable std::mutex mutex_;
  std::shared_ptr<void> kept_;
  mark mark_;
};

}  // namespace millstream::backend::cuda
