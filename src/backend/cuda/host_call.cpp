// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/host_call.hpp"

#include <condition_variable>
#include <mutex>
#include <new>
#include <vector>

#include "backend/guarded.hpp"
#include "backend/move.hpp"
#include "backend/worker.hpp"

namespace millstream::backend::cuda {
namespace {

/// Opened once. The one who waits owns it, so nothing of it is touched after the lock is let go.
class latch {
 public:
  void open() noexcept {
    const std::scoped_lock hold(mutex_);
    is_open_ = true;
    opened_.notify_one();
  }
  void wait() noexcept {
    std::unique_lock hold(mutex_);
    opened_.wait(hold, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;  // guards `is_open_`; innermost
  std::condition_variable opened_;
  bool is_open_ = false;
};

class handed_over final : public own_turn {
 public:
  handed_over(job& work, latch& done) : work_(work), done_(done) {}
  void carry_out() noexcept override {
    work_.run();
    done_.open();
  }

 private:
  job& work_;
  latch& done_;
};

/// The driver may still have the address of such a call.
void keep_for_good(host_call& call) noexcept {
  static std::mutex mutex;  // guards `kept`; innermost
  static auto* const kept = new std::vector<host_call*>;
  const std::scoped_lock hold(mutex);
  try {
    kept->push_back(&call);
  } catch (const std::bad_alloc&) {
    // Then nobody remembers it, and it stays all the same.
  }
}

}  // namespace

host_runner::host_runner(const std::string& who) : lane_(std::make_shared<worker>(who, nullptr)) {}

host_runner::~host_runner() {
  lane_->close();
}

void host_runner::run(job& work) noexcept {
  latch done;
  const status queued = guarded("a graph", [&] {
    return lane_->add(std::unique_ptr<own_turn>(std::make_unique<handed_over>(work, done)));
  });
  if (queued) {
    done.wait();
  } else {
    work.discard();
  }
}

void host_call::drop() noexcept {
  if (holders_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void host_call::expect() noexcept {
  hold();
  expected_.fetch_add(1, std::memory_order_relaxed);
}

void host_call::unexpect() noexcept {
  if (claim()) drop();
}

bool host_call::claim() noexcept {
  std::uint32_t now = expected_.load(std::memory_order_relaxed);
  while (now > 0 && !expected_.compare_exchange_weak(now, now - 1, std::memory_order_acq_rel)) {
  }
  return now > 0;
}

// What is discarded is never dropped.
void host_call::give_up() noexcept {
  bool any = false;
  while (claim()) {
    any = true;
    if (job* const* const one = std::get_if<job*>(&what_)) (*one)->discard();
  }
  if (any) keep_for_good(*this);
}

void host_call::carry_out() noexcept {
  if (job* const* const one = std::get_if<job*>(&what_)) {
    if ((*one)->calls_no_driver) {
      (*one)->run();
    } else {
      by_->run(**one);
    }
  } else if (const auto* const fill = std::get_if<fill_request>(&what_)) {
    fill_block(*fill);
  } else if (const auto* const copy = std::get_if<copy_request>(&what_)) {
    move_block(*copy);
  }
}

void host_call::run(void* of) noexcept {
  auto* const self = static_cast<host_call*>(of);
  if (self->claim()) {
    self->carry_out();
    self->drop();
  } else if (self->always_.load(std::memory_order_relaxed)) {
    self->carry_out();
  }
}

host_call& host_calls::add(const std::shared_ptr<host_runner>& by, host_call::work what,
                           std::shared_ptr<void> with) {
  make_room();
  auto* const made = new host_call(by, what, std::move(with));
  push(*made);
  return *made;
}

void host_calls::add(const host_calls& other) {
  const std::size_t before = size_;
  try {
    other.for_each([&](host_call& each) {
      make_room();
      each.hold();
      push(each);
    });
  } catch (...) {
    remove_last(size_ - before);
    throw;
  }
}

void host_calls::make_room() {
  if (last_ != nullptr && last_->count < last_->all.size()) return;
  last_ = new (base::take_block(sizeof(block))) block{last_, 0, {}};
}

void host_calls::remove_last(std::size_t count) noexcept {
  while (count > 0 || (last_ != nullptr && last_->count == 0)) {
    if (last_->count == 0) {
      base::give_block(std::exchange(last_, last_->before), sizeof(block));
      continue;
    }
    last_->all[--last_->count]->drop();
    --size_;
    --count;
  }
}

}  // namespace millstream::backend::cuda
