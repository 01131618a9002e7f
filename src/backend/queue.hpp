// SPDX-License-Identifier: Apache-2.0
/// A queue: operations execute in order within one, independently across queues.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/event.hpp"
#include "backend/job.hpp"
#include "backend/status.hpp"

namespace millstream::backend {

class kernel;

/// Where memory lives: device number, or one of these.
enum class memory_home : std::int16_t { host = -1, managed = -2 };
[[nodiscard]] constexpr memory_home device_memory(int index) noexcept {
  return static_cast<memory_home>(index);
}

inline constexpr std::size_t max_block_rank = 4;

/// A copy of a block of `rank` (1 to 4) extents. `extents[rank-1]` counts contiguous bytes; the
/// others count rows, planes, ... whose distances in bytes are the strides (entries 0 .. rank-2).
/// Source and destination must not overlap.
struct copy_request {
  void* to = nullptr;
  const void* from = nullptr;
  memory_home to_home = memory_home::host;
  memory_home from_home = memory_home::host;
  std::uint32_t rank = 1;
  std::array<std::size_t, max_block_rank> extents{};
  std::array<std::ptrdiff_t, max_block_rank> to_strides{};
  std::array<std::ptrdiff_t, max_block_rank> from_strides{};
  /// If not null, the copy is left out when the word is not null. A queue that runs jobs looks
  /// when the copy's turn comes, another one when the call is made. The word outlives the copy.
  const std::atomic<void*>* skip_when = nullptr;
  /// Of a node of a graph: host memory is read and written between what comes before the node and
  /// what comes after it, whatever kind of memory it is, and no launch waits for that. Without it,
  /// that holds for page-locked memory only. In other memory, what host nodes or jobs write may not
  /// be seen, in launches behind theirs either; what copies without it write is; and a launch may
  /// wait for a copy to there, and for all nodes that were added before that one.
  bool at_its_turn = false;

  [[nodiscard]] static copy_request contiguous(void* to, memory_home to_home, const void* from,
                                               memory_home from_home, std::size_t bytes) noexcept {
    copy_request request;
    request.to = to;
    request.from = from;
    request.to_home = to_home;
    request.from_home = from_home;
    request.extents[0] = bytes;
    return request;
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t product = 1;
    for (std::uint32_t i = 0; i < rank; ++i)
      product *= extents[i];
    return product;
  }
};

/// Repeats a pattern of 1 to 16 bytes over `bytes` bytes (a multiple of the pattern).
struct fill_request {
  void* to = nullptr;
  memory_home home = memory_home::host;
  std::size_t bytes = 0;
  std::array<std::byte, 16> pattern{};
  std::uint32_t pattern_bytes = 1;
};

/// One kernel launch; `arguments` is the packed argument block: each at a multiple of its
/// alignment.
struct launch_request {
  kernel* what = nullptr;
  std::array<std::uint32_t, 3> grid{1, 1, 1};
  std::array<std::uint32_t, 3> block{1, 1, 1};
  std::uint32_t shared_bytes = 0;
  std::span<const std::byte> arguments;
  /// Blocks per cluster; all 1 = what the kernel was compiled for.
  std::array<std::uint32_t, 3> cluster{1, 1, 1};
  bool cooperative = false;   ///< all blocks are resident at once, so that they can synchronise
  bool programmatic = false;  ///< may begin before its predecessor ends, where that one allows it
};

/// Every operation returns at once; it takes effect at its turn. Any thread may call, but a queue
/// has one user at a time (a context leases it), so calls to one queue are not concurrent.
/// Destroying a queue discards jobs that did not start and waits for none of them.
class queue {
 public:
  virtual ~queue() = default;
  queue() = default;
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;

  /// Non-zero, unique in the process as long as the queue lives: the native stream where the
  /// machine has one, else a number.
  [[nodiscard]] virtual std::uint64_t handle() const noexcept = 0;

  virtual status copy(const copy_request& request) = 0;
  virtual status fill(const fill_request& request) = 0;
  /// Takes the job on success only. `unsupported` without capability::runs_jobs (host queues
  /// always run jobs).
  virtual status run(job& work) = 0;
  virtual status launch(const launch_request& request) = 0;
  /// Marks the tail.
  virtual status record(event& mark) = 0;
  /// Work queued later starts only after the mark was passed.
  virtual status wait(event& mark) = 0;

  /// Whether everything that was queued has ended, where that is known without a call of the
  /// driver: queues of the host side know, streams of devices answer false. Carries out nothing.
  [[nodiscard]] virtual bool has_ended() const noexcept { return false; }

  /// Whether what is queued is being recorded at the moment, by us or by somebody else. Where the
  /// queue waits for a mark set on a recorded queue, it is recorded too, until the recording ends.
  /// Then only copy, fill, launch, record, wait, allocate and release may be used, and marks
  /// cannot be waited for on the host.
  [[nodiscard]] virtual result<bool> is_capturing() { return false; }
  /// graph::keep for the graph that the queue is recorded into. `usage` if it is not recorded, and
  /// then the caller has to see to it.
  virtual status keep(std::shared_ptr<void> what);
};

}  // namespace millstream::backend
