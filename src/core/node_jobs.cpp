// SPDX-License-Identifier: Apache-2.0
#include "core/node_jobs.hpp"

#include <new>

#include "base/block_pool.hpp"
#include "core/task_job.hpp"

namespace millstream::core {
namespace {

class stage_end final : public backend::job {
 public:
  explicit stage_end(node_jobs&& jobs) noexcept : jobs_(std::move(jobs)) {}
  void run() noexcept override {
    jobs_.dispose();
    discard();
  }
  void discard() noexcept override {
    this->~stage_end();
    base::give_block(this, sizeof(stage_end));
  }

 private:
  ~stage_end() = default;
  node_jobs jobs_;
};

}  // namespace

void node_jobs::add(task_job& one) noexcept {
  one.next = first_;
  first_ = &one;
}

void node_jobs::dispose() noexcept {
  while (first_ != nullptr) {
    task_job& each = *first_;
    first_ = static_cast<task_job*>(each.next);
    each.let_go(/*locked=*/false);
  }
}

void node_jobs::release() noexcept {
  while (first_ != nullptr) {
    task_job& each = *first_;
    first_ = static_cast<task_job*>(each.next);
    each.let_go(/*locked=*/true);
  }
}

backend::job* make_stage_end(node_jobs&& jobs) {
  return new (base::take_block(sizeof(stage_end))) stage_end(std::move(jobs));
}

}  // namespace millstream::core
