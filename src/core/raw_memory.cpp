// SPDX-License-Identifier: Apache-2.0
/// Memory of a machine outside of contexts.
#include <string>
#include <utility>

#include <millstream/error.hpp>
#include <millstream/machine.hpp>

#include "base/text.hpp"
#include "core/lanes.hpp"
#include "core/machine.hpp"
#include "core/place.hpp"
#include "core/task_job.hpp"

namespace millstream::inline v1 {
namespace {

core::place_index memory_at(data_place place, core::machine& on) {
  if (place.what() == data_place::kind::affine) {
    throw error(errc::out_of_memory,
                "data_place affine names no memory; use a device, the host or managed memory");
  }
  return core::resolve(place, core::host_place, on);
}

}  // namespace

bool machine::has_host_memory() const noexcept {
  return state_->has(backend::capability::host_memory);
}

void* machine::allocate(data_place place, std::size_t bytes, std::uint64_t stream) const {
  core::check_process();
  core::check_outside_node(*state_, "allocate");
  const core::place_index at = memory_at(place, *state_);
  if (bytes == 0) return nullptr;
  const core::adopted_queue order = state_->adopt(stream, /*one_thread=*/true);
  auto made = at == core::managed_place
                  ? state_->driver().at(0).allocate_managed(bytes, *order.queue)
                  : state_->at(at).allocate(bytes, *order.queue);
  if (!made) throw error(made.why().code(), made.why().text());
  return made.value();
}

void machine::deallocate(data_place place, void* block, std::size_t bytes,
                         std::uint64_t stream) const {
  core::check_process();
  core::check_outside_node(*state_, "deallocate");
  const core::place_index at = memory_at(place, *state_);
  if (block == nullptr) return;
  const core::adopted_queue order = state_->adopt(stream, /*one_thread=*/true);
  core::check(at == core::managed_place
                  ? state_->driver().at(0).release_managed(block, bytes, *order.queue)
                  : state_->at(at).release(block, bytes, *order.queue));
}

void machine::copy(placed_block to, placed_block from, std::size_t bytes,
                   std::uint64_t stream) const {
  core::check_process();
  core::check_outside_node(*state_, "copy");
  const core::place_index to_place = memory_at(to.place, *state_);
  const core::place_index from_place = memory_at(from.place, *state_);
  const core::adopted_queue order = state_->adopt(stream, /*one_thread=*/true);
  core::check(order.queue->copy(backend::copy_request::contiguous(
      to.address, core::home_of(to_place), from.address, core::home_of(from_place), bytes)));
}

void machine::order(std::uint64_t later, std::uint64_t earlier) const {
  if (later == earlier) return;
  core::check_process();
  const core::adopted_queue behind = state_->adopt(later, /*one_thread=*/true);
  const core::adopted_queue before = state_->adopt(earlier, /*one_thread=*/true);
  auto mark = state_->at(before.place).make_event();
  if (!mark) core::check(mark.take_status());
  core::check(before.queue->record(*mark.value()));
  core::check(behind.queue->wait(*mark.value()));
}

}  // namespace millstream::inline v1
