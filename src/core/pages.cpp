// SPDX-License-Identifier: Apache-2.0
/// Page-locking of users' buffers: done where it pays, undone with the last use.
#include <utility>

#include "core/context.hpp"

namespace millstream::core {
namespace {

/// Below, staging is as fast, and blocks of a heap share pages with others, which a driver locks
/// once only.
constexpr std::size_t least_locked_bytes = std::size_t{1} << 20U;

/// Keeps the owner of a buffer and undoes the locking before it goes.
std::shared_ptr<void> locked_owner(std::shared_ptr<machine> on, void* block,
                                   std::shared_ptr<void> owner) {
  return {block, [on = std::move(on), owner = std::move(owner)](void* locked) {
            // A failure leaves the pages locked, which costs nothing but memory that stays put.
            static_cast<void>(on->driver().unregister_memory(locked));
          }};
}

}  // namespace

bool context::has_copies_by_pages() const noexcept {
  const machine& where = *options_.on.state();
  return !where.has(backend::capability::host_memory) && where.has(backend::capability::values) &&
         !lanes_.is_recorded();
}

// Locking 1 GiB takes about as long as one copy of it that goes through staging, and copies from
// locked pages are several times as fast: it pays at the first copy.
bool context::may_lock_pages(const data& what) const noexcept {
  return what.registered && !what.pages_asked && what.bytes >= least_locked_bytes &&
         what.instances[0].place == host_place && has_copies_by_pages();
}

// Without the lock meanwhile: the driver takes its time. The caller keeps the object.
void context::lock_pages(lock& held, data& what) {
  what.pages_asked = true;
  void* const block = what.instances[0].address;
  held.unlock();
  const bool is_locked = on().driver().register_memory(block, what.bytes).ok();
  held.lock();
  if (!is_locked) return;  // the copies go through staging
  if (!what.let_go) {
    what.keep_alive = locked_owner(options_.on.state(), block, std::move(what.keep_alive));
    return;
  }
  held.unlock();
  static_cast<void>(on().driver().unregister_memory(block));
  held.lock();
}

// What a device reads is copied in, and what it writes will be copied home.
void context::lock_pages_of(lock& held, const plan& of) {
  for (const access& each : of.accesses) {
    data& what = *each.what;
    if (!what.registered || what.pages_asked || what.let_go || each.place < 0) continue;
    if (writes(each.mode) || !what.is_valid(each.place)) {
      if (may_lock_pages(what)) lock_pages(held, what);
    }
  }
}

bool context::lock_pages_of_a_result(lock& held, std::vector<std::shared_ptr<void>>& dropped) {
  for (data* each : all_data_) {
    if (each->let_go || !each->registered || each->is_valid(each->instances[0].place)) continue;
    if (each->readonly || !may_lock_pages(*each)) continue;
    each->add_reference();
    dropped.emplace_back(each, [](data* kept) { kept->drop_reference(); });
    lock_pages(held, *each);
    return true;
  }
  return false;
}

locked_pages::locked_pages(machine& on, void* block, std::size_t bytes) : on_(on), block_(block) {
  if (bytes < least_locked_bytes || !on_.driver().register_memory(block, bytes).ok()) {
    block_ = nullptr;
  }
}

locked_pages::~locked_pages() {
  if (block_ != nullptr) static_cast<void>(on_.driver().unregister_memory(block_));
}

}  // namespace millstream::core
