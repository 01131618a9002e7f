// SPDX-License-Identifier: Apache-2.0
#include "base/block_pool.hpp"

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "base/sanitizer.hpp"

namespace millstream::base {
namespace {

constexpr std::size_t smallest_block = 64;
constexpr std::size_t classes = 6;
// A thread keeps at most two batches a class. 32 blocks make one lock cost less than a nanosecond
// a block, and bound what idle threads hold to 252 KiB.
constexpr std::uint32_t batch_blocks = 32;

/// What a free block holds.
struct free_block {
  free_block* next;        ///< in the same batch
  free_block* next_batch;  ///< in the first block of a batch only
  std::uint32_t count;     ///< in the first block of a batch only
};
static_assert(sizeof(free_block) <= smallest_block);

std::size_t class_of(std::size_t bytes) noexcept {
  if (bytes <= smallest_block) return 0;
  return static_cast<std::size_t>(std::bit_width((bytes - 1) / smallest_block));
}

/// Never destroyed, because threads may give blocks back while statics are being destroyed.
struct shared_lists {
  std::mutex mutex;  // guards batches; innermost
  std::array<free_block*, classes> batches{};
  std::atomic<std::size_t> from_heap{0};
};

shared_lists& shared() {
  static shared_lists* const lists = [] {
    auto* made = new shared_lists;
    // A child that was forked while another thread held the mutex would wait for it for ever.
    pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); },
                   [] { shared().mutex.unlock(); });
    return made;
  }();
  return *lists;
}

void put_batch(std::size_t size_class, free_block* first, std::uint32_t count) noexcept {
  if (first == nullptr) return;
  first->count = count;
  shared_lists& lists = shared();
  const std::scoped_lock hold(lists.mutex);
  first->next_batch = std::exchange(lists.batches[size_class], first);
}

free_block* take_batch(std::size_t size_class) {
  shared_lists& lists = shared();
  const std::scoped_lock hold(lists.mutex);
  free_block* first = lists.batches[size_class];
  if (first != nullptr) lists.batches[size_class] = first->next_batch;
  return first;
}

/// What one thread keeps of one class: the list that is used, and at most one full batch behind it
/// so that a thread at the boundary does not exchange with every call.
struct thread_list {
  free_block* first = nullptr;
  free_block* spare = nullptr;
  std::uint32_t count = 0;
};

enum class cache_state : std::uint8_t { unused, open, closed };

/// Trivially destructible, so that it can be used until the thread's very end.
struct thread_cache {
  std::array<thread_list, classes> lists{};
  cache_state state = cache_state::unused;
};
constinit thread_local thread_cache cache;

/// Returns the thread's blocks when the thread ends; later calls of it go to the shared lists.
struct cache_closer {
  ~cache_closer() {
    cache.state = cache_state::closed;
    for (std::size_t i = 0; i < classes; ++i) {
      thread_list& list = cache.lists[i];
      put_batch(i, std::exchange(list.first, nullptr), std::exchange(list.count, 0));
      put_batch(i, std::exchange(list.spare, nullptr), batch_blocks);
    }
  }
  void touch() noexcept {}
};
thread_local cache_closer closer;

/// The first use, or one after the last. Apart, because each look at a thread's variable of a
/// shared library may be a call, and inside of the others it would be made first.
[[gnu::noinline]] thread_cache* open_cache_slowly() noexcept {
  if (cache.state == cache_state::closed) return nullptr;
  closer.touch();  // registers its destructor
  cache.state = cache_state::open;
  return &cache;
}

/// Null once the thread is ending.
thread_cache* open_cache() noexcept {
  thread_cache* const mine = &cache;
  return mine->state == cache_state::open ? mine : open_cache_slowly();
}

void* fresh_block(std::size_t size_class) {
  void* block = ::operator new(smallest_block << size_class);
  shared().from_heap.fetch_add(1, std::memory_order_relaxed);
  return block;
}

/// The list is empty: the spare batch, a batch of the shared list, or a new block.
void* refill_and_take(thread_list& list, std::size_t size_class) {
  free_block* batch = std::exchange(list.spare, nullptr);
  std::uint32_t count = batch_blocks;
  if (batch == nullptr) {
    batch = take_batch(size_class);
    if (batch == nullptr) return fresh_block(size_class);
    count = batch->count;
  }
  list.first = batch->next;
  list.count = count - 1;
  return batch;
}

void* take_without_cache(std::size_t size_class) {
  free_block* batch = take_batch(size_class);
  if (batch == nullptr) return fresh_block(size_class);
  put_batch(size_class, batch->next, batch->count - 1);
  return batch;
}

void* take_pooled(std::size_t size_class) {
  thread_cache* const mine = open_cache();
  if (mine == nullptr) return take_without_cache(size_class);
  thread_list& list = mine->lists[size_class];
  if (list.first == nullptr) return refill_and_take(list, size_class);
  --list.count;
  return std::exchange(list.first, list.first->next);
}

void give_pooled(void* block, std::size_t size_class) noexcept {
  auto* freed = new (block) free_block{};
  thread_cache* const mine = open_cache();
  if (mine == nullptr) return put_batch(size_class, freed, 1);
  thread_list& list = mine->lists[size_class];
  if (list.count == batch_blocks) {
    free_block* full = std::exchange(list.first, nullptr);
    put_batch(size_class, std::exchange(list.spare, full), batch_blocks);
    list.count = 0;
  }
  freed->next = std::exchange(list.first, freed);
  ++list.count;
}

}  // namespace

void* take_block(std::size_t bytes) {
  if (address_sanitizer || bytes > largest_pooled_block) return ::operator new(bytes);
  return take_pooled(class_of(bytes));
}

void give_block(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  if (address_sanitizer || bytes > largest_pooled_block) return ::operator delete(block);
  give_pooled(block, class_of(bytes));
}

std::size_t pooled_blocks() noexcept {
  return shared().from_heap.load(std::memory_order_relaxed);
}

}  // namespace millstream::base
