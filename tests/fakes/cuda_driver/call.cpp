// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/call.hpp"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <new>

#include "tests/fakes/cuda_driver/pool.hpp"
#include "tests/fakes/cuda_driver/proc.hpp"

namespace fake_cuda {

namespace {

/// These work before cuInit, on a broken context, and are not "any call" of a planned fault.
constexpr std::array plain_rows{row::cuInit, row::cuDriverGetVersion, row::cuGetErrorName,
                                row::cuGetErrorString};

/// These only deal with which context is current, or with devices: a fault of the context does not
/// concern them.
constexpr std::array context_free_rows{row::cuDeviceGetCount,
                                       row::cuDeviceGet,
                                       row::cuDeviceGetName,
                                       row::cuDeviceGetUuid,
                                       row::cuDeviceTotalMem,
                                       row::cuDeviceGetAttribute,
                                       row::cuDeviceCanAccessPeer,
                                       row::cuDevicePrimaryCtxRetain,
                                       row::cuDevicePrimaryCtxRelease,
                                       row::cuDevicePrimaryCtxGetState,
                                       row::cuDevicePrimaryCtxReset,
                                       row::cuCtxPushCurrent,
                                       row::cuCtxPopCurrent,
                                       row::cuCtxSetCurrent,
                                       row::cuCtxGetCurrent,
                                       row::cuCtxGetDevice,
                                       row::cuCtxCreate,
                                       row::cuCtxDestroy,
                                       row::cuThreadExchangeStreamCaptureMode};

template <std::size_t Count>
bool is_in(const std::array<row, Count>& list, row which) {
  return std::find(list.begin(), list.end(), which) != list.end();
}

thread_state& this_thread(state& all) {
  thread_local thread_state mine;
  if (mine.generation != all.generation) {
    mine = thread_state{};
    mine.generation = all.generation;
    mine.number = all.threads++;
  }
  return mine;
}

/// In a child made by `fork` the driver's thread and whoever held the mutex are missing.
bool is_forked_child() noexcept {
  static const pid_t first = getpid();
  return getpid() != first;
}

/// Every plan counts the call; the first one that is due fires.
result planned(call& in, row which) {
  std::vector<planned_fault>& plans = in.all.config.faults;
  for (planned_fault& plan : plans) {
    const bool meant =
        plan.name.empty() ? !is_in(plain_rows, which) : plan.name == info_of(which).name;
    if (meant && plan.left > 0) --plan.left;
  }
  const auto due = std::find_if(plans.begin(), plans.end(),
                                [](const planned_fault& plan) { return plan.left == 0; });
  if (due == plans.end()) return result::success;
  const planned_fault fired = *due;
  plans.erase(due);
  ++in.all.faults_fired;
  if (fired.sticky && !in.thread.stack.empty())
    if (const context_ptr here = look_up(in.all.contexts, in.thread.stack.back()))
      here->faults->sticky = fired.answer;
  return fired.answer;
}

result answer(call& in, const call_shape& shape, const void* const* arguments) {
  const result fault = planned(in, shape.which);
  if (fault != result::success) return fault;
  if (is_in(plain_rows, shape.which)) return shape.body(in, arguments);
  require(in.all.initialised, result::not_initialized);
  if (!is_in(context_free_rows, shape.which)) static_cast<void>(in.current_or_none());
  if (info_of(shape.which).unsafe_in_capture) refuse_unsafe_call(in);
  return shape.body(in, arguments);
}

result answer_guarded(call& in, const call_shape& shape, const void* const* arguments) noexcept {
  try {
    return answer(in, shape, arguments);
  } catch (const refusal& refused) {
    return refused.code;
  } catch (const device_fault& fault) {
    return fault.code;
  } catch (const std::bad_alloc&) {
    return result::out_of_memory;
  } catch (...) {
    return result::unknown;
  }
}

void note_arguments(logged_call& record, const call_shape& shape, const void* const* arguments) {
  record.words = shape.argument_count;
  for (std::size_t i = 0; i < shape.argument_count; ++i)
    record.argument[i] = record.answer == result::success ? shape.words[i].after(arguments[i])
                                                          : shape.words[i].before(arguments[i]);
}

}  // namespace

result pass(const call_shape& shape, const void* const* arguments) noexcept {
  if (is_forked_child()) return result::not_initialized;
  state& all = the_state();
  std::unique_lock hold(all.mutex);
  call in{all, hold, this_thread(all)};
  all.log.count(shape.which);
  all.thread.note_call();
  logged_call record;
  record.which = shape.which;
  record.thread = in.thread.number;
  record.answer =
      driver_thread::is_inside() ? result::not_permitted : answer_guarded(in, shape, arguments);
  if (all.log.wants_calls()) {
    note_arguments(record, shape, arguments);
    all.log.note(record);
  }
  return record.answer;
}

context_ptr call::current_or_none() const {
  if (thread.stack.empty() || thread.stack.back() == nullptr) return nullptr;
  const context_ptr here = look_up(all.contexts, thread.stack.back());
  require(here != nullptr, result::context_is_destroyed);
  refuse_faulted(*here);
  return here;
}

context_ptr call::current() const {
  const context_ptr here = current_or_none();
  require(here != nullptr, result::invalid_context);
  return here;
}

context_ptr call::context_of(context handle) const {
  const context_ptr found = look_up(all.contexts, handle);
  require(found != nullptr, result::invalid_context);
  return found;
}

event_ptr call::event_of(event handle) const {
  const event_ptr found = look_up(all.events, handle);
  require(found != nullptr, result::invalid_handle);
  refuse_faulted(*found->owner);
  return found;
}

void refuse_faulted(const context_state& in) {
  require(in.faults->sticky == result::success, in.faults->sticky);
}

void finish(call& in, const op_ptr& what) {
  in.all.work.finish(in.hold, what);
  trim_pools(in.all);
}

bool ask(call& in, askers& who, const op_ptr& what) {
  constexpr std::size_t most_turns = 64;
  const auto is_done = [&what] { return what == nullptr || what->done(); };
  for (std::size_t i = 0; i < who.turns && in.all.work.step(false); ++i)
    continue;
  who.turns = is_done() ? 1 : std::min(who.turns * 2, most_turns);
  return is_done();
}

void finish_context(call& in, const context_ptr& what) {
  // Collected first: the mutex is let go meanwhile, and what is queued then need not be waited for.
  std::vector<op_ptr> tails = what->left_behind;
  for (const std::weak_ptr<stream_state>& one : what->streams)
    if (const stream_ptr open = one.lock()) tails.push_back(open->tail);
  for (const op_ptr& tail : tails)
    finish(in, tail);
}

op_ptr make_operation(const char* what, const context_ptr& owner, std::function<turn()> run) {
  const auto made = std::make_shared<operation>();
  made->what = what;
  made->device = owner->device;
  made->faults = owner->faults;
  made->run = std::move(run);
  return made;
}

}  // namespace fake_cuda
