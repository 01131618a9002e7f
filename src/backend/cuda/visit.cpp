// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/visit.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace millstream::backend::cuda {
namespace {

struct visit {
  std::uint64_t number;
  abi::context in;
};

struct thread_visits {
  abi::context before = nullptr;  // the first visit
  std::vector<visit> open;
};
// Looked for once a visit and handed on: in a shared library each look may be a call.
thread_local thread_visits t_visits;

std::atomic<std::uint64_t> g_last{0};

// Visits that another thread has ended.
struct strangers {
  std::mutex mutex;  // guards `numbers`; innermost
  std::vector<std::uint64_t> numbers;
  std::atomic<bool> any{false};
};
strangers& ended_elsewhere() {
  static auto* const all = new strangers;
  return *all;
}

void move_to(const driver& api, abi::context wanted) noexcept {
  abi::context now = nullptr;
  if (api->cuCtxGetCurrent(&now) == abi::result::success && now != wanted) {
    api->cuCtxSetCurrent(wanted);
  }
}

void forget(thread_visits& here, std::vector<visit>::iterator which, const driver& api) noexcept {
  const bool innermost = which + 1 == here.open.end();
  here.open.erase(which);
  if (here.open.empty()) {
    move_to(api, here.before);
  } else if (innermost) {
    move_to(api, here.open.back().in);
  }
}

std::vector<visit>::iterator find(thread_visits& here, std::uint64_t number) noexcept {
  return std::find_if(here.open.begin(), here.open.end(),
                      [&](const visit& each) { return each.number == number; });
}

void forget_ended_elsewhere(thread_visits& here, const driver& api) noexcept {
  strangers& all = ended_elsewhere();
  if (!all.any.load(std::memory_order_acquire)) return;
  const std::scoped_lock hold(all.mutex);
  std::erase_if(all.numbers, [&](std::uint64_t number) {
    const auto mine = find(here, number);
    if (mine == here.open.end()) return false;
    forget(here, mine, api);
    return true;
  });
  all.any.store(!all.numbers.empty(), std::memory_order_release);
}

}  // namespace

std::uint64_t begin_visit(const driver& api, abi::context wanted) noexcept {
  thread_visits& here = t_visits;
  forget_ended_elsewhere(here, api);
  abi::context now = nullptr;
  if (api->cuCtxGetCurrent(&now) != abi::result::success) return 0;
  if (now != wanted && api->cuCtxSetCurrent(wanted) != abi::result::success) return 0;
  if (here.open.empty()) here.before = now;
  const std::uint64_t number = g_last.fetch_add(1, std::memory_order_relaxed) + 1;
  here.open.push_back({number, wanted});
  return number;
}

void end_visit(const driver& api, std::uint64_t number) noexcept {
  if (number == 0) return;
  thread_visits& here = t_visits;
  const auto mine = find(here, number);
  if (mine != here.open.end()) {
    forget(here, mine, api);
    return;
  }
  strangers& all = ended_elsewhere();
  const std::scoped_lock hold(all.mutex);
  all.numbers.push_back(number);
  all.any.store(true, std::memory_order_release);
}

}  // namespace millstream::backend::cuda
