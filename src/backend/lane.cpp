// SPDX-License-Identifier: Apache-2.0
#include "backend/lane.hpp"

#include "backend/move.hpp"

namespace millstream::backend {
namespace {

struct executor {
  bool discards_jobs;

  void operator()(const copy_request& copy) const noexcept {
    const bool left_out =
        copy.skip_when != nullptr && copy.skip_when->load(std::memory_order_acquire) != nullptr;
    if (!left_out) move_block(copy);
  }
  void operator()(const fill_request& fill) const noexcept { fill_block(fill); }
  void operator()(const job_turn& turn) const noexcept {
    if (turn.work == nullptr) return;  // discarded before its turn
    if (discards_jobs) {
      turn.work->discard();
    } else {
      turn.work->run();
    }
  }
  void operator()(const release_turn& turn) const noexcept {
    turn.from->take_back(turn.block);
    turn.live->add(-1);
  }
  void operator()(const wait_turn& turn) const noexcept {
    turn.behind->wait_until(turn.position, no_limit);
  }
  void operator()(const std::unique_ptr<own_turn>& turn) const noexcept { turn->carry_out(); }
};

}  // namespace

void carry_out(operation& turn, bool discards_jobs) noexcept {
  std::visit(executor{discards_jobs}, turn);
}

}  // namespace millstream::backend
