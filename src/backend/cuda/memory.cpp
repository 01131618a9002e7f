// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/memory.hpp"

#include <limits>

#include "backend/cuda/state.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/guarded.hpp"

namespace millstream::backend::cuda {
namespace {

void* pointer(abi::device_pointer address) noexcept {
  return reinterpret_cast<void*>(address);
}

}  // namespace

void block_table::add(void* address, block what) {
  const std::scoped_lock hold(mutex_);
  blocks_.emplace(address, what);
  used_ += what.bytes;
}

result<block_table::block> block_table::remove(void* address, std::size_t bytes,
                                               const std::string& who) {
  const std::scoped_lock hold(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.bytes != bytes) {
    return status(errc::invalid_value,
                  base::cat(who, " cannot release ", base::bytes_text(bytes),
                            " that it did not hand out; release each block once, with its size"));
  }
  const block removed = found->second;
  blocks_.erase(found);
  used_ -= bytes;
  return removed;
}

std::size_t block_table::used() const noexcept {
  const std::scoped_lock hold(mutex_);
  return used_;
}

status device_memory::open() {
  const driver& api = of_.api();
  if (of_.attribute(abi::device_attribute::memory_pools_supported) == 0) {
    return {errc::unavailable,
            base::cat(of_.who(), " cannot allocate in stream order; use another device")};
  }
  abi::memory_pool_properties properties{};
  properties.type = abi::allocation_type::pinned;
  properties.location = {abi::location_type::at_device, of_.ordinal()};
  if (status failed = of_.check("make a memory pool", api->cuMemPoolCreate(&pool_, &properties));
      !failed) {
    return failed;
  }
  auto keep = std::numeric_limits<std::uint64_t>::max();
  int no = 0;
  abi::result set =
      api->cuMemPoolSetAttribute(pool_, abi::pool_attribute::release_threshold, &keep);
  if (set == abi::result::success) {
    set = api->cuMemPoolSetAttribute(pool_, abi::pool_attribute::reuse_allow_internal_dependencies,
                                     &no);
  }
  return of_.check("set up a memory pool", set);
}

void device_memory::close() noexcept {
  if (pool_ != nullptr) of_.api()->cuMemPoolDestroy(pool_);
  pool_ = nullptr;
}

status device_memory::no_room(std::size_t bytes) const {
  return {errc::out_of_memory,
          base::cat(of_.who(), " cannot allocate ", base::bytes_text(bytes), ": ",
                    base::bytes_text(used()), " of ", base::bytes_text(total_),
                    " are in use here, the rest by others or in pieces; use less data at a time")};
}

void device_memory::trim() noexcept {
  of_.api()->cuMemPoolTrimTo(pool_, 0);
}

result<void*> device_memory::allocate(std::size_t bytes, stream& order) {
  if (bytes == 0) return nullptr;
  if (bytes > total_) return no_room(bytes);
  auto captured = order.is_capturing();
  if (!captured) return captured.take_status();
  const driver& api = of_.api();
  const context_guard in(api, order.on.context());
  // The driver refuses it during captures of others, though it is queued on our stream.
  const relaxed_capture allowed(api);
  abi::device_pointer address = 0;
  abi::result answer = api->cuMemAllocFromPoolAsync(&address, bytes, pool_, order.raw);
  if (answer == abi::result::out_of_memory && !captured.value()) {
    trim();  // what the pool keeps may lie in pieces that are too small
    answer = api->cuMemAllocFromPoolAsync(&address, bytes, pool_, order.raw);
  }
  if (answer == abi::result::out_of_memory) return no_room(bytes);
  if (status failed = of_.check("allocate memory", answer); !failed) return failed;
  blocks_.add(pointer(address), {bytes, captured.value()});
  return pointer(address);
}

status device_memory::release(void* block, std::size_t bytes, stream& order) {
  auto removed = give_up(block, bytes);
  if (!removed) return removed.take_status();
  status freed = free(block, removed.value(), order);
  if (!freed) blocks_.add(block, removed.value());
  return freed;
}

result<block_table::block> device_memory::give_up(void* block, std::size_t bytes) {
  return blocks_.remove(block, bytes, of_.who());
}

status device_memory::free(void* block, const block_table::block& what, stream& order) {
  auto capturing = order.is_capturing();
  if (!capturing) return capturing.take_status();
  // The driver frees inside of a capture only what was allocated in it, and the other way round.
  if (what.captured != capturing.value()) return {};
  const driver& api = of_.api();
  const context_guard in(api, order.on.context());
  const relaxed_capture allowed(api);  // as in `allocate`
  const auto address = reinterpret_cast<abi::device_pointer>(block);
  return of_.check("release memory", api->cuMemFreeAsync(address, order.raw));
}

status device_memory::let_in(device_state& other) {
  const driver& api = of_.api();
  const abi::memory_access access{{abi::location_type::at_device, other.ordinal()},
                                  abi::access_flags::read_write};
  const context_guard in(api, of_.context());
  const relaxed_capture allowed(api);
  return of_.check("let another device reach its memory",
                   api->cuMemPoolSetAccess(pool_, &access, 1));
}

}  // namespace millstream::backend::cuda
