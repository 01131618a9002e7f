// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/host_memory.hpp"

#include <unistd.h>

#include <utility>

#include "backend/cuda/queue.hpp"
#include "backend/cuda/state.hpp"
#include "backend/guarded.hpp"

namespace millstream::backend::cuda {
namespace {

std::size_t memory_of_system() noexcept {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// Whether the driver knows the byte as host memory that it may copy from by itself.
bool is_known(const driver& api, std::uintptr_t address) noexcept {
  auto type = abi::memory_type::unified;
  const abi::result answer =
      api->cuPointerGetAttribute(&type, abi::pointer_attribute::memory_type, address);
  return answer == abi::result::success && type == abi::memory_type::on_host;
}

}  // namespace

host_memory::host_memory(machine_state& of)
    : of_(of),
      pinned_{{of, block_cache::kind::pinned}, {}},
      managed_{{of, block_cache::kind::managed}, {}},
      total_(memory_of_system()) {}

void host_memory::forget_last_uses() noexcept {
  pinned_.cache.forget_last_uses();
  managed_.cache.forget_last_uses();
}

void host_memory::close() noexcept {
  for (const auto& [start, locked] : ranges_) {
    if (locked.ours) (*of_.api)->cuMemHostUnregister(reinterpret_cast<void*>(start));
  }
  pinned_.cache.close();
  managed_.cache.close();
}

result<void*> host_memory::allocate(block_cache::kind what, std::size_t bytes,
                                    const std::string& who) {
  auto taken = store_of(what).cache.take(bytes, who);
  if (taken && taken.value() != nullptr) {
    store_of(what).blocks.add(taken.value(), {bytes, false});
    of_.live.add(1);
  }
  return taken;
}

// A mark of a partition or in somebody else's context must not stay with the machine, which may
// outlive it.
result<mark> host_memory::tail_of(any_queue& order, const std::string& who) {
  auto tail = order.tail();
  if (!tail || order.native() == nullptr || tail.value().captured) return tail;
  const device_state& made_on = order.native()->on;
  auto own = device_of(of_, made_on.index(), who);
  if (!own) return own.take_status();
  if (own.value() == &made_on) return tail;
  auto helper = own.value()->take_stream();
  if (!helper) return helper.take_status();
  status waits = helper.value()->wait(tail.value());
  tail = waits ? helper.value()->record() : result<mark>(std::move(waits));
  own.value()->give_back(std::move(helper.value()));
  return tail;
}

status host_memory::release(block_cache::kind what, void* block, std::size_t bytes,
                            any_queue& order, const std::string& who) {
  if (block == nullptr) return {};
  auto last_use = tail_of(order, who);
  if (!last_use) return last_use.take_status();
  auto removed = store_of(what).blocks.remove(block, bytes, who);
  if (!removed) return removed.take_status();
  store_of(what).cache.give_after(block, std::move(last_use.value()));
  of_.live.add(-1);
  return {};
}

bool host_memory::join_range(void* block, std::size_t bytes, status& answer) {
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(block));
  if (found == ranges_.end()) return false;
  if (found->second.changing) {
    answer = {errc::usage,
              "machine 'cuda' cannot lock memory that another thread is locking or unlocking; try "
              "again later"};
    return true;
  }
  if (bytes > found->second.bytes) {
    answer = {errc::invalid_value,
              base::cat("machine 'cuda' has page-locked ", base::bytes_text(found->second.bytes),
                        " of this range already and cannot lock ", base::bytes_text(bytes),
                        "; unlock it first")};
    return true;
  }
  ++found->second.users;
  return true;
}

status host_memory::lock_pages(void* block, std::size_t bytes) {
  std::unique_lock hold(mutex_);
  status answer;
  if (join_range(block, bytes, answer)) return answer;
  const auto made = ranges_.emplace(reinterpret_cast<std::uintptr_t>(block),
                                    range{bytes, 1, false, /*changing=*/true});
  range& fresh = made.first->second;  // stays where it is, and nobody else changes it
  hold.unlock();
  if (bytes > 0) answer = lock_by_driver(block, fresh);
  hold.lock();
  fresh.changing = false;
  if (!answer) ranges_.erase(made.first);
  return answer;
}

status host_memory::lock_by_driver(void* block, range& what) {
  const driver& api = *of_.api;
  const context_guard in(api, of_.first->context());
  const relaxed_capture allowed(api);
  const abi::result locked =
      api->cuMemHostRegister(block, what.bytes, abi::host_register_flags::portable);
  what.ours = locked == abi::result::success;
  // Locked by somebody else: all of it, or a page at one end that it shares with another block.
  const auto start = reinterpret_cast<std::uintptr_t>(block);
  const bool is_theirs = locked == abi::result::host_memory_already_registered &&
                         is_known(api, start) && is_known(api, start + what.bytes - 1);
  if (what.ours || is_theirs) return {};
  return of_.first->check("page-lock host memory", locked);
}

status host_memory::unlock_pages(void* block) {
  std::unique_lock hold(mutex_);
  const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(block));
  if (found == ranges_.end() || found->second.changing) {
    return {errc::invalid_value,
            "machine 'cuda' cannot unlock memory that it did not page-lock; give the start of a "
            "registered range"};
  }
  if (--found->second.users > 0) return {};
  status answer;
  if (found->second.ours) {
    found->second.changing = true;
    hold.unlock();
    const driver& api = *of_.api;
    const context_guard in(api, of_.first->context());
    const relaxed_capture allowed(api);
    answer =
        of_.first->check("undo the page-locking of host memory", api->cuMemHostUnregister(block));
    hold.lock();
  }
  ranges_.erase(found);
  return answer;
}

std::optional<bool> host_memory::is_locked_here(const byte_span& span) const noexcept {
  const std::scoped_lock hold(mutex_);
  const auto after = ranges_.upper_bound(span.first);
  if (after == ranges_.begin()) return std::nullopt;
  const auto& [start, locked] = *std::prev(after);
  if (span.first >= start + locked.bytes) return std::nullopt;
  return !locked.changing && span.past <= start + locked.bytes;
}

bool host_memory::is_pinned(const byte_span& span) noexcept {
  if (span.empty() || pinned_.cache.owns(span)) return true;
  if (const auto locked = is_locked_here(span)) return *locked;
  const context_guard in(*of_.api, of_.first->context());
  return is_known(*of_.api, span.first) && is_known(*of_.api, span.past - 1);
}

}  // namespace millstream::backend::cuda
