// SPDX-License-Identifier: Apache-2.0
/// A stream of the driver and what can be queued on it.
#pragma once

#include <memory>

#include "backend/cuda/event.hpp"
#include "backend/cuda/host_turns.hpp"
#include "backend/queue.hpp"

namespace millstream::backend::cuda {

class device_state;

/// Handles that mean a stream without being one: the one that waits for all others, and the one of
/// the calling thread.
inline constexpr std::uint64_t legacy_default = 1;
inline constexpr std::uint64_t per_thread_default = 2;

/// Tells when everything that was queued on a stream has ended, for those who outlive it.
struct stream_tail {
  stream_tail(device_state& of, abi::stream of_stream) : on(of), raw(of_stream) {}
  /// The tail of the stream now, or when it was closed. A captured mark while it is captured. Any
  /// thread.
  [[nodiscard]] result<mark> now();
  /// The stream, and for an idle one the device, may be gone after this.
  void close() noexcept;
  void close_idle() noexcept;
  /// It was closed: `captured` if that was in a recording, which may run at any time; else whether
  /// everything that was queued has ended.
  enum class state : std::uint8_t { open, captured, busy, ended };
  [[nodiscard]] state look() noexcept;

  device_state& on;
  const abi::stream raw;

 private:
  std::mutex mutex_;  // guards the members below and orders them with a last record
  bool closed_ = false;
  mark last_;
};

/// Either made by us: non-blocking, and never destroyed before the device is closed, because its
/// handle may be known to others. Or the caller's: never destroyed at all. One user at a time.
/// Requests were checked (backend/request.hpp) and `on` is open.
///
/// All calls are legal while the stream is captured, by whomever and in whatever mode, unless said
/// otherwise: what they queue becomes a part of the graph.
class stream {
 public:
  enum class owner : std::uint8_t { us, caller };
  stream(device_state& of, abi::stream raw, owner whose);
  ~stream();
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  /// Pageable memory goes through staging: at the copy's turn, and never inside of the call.
  status copy(const copy_request& request);
  /// `unsupported` for pageable memory under capture.
  status fill(const fill_request& request);
  status launch(const launch_request& request);
  /// A mark at the tail.
  [[nodiscard]] result<mark> record(event* into = nullptr);
  /// The same, set in an event; `kept` is what the mark refers to.
  status record_into(event& into, const std::shared_ptr<device_state>& kept);
  /// Waiting for a host queue takes a memory wait of the stream; `unsupported` without
  /// capability::stream_memory_ops and under capture.
  status wait(const mark& what);

  [[nodiscard]] result<bool> is_capturing();
  /// Whether everything queued by us has ended and the stream is not captured.
  [[nodiscard]] bool is_idle() noexcept;
  /// The next operations may be captured.
  void expect_capture() noexcept { may_capture_ = true; }
  /// A capture that we began has ended.
  void capture_ended() noexcept { may_capture_ = of == owner::caller; }
  /// No operation follows; the caller may destroy a stream of theirs after this. False if this
  /// object is not needed any more either: of a caller's stream, only what is queued may still use
  /// parts of it.
  [[nodiscard]] bool leave() noexcept;
  /// It is idle: destroys the stream, if it is ours, and gives memory back.
  void close() noexcept;

  [[nodiscard]] const std::shared_ptr<stream_tail>& tail() const noexcept { return tail_; }

  device_state& on;
  const abi::stream raw;
  const owner of;

 private:
  status copy_by_driver(const copy_request& request);
  status copy_staged(const copy_request& request);
  status stage_part(const copy_request& part);
  status on_host(const host_turns::work& what);
  status wait_outside(const mark& what);
  status fill_device(const fill_request& request);
  status fill_on_host(const fill_request& request);
  /// Work for memory of another device: a stream of that one joins in for a moment.
  template <class Body>
  status elsewhere(int home, Body&& body);
  [[nodiscard]] result<void*> staging(std::size_t bytes);

  // A stream of ours is captured only after it waited for a captured one, so the driver is asked
  // only from then on.
  bool may_capture_;
  const std::shared_ptr<stream_tail> tail_;
  host_turns turns_;
  void* small_staging_ = nullptr;
  void* large_staging_ = nullptr;
};

/// Where a recording of a stream is: the graph, and what the next node comes after. The list is the
/// driver's, good until the next call on the stream.
struct capture_place {
  abi::graph into = nullptr;
  const abi::graph_node* after = nullptr;
  std::size_t count = 0;
};
/// `usage` if nobody records the stream, or the recording is spoilt.
[[nodiscard]] result<capture_place> look_at_capture(stream& of);

/// Moves by the driver's thread are short, so that those of other streams come in between.
inline constexpr std::size_t host_move_bytes = std::size_t{16} << 20U;
/// Pageable copies go through pieces of this size.
inline constexpr std::size_t large_staging_bytes = std::size_t{4} << 20U;
inline constexpr std::size_t small_staging_bytes = std::size_t{64} << 10U;

}  // namespace millstream::backend::cuda
