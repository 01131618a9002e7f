// SPDX-License-Identifier: Apache-2.0
/// The state of one logical datum: its instances, who wrote and reads it, which
/// of its versions are poisoned.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <millstream/access.hpp>
#include <millstream/error.hpp>

#include "base/block_pool.hpp"
#include "base/small_vector.hpp"
#include "core/completion.hpp"
#include "core/failures.hpp"
#include "core/place.hpp"
#include "core/strided.hpp"

namespace millstream::core {

class context;

/// One physical copy. Valid or not is a bit in `data::valid`.
struct instance {
  place_index place = host_place;
  void* address = nullptr;
  completion_set ready;         ///< the copy that made it valid, or what its memory waits for
  std::size_t block_bytes = 0;  ///< of a block of ours; 0 = the user's buffer or no bytes
};

/// Which versions of a datum are poisoned, and by whom. A datum's version rises
/// with each write in submission order, so a task that was submitted before a
/// failure became known can tell whether what it reads is meant. Any thread.
class poison_record {
 public:
  void add(std::uint64_t version, failed_task* because);
  /// Null if the version is sound.
  [[nodiscard]] failed_task* find(std::uint64_t version) const {
    return any_.load(std::memory_order_acquire) ? find_entry(version) : nullptr;
  }
  /// From now on `word()` says whether `version`, the last one there will be,
  /// is poisoned.
  void watch(std::uint64_t version);
  /// `forget_later` takes back what is added after this.
  void remember();
  void forget_later();
  /// Not null = do not write back. Read by queues that run jobs.
  [[nodiscard]] const std::atomic<void*>& word() const noexcept { return word_; }

 private:
  struct entry {
    std::uint64_t version;
    failed_task* because;
  };
  [[nodiscard]] failed_task* find_entry(std::uint64_t version) const;

  std::atomic<bool> any_{false};  // so that sound data cost one load
  std::atomic<void*> word_{nullptr};
  mutable std::mutex mutex_;  // guards all below; innermost
  std::vector<entry> entries_;
  std::size_t remembered_ = 0;  // of the entries
  std::uint64_t watched_ = ~std::uint64_t{0};
};

/// Fields are guarded by the context's lock unless they say otherwise. Two
/// counts: `handles` are the user's, and when they are gone the content is let
/// go; `references` keep the object itself, one for all handles together, one
/// for each task in flight.
class data {
  // What every task looks at lies together, on few lines of the cache, which the driver empties
  // between two tasks.

  std::atomic<std::uint32_t> handles_{1};
  std::atomic<std::uint32_t> references_{1};

 public:
  data(std::shared_ptr<context> in, std::uint64_t id, std::size_t bytes);
  ~data();
  data(const data&) = delete;
  data& operator=(const data&) = delete;
  [[nodiscard]] static void* operator new(std::size_t size) { return base::take_block(size); }
  static void operator delete(void* block, std::size_t size) noexcept {
    base::give_block(block, size);
  }

  const std::shared_ptr<context> owner;
  const std::size_t bytes;
  place_set valid;                // places of the valid instances
  bool token = false;             // fixed at creation
  bool registered = false;        // fixed at creation: instances[0] is the user's buffer
  bool readonly = false;          // fixed at creation
  bool listed = false;            // in the context's list
  bool let_go = false;            // the last handle is gone, or the context was finished
  bool pages_asked = false;       // whether page-locking the buffer was tried: see pages.cpp
  place_index home = host_place;  // of registered data: where the buffer is; fixed at creation
  // Whether its buffer was found to be at rest since its last use: see last_user.cpp. Changed under
  // the lock, read without.
  std::atomic<bool> at_rest{false};

  // Order.
  bool written = false;
  bool forks = true;  // its versions were read from several lanes: see acquire.cpp
  bool read_from_many = false;
  lane_index read_from = no_lane;  // since the last write
  std::uint64_t version = 0;
  completion writer;       // the last write
  completion_set readers;  // every use since the last write, outgoing copies included

  // Tasks between start and end that only read it, or write it.
  std::uint32_t open_readers = 0;
  std::uint32_t open_writers = 0;

  // Coherence, with `valid`.
  base::small_vector<instance, 2> instances;

  poison_record poison;          // has its own lock
  std::uint32_t settled_at = 0;  // the stage that completions here are of, at the earliest
  /// 1 + the last stage whose host nodes may still poison the present version, 0 = none: see
  /// context::is_doubtful.
  std::uint32_t doubt = 0;

  const std::uint64_t id;
  source_site site;                  // fixed at creation
  strided area;                      // of registered data: the user's buffer; fixed at creation
  std::string symbol;                // changed under names_mutex() besides
  std::shared_ptr<void> keep_alive;  // the owner of the user's buffer
  std::size_t position = 0;          // in the context's list
  std::uint64_t retired_before = 0;  // retired_buffers::count when it was registered
  // Registered data that have bytes of the user's in common with it: see sharing.cpp.
  std::vector<data*> sharing;

  [[nodiscard]] instance* find(place_index place) noexcept {
    for (instance& each : instances) {
      if (each.place == place) return &each;
    }
    return nullptr;
  }
  [[nodiscard]] std::uint32_t& open_count(access_mode mode) noexcept {
    return writes(mode) ? open_writers : open_readers;
  }
  [[nodiscard]] bool is_valid(place_index place) const noexcept { return valid.has(place); }
  /// The place that has the memory of one of its instances.
  [[nodiscard]] place_index memory_of(place_index place) const noexcept {
    return place == user_place ? home : place;
  }
  /// "'x'" or "data 3 (64 bytes)".
  [[nodiscard]] std::string name() const;
  /// Everything that still uses it.
  [[nodiscard]] completion_set uses() const;

  // Lock-free.
  void add_handle() noexcept { handles_.fetch_add(1, std::memory_order_relaxed); }
  /// Under the context's lock, of a datum that is not let go. If another thread has dropped the
  /// last handle and is about to let go of it, that comes to nothing.
  void add_handle_again() noexcept {
    if (handles_.fetch_add(1, std::memory_order_relaxed) == 0) add_reference();
  }
  [[nodiscard]] bool has_handles() const noexcept {
    return handles_.load(std::memory_order_relaxed) > 0;
  }
  /// Whether that is the only thing that keeps it.
  [[nodiscard]] bool has_one_handle_only() const noexcept {
    return handles_.load(std::memory_order_acquire) == 1 &&
           references_.load(std::memory_order_acquire) == 1;
  }
  [[nodiscard]] bool drop_handle() noexcept {
    return handles_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  /// Under the context's lock, of a datum without handles: then nobody adds one any more.
  [[nodiscard]] bool has_one_reference() const noexcept {
    return references_.load(std::memory_order_acquire) == 1;
  }
  void add_reference() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  /// Deletes the object with the last one; call it without any lock.
  void drop_reference() noexcept;
};

/// For whoever reads symbols without the context's lock. Innermost.
[[nodiscard]] std::mutex& names_mutex() noexcept;

}  // namespace millstream::core
