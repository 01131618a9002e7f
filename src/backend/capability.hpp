// SPDX-License-Identifier: Apache-2.0
/// What a machine can do. A bit is a promise: if set, the conformance suite must pass; if not set,
/// the operation answers `unsupported` and leaves no trace.
#pragma once

#include <array>
#include <cstdint>

namespace millstream::backend {

enum class capability : std::uint8_t {
  runs_jobs,          ///< device queues execute host jobs (`queue::run`) at their turn
  host_memory,        ///< device instances are ordinary host memory: a body in the caller's thread
                      ///< reads them directly, so it must first wait until they are ready
  values,             ///< copies and fills really move bytes (the null machine only counts)
  kernels,            ///< `queue::launch` and programs
  managed,            ///< memory that host and devices both address
  peer,               ///< devices copy among each other without staging
  capture_to_graph,   ///< foreign work on a queue can be recorded into a graph
  graphs,             ///< graphs can be built, instantiated and launched
  conditional_nodes,  ///< graphs hold if / while / switch nodes
  vmm,                ///< virtual ranges backed by memory of several places
  green_contexts,     ///< a device can be split into partitions
  stream_memory_ops,  ///< queues wait for and write words of memory
};
inline constexpr std::size_t capability_count = 12;

inline constexpr std::array<const char*, capability_count> capability_names{
    "runs_jobs",         "host_memory", "values",           "kernels",
    "managed",           "peer",        "capture_to_graph", "graphs",
    "conditional_nodes", "vmm",         "green_contexts",   "stream_memory_ops"};

class capability_set {
 public:
  constexpr capability_set() noexcept = default;
  template <class... Bits>
  constexpr explicit capability_set(Bits... bits) noexcept : bits_((mask(bits) | ... | 0U)) {}
  [[nodiscard]] constexpr bool has(capability bit) const noexcept {
    return (bits_ & mask(bit)) != 0;
  }
  constexpr void set(capability bit, bool on = true) noexcept {
    bits_ = on ? (bits_ | mask(bit)) : (bits_ & ~mask(bit));
  }
  friend constexpr bool operator==(capability_set, capability_set) noexcept = default;

 private:
  static constexpr std::uint32_t mask(capability bit) noexcept {
    return std::uint32_t{1} << static_cast<unsigned>(bit);
  }
  std::uint32_t bits_ = 0;
};

}  // namespace millstream::backend
