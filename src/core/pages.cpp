// SPDX-License-Identifier: Apache-2.0
/// Page-locking of users' buffers: done where it pays, undone after the last use.
#include <utility>

#include "core/blocking.hpp"
#include "core/context.hpp"
#include "core/unlocker.hpp"

namespace millstream::core {
namespace {

/// Below, staging is as fast, and blocks of a heap share pages with others, which a driver locks
/// once only.
constexpr std::size_t least_locked_bytes = std::size_t{1} << 20U;

}  // namespace

bool context::has_copies_by_pages() const noexcept {
  machine& where = on();
  return !where.has(backend::capability::host_memory) && where.has(backend::capability::values) &&
         !lanes_.is_recorded();
}

// Locking 1 GiB takes about as long as one copy of it that goes through staging, and copies from
// locked pages are several times as fast: it pays at the first copy. Only where the memory has an
// owner, which keeps it until the locking was undone: a driver that believes another buffer at the
// same address to be locked would copy from pages that are gone.
bool context::may_lock_pages(const data& what, bool in_place) const noexcept {
  return what.keep_alive != nullptr && !what.pages_asked &&
         what.bytes >= (in_place ? 1 : least_locked_bytes) &&
         what.instances[0].place == host_place && has_copies_by_pages();
}

// Without the lock meanwhile: the driver takes its time.
void context::lock_pages(lock& held, data& what) {
  what.pages_asked = true;
  void* const block = what.instances[0].address;
  std::shared_ptr<void> owner = what.keep_alive;
  held.unlock();
  bool is_locked = false;
  {
    const blocking_section blocking;
    is_locked = on().driver().register_memory(block, what.bytes).ok();
  }
  held.lock();
  if (!is_locked) return;  // the copies go through staging
  has_locked_pages_ = true;
  auto unlocks = unlocked_in_the_end({options_.on.state(), block, what.bytes, std::move(owner)});
  if (what.let_go) return;
  for (data* const other : ranges_.find_sharing(what.area, /*readonly=*/false)) {
    if (other != &what) other->keep_alive = with_locks(std::move(other->keep_alive), {unlocks});
  }
  what.keep_alive = std::move(unlocks);
}

// Drivers decide by the pages how a copy is done when it is queued or recorded, so they stay as
// they were then: also where others had them locked and have let go of the buffer.
bool context::keep_pages_locked(lock& held, const strided& area,
                                std::vector<std::shared_ptr<void>>& locks) {
  if (!has_copies_by_pages()) return true;
  locks.clear();
  if (keep_locked(on(), area.low(), area.span(), locks)) return true;
  held.unlock();
  locks.clear();
  {
    const blocking_section blocking;
    wait_for_an_unlock(std::chrono::milliseconds{1});
  }
  held.lock();
  check_takes_work(held, "logical_data");
  return false;
}

// What a device reads is copied in, and what it writes will be copied home. Where it works in the
// buffer itself, few GPUs can follow the address unless the pages are locked. Whether it unlocked.
bool context::lock_pages_of(lock& held, const plan& of) {
  bool unlocked = false;
  for (const access& each : of.accesses) {
    data& what = *each.what;
    if (!what.registered || what.pages_asked || what.let_go) continue;
    const bool in_place = of.host_on_device && each.place == host_place;
    if (each.place < 0 && !in_place) continue;
    if (in_place || writes(each.mode) || !what.is_valid(each.place)) {
      if (!may_lock_pages(what, in_place)) continue;
      lock_pages(held, what);
      unlocked = true;
    }
  }
  return unlocked;
}

// So that owners are gone when `finish` returns. Not while streams wait for host functions of
// others: unlocking would wait for these. The owner may be an object of Python's, so that the
// thread that unlocks needs the lock of the interpreter.
void context::await_unlocked_pages() {
  const std::uint64_t all = unlocks_wanted();
  constexpr std::chrono::milliseconds slice{1};
  const blocking_section blocking;
  while (!on().has_parked_queues() && !wait_for_unlocks(all, slice))
    continue;
}

}  // namespace millstream::core
