// SPDX-License-Identifier: Apache-2.0
#include "backend/call_gate.hpp"

#include "backend/guarded.hpp"

namespace millstream::backend {

void call_gate::set_plan(const fault_plan& plan) noexcept {
  const std::scoped_lock hold(mutex_);
  plan_ = plan;
  seen_ = 0;
  random_ = base::random_source(plan.seed);
  const bool may_fail = plan.nth > 0 || plan.rate > 0.0;
  mode_.store(may_fail ? mode::count_and_fail : mode::count, std::memory_order_relaxed);
}

call_counts call_gate::counts() const noexcept {
  call_counts now{};
  for (std::size_t i = 0; i < call_count; ++i) {
    now[i] = counts_[i].load(std::memory_order_relaxed);
  }
  return now;
}

bool call_gate::must_fail(call kind) noexcept {
  const std::scoped_lock hold(mutex_);
  if (!plan_.any && plan_.kind != kind) return false;
  ++seen_;
  const bool drawn = plan_.rate > 0.0 && random_.chance(plan_.rate);
  return drawn || seen_ == plan_.nth;
}

status call_gate::judge(call kind, const std::string& who) noexcept {
  if (!must_fail(kind)) return {};
  const errc code = kind == call::allocate ? errc::out_of_memory : errc::device;
  return guarded(who, [&] {
    const char* name = call_names[static_cast<std::size_t>(kind)];
    return status(code, base::cat(who, " failed ", base::quoted(name),
                                  " by an injected fault; clear the fault plan"));
  });
}

status call_gate::refuse_child(const std::string& who) noexcept {
  return failure(errc::unavailable, who,
                 "cannot be used in a process that was forked after a machine was opened; start "
                 "processes with 'spawn', or open machines in the child only");
}

}  // namespace millstream::backend
