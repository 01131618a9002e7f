// SPDX-License-Identifier: Apache-2.0
/// Executable graphs that may be used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "backend/graph.hpp"

namespace millstream::graph {

/// What a stage looks like: equal for stages that were recorded alike. `hash` covers the kinds of
/// nodes, their places and their edges.
struct shape {
  std::uint64_t hash = 0;
  std::uint64_t nodes = 0;
  int device = -1;  ///< that it is instantiated for
  friend bool operator==(const shape&, const shape&) noexcept = default;
};

/// Keeps executables by shape, within a limit of bytes; the one not used for longest goes first. One
/// that is in use is not in here, so contexts that share a cache do not meet in one executable. Any
/// thread.
class executable_cache {
 public:
  static constexpr std::size_t default_limit = std::size_t{256} << 20U;
  explicit executable_cache(std::size_t limit_bytes = default_limit) : limit_(limit_bytes) {}

  /// The one of that shape which was given back last, or null.
  [[nodiscard]] std::unique_ptr<backend::executable_graph> take(const shape& like);
  void give(const shape& like, std::unique_ptr<backend::executable_graph> used);

  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::size_t size() const;

 private:
  struct entry {
    shape like;
    std::size_t bytes;
    std::unique_ptr<backend::executable_graph> what;
  };
  const std::size_t limit_;
  mutable std::mutex mutex_;  // guards all below; innermost
  std::list<entry> entries_;  // the one used last in front
  std::size_t bytes_ = 0;
};

}  // namespace millstream::graph
