// SPDX-License-Identifier: Apache-2.0
/// Device memory in stream order.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "backend/cuda/abi.hpp"
#include "backend/status.hpp"

namespace millstream::backend::cuda {

class device_state;
class stream;

/// What was handed out. Any thread.
class block_table {
 public:
  struct block {
    std::size_t bytes = 0;
    bool captured = false;  ///< belongs to a graph that is being recorded
  };

  void add(void* address, block what);
  /// Takes a block out; `invalid_value`, and nothing changed, for what is no block of that size.
  [[nodiscard]] result<block> remove(void* address, std::size_t bytes, const std::string& who);
  [[nodiscard]] std::size_t used() const noexcept;

 private:
  mutable std::mutex mutex_;  // guards the members below; innermost
  std::unordered_map<void*, block> blocks_;
  std::size_t used_ = 0;
};

/// One memory pool of the driver. It keeps freed memory (so that allocating again costs no call
/// into the system) and never makes streams wait for one another on its own: a stream may be held
/// up for long, and whoever got its memory would be too.
class device_memory {
 public:
  device_memory(device_state& of, std::size_t total) : of_(of), total_(total) {}
  /// In the device's context. `unavailable` where the device has no such pools.
  status open();
  void close() noexcept;

  /// Legal under capture of `order`: the block then belongs to the graph.
  [[nodiscard]] result<void*> allocate(std::size_t bytes, stream& order);
  /// Legal under capture of `order` too. What was allocated outside of the capture then stays
  /// allocated until the machine is closed, because the graph may be replayed.
  status release(void* block, std::size_t bytes, stream& order);
  /// The same in two steps: the owner gives the block up, and it is freed at its turn.
  [[nodiscard]] result<block_table::block> give_up(void* block, std::size_t bytes);
  status free(void* block, const block_table::block& what, stream& order);
  /// Lets another device reach everything in the pool.
  status let_in(device_state& other);

  [[nodiscard]] std::size_t total() const noexcept { return total_; }
  [[nodiscard]] std::size_t used() const noexcept { return blocks_.used(); }

 private:
  [[nodiscard]] status no_room(std::size_t bytes) const;
  void trim() noexcept;

  device_state& of_;
  abi::memory_pool pool_ = nullptr;
  const std::size_t total_;
  block_table blocks_;
};

}  // namespace millstream::backend::cuda
