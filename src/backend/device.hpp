// SPDX-License-Identifier: Apache-2.0
/// A device of a machine, or the machine's host side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/capability.hpp"
#include "backend/event.hpp"
#include "backend/graph.hpp"
#include "backend/program.hpp"
#include "backend/queue.hpp"

namespace millstream::backend {

struct memory_info {
  std::size_t total_bytes = 0;
  std::size_t used_bytes = 0;  ///< handed out by `allocate` and not yet released
};

/// The largest launches that a device takes, whatever the kernel. 0 = not known.
struct launch_limits {
  std::array<std::uint32_t, 3> grid{};
  std::array<std::uint32_t, 3> block{};
  std::uint32_t block_threads = 0;  ///< of all three extents together
  std::uint32_t shared_bytes = 0;   ///< dynamic, of a block; kernels may have to ask for that many
};

/// Belongs to its machine. Any thread. The caller's current device and context are as before after
/// every call, also when it fails.
class device {
 public:
  virtual ~device() = default;
  device() = default;
  device(const device&) = delete;
  device& operator=(const device&) = delete;

  /// 0 .. device_count-1; -1 for the host side.
  [[nodiscard]] virtual int index() const noexcept = 0;
  [[nodiscard]] virtual const std::string& name() const noexcept = 0;
  /// How many queues keep this device busy; `core` leases up to that many per context.
  [[nodiscard]] virtual int queue_hint() const noexcept = 0;

  [[nodiscard]] virtual result<std::unique_ptr<queue>> make_queue() = 0;
  /// A queue on a native stream of somebody else (`queue::handle` of the answer; 0 means the
  /// default stream), or where there are none, on a queue of this device with that handle. The
  /// stream belongs to this device, lives at least as long as the queue, and is never destroyed by
  /// it; operations of both mix in the order of the calls. `unsupported` where streams have no
  /// meaning. A handle that means another stream in each thread is taken only with `one_thread`:
  /// the queue is used by the calling thread alone.
  [[nodiscard]] virtual result<std::unique_ptr<queue>> adopt(std::uint64_t native_stream,
                                                             bool one_thread = false);
  [[nodiscard]] virtual result<std::unique_ptr<event>> make_event() = 0;

  /// As `millstream::machine::enter` and `leave` say; 0 also when the driver refuses.
  [[nodiscard]] virtual std::uint64_t enter() noexcept { return 0; }
  virtual void leave(std::uint64_t /*entered*/) noexcept {}

  /// Memory of this device (page-locked host memory on the host side), at least 256-byte aligned,
  /// ready for use by work queued on `order` from now on. Zero bytes give null. `out_of_memory` is
  /// not sticky.
  [[nodiscard]] virtual result<void*> allocate(std::size_t bytes, queue& order) = 0;
  /// Takes back what `allocate` gave (same byte count), once all work queued on `order` so far has
  /// ended. Returns at once. Null is ignored.
  virtual status release(void* block, std::size_t bytes, queue& order) = 0;
  [[nodiscard]] virtual memory_info memory() const noexcept = 0;

  /// The same for memory that the host and all devices address (capability::managed, home
  /// memory_home::managed), which `memory` does not count. May take the driver a while.
  [[nodiscard]] virtual result<void*> allocate_managed(std::size_t bytes, queue& order);
  virtual status release_managed(void* block, std::size_t bytes, queue& order);

  [[nodiscard]] virtual result<std::unique_ptr<program>> load(std::span<const std::byte> image) = 0;
  /// Read from the driver at the first call. Null where there are none.
  [[nodiscard]] virtual const launch_limits* limits() noexcept { return nullptr; }
  /// An entry point that somebody else loaded (a native function or kernel handle) and keeps loaded
  /// as long as it is used (capability::kernels). Kept by the device, one object per handle.
  [[nodiscard]] virtual result<kernel*> adopt_kernel(std::uint64_t native);
  /// An empty graph (capability::graphs). It is instantiated for this device and may hold nodes of
  /// others.
  [[nodiscard]] virtual result<std::unique_ptr<graph>> make_graph() = 0;

  /// A graph that somebody else made (its native handle) and keeps at least as long as the answer,
  /// which reads it at each call: for `add_child`, `record_into`, `instantiate`, `update`,
  /// `may_be_part`, `node_count` and `dot`. Nothing is added to it. `invalid_value` for what is
  /// known to be none, `unsupported` where graphs have no handles.
  [[nodiscard]] virtual result<std::unique_ptr<graph>> adopt_graph(std::uint64_t native);

  /// Parts of this device that compute independently (capability::green_contexts): `parts` devices
  /// with at least `smallest` multiprocessors each, disjoint. `index` and memory are those of this
  /// device; queues and launches are their own. The caller owns them; queues made on them go
  /// first. `invalid_value` where the device has not that many. May take long.
  [[nodiscard]] virtual result<std::vector<std::unique_ptr<device>>> split(int parts, int smallest);
};

}  // namespace millstream::backend
