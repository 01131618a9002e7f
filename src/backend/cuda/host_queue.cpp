// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/queue.hpp"
#include "backend/cuda/word_pool.hpp"
#include "backend/guarded.hpp"
#include "backend/late_failure.hpp"
#include "backend/missing.hpp"
#include "backend/queue_number.hpp"
#include "backend/request.hpp"
#include "backend/worker.hpp"

namespace millstream::backend::cuda {
namespace {

/// What the thread of a host queue refers to. The word goes back first.
struct kept_by_lane {
  std::shared_ptr<machine_state> machine;
  std::shared_ptr<word_pool::word> word;
};

/// Calls a function at its turn and keeps its failure for those who wait.
template <class Body>
class turn final : public own_turn {
 public:
  turn(std::shared_ptr<late_fault> fault, Body body)
      : fault_(std::move(fault)), body_(std::move(body)) {}
  void carry_out() noexcept override {
    status answer = guarded("a queue of the host side", body_);
    if (!answer) fault_->note(std::move(answer));
  }

 private:
  const std::shared_ptr<late_fault> fault_;
  Body body_;
};

/// What a failed copy left, for the job behind it. One a thread of a queue.
class copy_failure final : public late_failure {
 public:
  void note(std::shared_ptr<late_fault> kept) noexcept {
    kept_ = std::move(kept);
    note_failed_copy(*this);
  }
  [[nodiscard]] status take() noexcept override { return kept_->take(); }

