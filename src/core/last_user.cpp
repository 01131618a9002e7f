// SPDX-License-Identifier: Apache-2.0
/// What a collector of garbage asks about the owners of users' buffers.
#include <memory>
#include <mutex>

#include <millstream/hooks.hpp>

#include "core/context.hpp"
#include "core/unlocker.hpp"

namespace millstream::core {

// Only what is known: a look at a device may block inside of the driver.
bool context::is_at_rest(data& what) noexcept {
  if (what.at_rest.load(std::memory_order_relaxed)) return true;
  const lock held(mutex_, std::try_to_lock);
  if (!held.owns_lock() || !what.sharing.empty()) return false;
  const bool is_written_back = phase_ == phase::live && !what.readonly && what.bytes > 0 &&
                               !what.instances.empty() && !what.is_valid(what.instances[0].place);
  bool is_unused = lanes_.is_done(what.writer) && lanes_.are_done(what.readers);
  for (const instance& each : what.instances)
    is_unused = is_unused && lanes_.are_done(each.ready);
  what.at_rest.store(is_unused && !is_written_back, std::memory_order_relaxed);
  return is_unused && !is_written_back;
}

}  // namespace millstream::core

namespace millstream::inline v1 {

const std::shared_ptr<void>* owner_kept_by(const untyped_data& handle) noexcept {
  const core::data* const what = handle.state();
  if (what == nullptr || !what->has_one_handle_only()) return nullptr;
  const std::shared_ptr<void>* owner = &what->keep_alive;
  if (owner->use_count() != 1) return nullptr;
  if (const auto* const locked = std::get_deleter<core::page_unlocker>(*owner)) {
    owner = &locked->what.owner;
  } else if (const auto* const keeper = std::get_deleter<core::keeper_of_locks>(*owner)) {
    owner = &keeper->owner;
  }
  return owner->use_count() == 1 ? owner : nullptr;
}

bool is_buffer_at_rest(const untyped_data& handle) noexcept {
  core::data* const what = handle.state();
  return what != nullptr && what->owner->is_at_rest(*what);
}

}  // namespace millstream::inline v1
