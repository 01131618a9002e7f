// SPDX-License-Identifier: Apache-2.0
/// Which task waits for which, from the declared accesses alone.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include <millstream/trace.hpp>

namespace millstream::trace {

/// Follows the accesses of one context in submission order and lists the edges they ask for: a
/// reader after the last writer; a writer after the readers since then, or after the last writer
/// if there were none. It knows nothing of places, queues or copies, so that it can be held
/// against what the engine did.
///
/// Costs O(deps) per task, amortised: a writer uses up the readers it waits for. Not thread-safe.
class edge_finder {
 public:
  /// Takes the next task. Its edges are appended ordered by `from`, one per predecessor, named
  /// after the first dependency that causes it. No datum occurs twice in `deps`.
  void add(std::uint64_t task, std::span<const dep_info> deps);

  [[nodiscard]] const std::vector<trace_edge>& edges() const noexcept { return edges_; }

 private:
  struct history {
    std::uint64_t writer = 0;            ///< last task that wrote; 0 = none
    std::vector<std::uint64_t> readers;  ///< since then
  };

  void follow(std::uint64_t task, const dep_info& dep);
  void link(std::uint64_t from, std::uint64_t to, std::uint64_t data);

  std::unordered_map<std::uint64_t, history> data_;
  std::vector<trace_edge> edges_;
};

}  // namespace millstream::trace
