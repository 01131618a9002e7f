// SPDX-License-Identifier: Apache-2.0
/// User buffers of data that were let go, while something may still use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "core/completion.hpp"
#include "core/ranges.hpp"

namespace millstream::core {

class lane_set;

/// Under the context's lock. What a call does here does not grow with the number of buffers, as in
/// a recording none of them is free before the stage was launched.
class retired_buffers {
 public:
  using owners = std::vector<std::shared_ptr<void>>;

  /// `uses`: when these have ended, the owner may go. They come after those of buffers that overlap
  /// and were let go before `since`, a `count` at an earlier time.
  void add(completion_set uses, std::shared_ptr<void> owner, const void* block, std::size_t bytes,
           std::uint64_t since);
  /// How many there have been.
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// The uses of those that have a byte of the range in common with it.
  [[nodiscard]] completion_set uses_of(const void* block, std::size_t bytes) const;
  /// The uses of all.
  [[nodiscard]] completion_set uses(const lane_set& lanes) const;
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }

  /// Hands over the owners of those that are free by now. Looks at some, those first that nobody
  /// has looked at for longest.
  void collect_some(lane_set& lanes, owners& dropped);
  void collect(lane_set& lanes, owners& dropped);
  /// Hands over all owners.
  void take(owners& dropped);

 private:
  struct buffer {
    completion_set uses;
    std::shared_ptr<void> owner;
    const void* block;
    std::size_t bytes;
    std::uint64_t number;
    bool is_last;  // no other one of exactly this range comes after it
  };
  using place = std::list<buffer>::iterator;

  void collect(lane_set& lanes, owners& dropped, std::size_t most);
  void forget(place which) noexcept;

  std::list<buffer> all_;
  range_map<place> last_;
  std::uint64_t count_ = 0;
};

}  // namespace millstream::core