 private:
  std::shared_ptr<late_fault> kept_;
};
thread_local copy_failure last_failed_copy;

bool is_host(memory_home home) noexcept {
  return home == memory_home::host || home == memory_home::managed;
}

/// Blocks until the mark was passed. What comes next in the lane relies on that, so a driver that
/// would not tell is asked once more in another way.
status outlast(const mark& what) {
  status answer = wait_until(what, no_limit).take_status();
  if (answer || answer.code() == errc::device_lost || what.raw == nullptr) return answer;
  device_state& on = what.raw->on;
  const context_guard in(on.api(), what.raw->home);
  return on.check("reach a mark in a queue", on.api()->cuEventSynchronize(what.raw->handle));
}

/// Blocks until what is queued on the stream has ended.
status finish(stream& what) {
  auto tail = what.record();
  if (tail) return outlast(tail.value());
  const context_guard in(what.on.api(), what.on.context());
  return what.on.check("wait for a stream", what.on.api()->cuStreamSynchronize(what.raw));
}

/// Blocks until the copy has ended, or what was queued of one that failed has.
status move_now(helper_streams& through, int device, const std::string& who,
                const copy_request& request) {
  auto on = through.on(device, who);
  if (!on) return on.take_status();
  status queued = on.value()->copy(request);
  status ended = finish(*on.value());
  return queued ? std::move(ended) : std::move(queued);
}

}  // namespace

helper_streams::~helper_streams() {
  for (auto& [device, leased] : streams_) {
    if (base::forked_child()) {
      [[maybe_unused]] const auto* const left = leased.release();
    } else {
      leased->on.give_back(std::move(leased));
    }
  }
}

result<stream*> helper_streams::on(int device, const std::string& who) {
  auto there = device_of(of_, device, who);
  if (!there) return there.take_status();
  std::unique_ptr<stream>& leased = streams_[device];
  if (leased == nullptr) {
    auto taken = there.value()->take_stream();
    if (!taken) return taken.take_status();
    leased = std::move(taken.value());
  }
  return leased.get();
}

result<std::unique_ptr<host_queue>> host_queue::make(std::shared_ptr<machine_state> machine,
                                                     const std::string& who) {
  auto word = machine->words->take(who);
  if (!word) return word.take_status();
  auto kept = std::make_shared<kept_by_lane>(kept_by_lane{machine, word.value()});
  auto lane = std::make_shared<worker>(who, std::move(kept), word.value().get());
  return std::make_unique<host_queue>(std::move(machine), who, std::move(lane));
}

host_queue::host_queue(std::shared_ptr<machine_state> machine, std::string who,
                       std::shared_ptr<lane> lane)
    : machine_(std::move(machine)),
      who_(std::move(who)),
      alive_(machine_->live),
      number_(next_queue_number()),
      lane_(std::move(lane)),
      helpers_(std::make_shared<helper_streams>(*machine_)),
      fault_(std::make_shared<late_fault>()) {}

host_queue::~host_queue() {
  // In a forked child the lane's thread is missing and may have left its mutex locked.
  if (!base::forked_child()) lane_->close();
}

template <class Body>
status host_queue::call(backend::call kind, Body&& body) {
  if (status refused = machine_->gate.pass(kind, who_); !refused) return refused;
  return guarded(who_, body);
}

template <class Body>
status host_queue::add_turn(Body body) {
  return lane_->add(
      std::unique_ptr<own_turn>(std::make_unique<turn<Body>>(fault_, std::move(body))));
}

status host_queue::copy(const copy_request& request) {
  return call(call::copy, [&]() -> status {
    auto spans = check_copy(request, who_);
    if (!spans) return spans.take_status();
    if (spans.value().to.empty()) return {};
    if (is_host(request.to_home) && is_host(request.from_home)) return lane_->add(request);
    const int device =
        static_cast<int>(is_host(request.to_home) ? request.from_home : request.to_home);
    return add_turn([helpers = helpers_, who = who_, request, device, fault = fault_]() -> status {
      if (request.skip_when != nullptr &&
          request.skip_when->load(std::memory_order_acquire) != nullptr) {
        return {};
      }
      status moved = guarded(who, [&] { return move_now(*helpers, device, who, request); });
      if (!moved) last_failed_copy.note(fault);
      return moved;
    });
  });
}

status host_queue::fill(const fill_request& request) {
  return call(call::fill, [&]() -> status {
    auto span = check_fill(request, who_);
    if (!span) return span.take_status();
    if (span.value().empty()) return {};
    if (is_host(request.home)) return lane_->add(request);
    return add_turn([helpers = helpers_, who = who_, request]() -> status {
      auto through = helpers->on(static_cast<int>(request.home), who);
      if (!through) return through.take_status();
      status queued = through.value()->fill(request);
      return queued ? finish(*through.value()) : std::move(queued);
    });
  });
}

status host_queue::run(job& work) {
  return call(call::run, [&] { return lane_->add(job_turn{&work}); });
}

status host_queue::launch(const launch_request& /*request*/) {
  return call(call::launch, [&] { return missing(who_, "launch kernels", capability::kernels); });
}

status host_queue::record(backend::event& into) {
  return call(call::record, [&]() -> status {
    mark tail;
    tail.behind = lane_;
    tail.position = lane_->tail();
    tail.fault = fault_;
    static_cast<event&>(into).set(std::move(tail), machine_);
    return {};
  });
}

result<mark> host_queue::tail() {
  mark now;
  now.behind = lane_;
  now.position = lane_->tail();
  return now;
}

status host_queue::wait(backend::event& what) {
  return call(call::wait, [&] { return wait_for(static_cast<event&>(what).last()); });
}

status host_queue::wait_for(const mark& what) {
  if (what.behind != nullptr) {
    const bool implied = what.behind == lane_ || what.behind->passed(what.position);
    return implied ? status{} : lane_->add(wait_turn{what.behind, what.position});
  }
  if (what.captured) return is_passed(what).take_status();
  if (what.raw == nullptr) return {};
  return add_turn([what] { return outlast(what); });
}

status host_queue::release(device_state& of, void* block, std::size_t bytes) {
  auto given_up = of.memory().give_up(block, bytes);
  if (!given_up) return given_up.take_status();
  return add_turn([helpers = helpers_, &of, block, what = given_up.value()]() -> status {
    auto through = helpers->on(of.index(), of.who());
    if (!through) return through.take_status();
    return of.memory().free(block, what, *through.value());
  });
}

}  // namespace millstream::backend::cuda
