// SPDX-License-Identifier: Apache-2.0
/// A machine: a set of devices of one backend ("cuda", "host" or "null").
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <millstream/export.hpp>
#include <millstream/place.hpp>

namespace millstream::core {
class machine;  // the opened machine; never seen by users
}

namespace millstream::inline v1 {

/// The most devices a machine has.
inline constexpr int most_devices = 64;

/// Which machine. An empty name means the default: `MILLSTREAM_MACHINE`, else CUDA when a device
/// is there, else the host machine.
struct machine_options {
  std::string name{};
  int devices = 0;  ///< 1 to `most_devices`, simulated on the host and null machines; 0 = default
  std::optional<std::uint64_t> seed{};  ///< host machine: choose among legal orders by this seed
  friend bool operator==(const machine_options&, const machine_options&) = default;
};

/// Memory and where it is.
struct placed_block {
  void* address = nullptr;
  data_place place;
};

/// A handle; copies share the machine. One machine per process for equal options, opened at first
/// use and kept until the process ends. Any thread may use it. Nothing here blocks.
class MILLSTREAM_API machine {
 public:
  /// Throws error(invalid_value) for an unknown name or a bad device count,
  /// error(unavailable) where the machine cannot be opened (the text says what was tried).
  explicit machine(const machine_options& options = {});

  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] int device_count() const noexcept;
  /// Names of the capability bits that are set, in the order of the contract.
  [[nodiscard]] std::vector<std::string> capabilities() const;
  /// The device a task without a place runs on: the caller's current one on a GPU machine, else 0.
  [[nodiscard]] int current_device() const noexcept;
  /// Where memory is that somebody else allocated: a device or managed memory of this machine, else
  /// the host. Throws error(invalid_value) for a GPU that is not one of its devices.
  [[nodiscard]] data_place home_of(const void* address) const;
  /// Number of a stream of that device which no task uses, always the same: for libraries that want
  /// one to hand memory over. Throws error(invalid_value) for a device the machine lacks.
  [[nodiscard]] std::uint64_t hand_over_stream(int device) const;
  /// Makes that device current for native calls of the calling thread, for user code that runs
  /// until `leave` is called with the answer. Pairs of one thread may overlap in any order; with
  /// the last one, the thread's current device and context are what they were before the first. 0,
  /// and nothing to leave, where there are no native calls. Legal while somebody captures.
  [[nodiscard]] std::uint64_t enter(int device) const noexcept;
  /// Of another thread it takes effect there, when that thread enters or leaves the next time.
  void leave(int device, std::uint64_t entered) const noexcept;
  /// Whether memory of its devices is ordinary memory of the host.
  [[nodiscard]] bool has_host_memory() const noexcept;

  /// Memory outside of contexts, at least 256-byte aligned, ready for work queued on the native
  /// stream `stream` from now on (where there are none, a queue's number); null for 0 bytes. Throws
  /// error(out_of_memory), for the affine place too, error(invalid_value) for a device the machine
  /// lacks and for what is no stream, error(unsupported) for managed memory where there is none.
  [[nodiscard]] void* allocate(data_place place, std::size_t bytes, std::uint64_t stream) const;
  /// Takes it back (same place and bytes) behind what is queued on `stream` now. Null is ignored.
  void deallocate(data_place place, void* block, std::size_t bytes, std::uint64_t stream) const;
  /// Queues a copy of `bytes` bytes on `stream`; both blocks stay until that has passed.
  void copy(placed_block to, placed_block from, std::size_t bytes, std::uint64_t stream) const;
  /// Work queued on the stream `later` from now on comes after what is in the stream `earlier` now.
  /// Does not block.
  void order(std::uint64_t later, std::uint64_t earlier) const;

  /// Whether other libraries may launch work on this machine's streams and memory (GPUs).
  [[nodiscard]] bool runs_kernels() const noexcept;

  /// The null machine's count of backend calls by name; empty on other machines.
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> call_counts() const;

  [[nodiscard]] const std::shared_ptr<core::machine>& state() const noexcept { return state_; }

 private:
  std::shared_ptr<core::machine> state_;
};

/// Names of the machines that were compiled in, e.g. {"host", "null"}.
[[nodiscard]] MILLSTREAM_API std::vector<std::string> machine_names();

/// Blocks until everything queued so far on the stream with this number (as given by
/// `context::fence` or a task's stream) has ended, on whichever open machine has it.
/// Throws error(invalid_value) for a number that is no stream.
MILLSTREAM_API void synchronize(std::uint64_t stream);

}  // namespace millstream::inline v1
