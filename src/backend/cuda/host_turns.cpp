// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/host_turns.hpp"

#include "backend/move.hpp"

namespace millstream::backend::cuda {
namespace {

struct mover {
  void operator()(const copy_request& copy) const noexcept { move_block(copy); }
  void operator()(const fill_request& fill) const noexcept { fill_block(fill); }
};

}  // namespace

abi::result host_turns::add(const driver& api, abi::stream on, const work& what) {
  forget_done();
  turn& added = turns_.emplace_back(what);
  const abi::result answer = api->cuLaunchHostFunc(on, &run, &added);
  if (answer != abi::result::success) turns_.pop_back();
  return answer;
}

bool host_turns::are_done() noexcept {
  forget_done();
  return turns_.empty();
}

void host_turns::run(void* of) noexcept {
  auto* const self = static_cast<turn*>(of);
  std::visit(mover{}, self->what);
  self->done.store(true, std::memory_order_release);
}

void host_turns::forget_done() noexcept {
  while (!turns_.empty() && turns_.front().done.load(std::memory_order_acquire))
    turns_.pop_front();
}

}  // namespace millstream::backend::cuda
