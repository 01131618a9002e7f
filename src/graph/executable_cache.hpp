// SPDX-License-Identifier: Apache-2.0
/// Executable graphs that may be used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "backend/graph.hpp"
#include "core/recorder.hpp"

namespace millstream::graph {

/// What a stage looks like: equal for stages that were recorded alike. `hash` covers the kinds of
/// nodes, their places and their edges.
struct shape {
  std::uint64_t hash = 0;
  std::uint64_t nodes = 0;
  int device = -1;  ///< that it is instantiated for
  friend bool operator==(const shape&, const shape&) noexcept = default;
};

/// Why an executable of a shape is not in the cache, as a count of recording_misses.
using miss_reason = std::uint64_t recording_misses::*;

/// Keeps executables by shape, within a limit of bytes; the one not used for longest goes first.
/// One that is in use is not in here, so contexts that share a cache do not meet in one executable.
/// Any thread.
class executable_cache final : public core::recorder_cache {
 public:
  explicit executable_cache(std::size_t limit_bytes) : limit_(limit_bytes) {}

  /// The one of that shape which was given back last, or null.
  [[nodiscard]] std::unique_ptr<backend::executable_graph> take(const shape& like);
  /// Why `take` would give none.
  [[nodiscard]] miss_reason why_missing(const shape& like) const;
  /// Keeps it, unless the policy says otherwise or it is larger than the limit.
  void give(const shape& like, std::unique_ptr<backend::executable_graph> used);
  void launch(backend::graph& what, std::uint64_t hash, core::place_index device,
              backend::queue& on, recording_stats& counts) override;

  void set_policy(std::function<bool(const executable_info&)> keep) override;
  [[nodiscard]] std::size_t bytes() const override;
  [[nodiscard]] std::size_t size() const override;

 private:
  struct entry {
    shape like;
    std::size_t bytes;
    std::unique_ptr<backend::executable_graph> what;
  };
  /// A shape that was launched and is not kept.
  struct absence {
    shape like;
    miss_reason why;
  };
  [[nodiscard]] bool may_keep(const executable_info& what) const;
  void note_absence(const shape& like, miss_reason why) noexcept;
  void add_absence(const shape& like, miss_reason why) noexcept;
  [[nodiscard]] std::unique_ptr<backend::executable_graph> prepare(backend::graph& what,
                                                                   const shape& like,
                                                                   recording_stats& counts);

  const std::size_t limit_;
  mutable std::mutex mutex_;  // guards all below; innermost
  std::list<entry> entries_;  // the one used last in front
  std::size_t bytes_ = 0;
  std::vector<absence> absences_;  // the one noted last behind; a shape once
  std::shared_ptr<const std::function<bool(const executable_info&)>> policy_;  // null = keep all
};

}  // namespace millstream::graph
