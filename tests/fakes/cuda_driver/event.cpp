// SPDX-License-Identifier: Apache-2.0
// Events: a record remembers the stream's position at the time of the call, a wait refers to the
// position remembered when it is called.
#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/capture.hpp"

namespace fake_cuda {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint32_t known_flags = 0x7;

bool has_timing(const event_state& of) {
  return (of.flags & static_cast<std::uint32_t>(event_flags::disable_timing)) == 0;
}

op_ptr make_mark(const event_ptr& mark, const context_ptr& owner) {
  const auto passed_at = std::make_shared<clock::time_point>();
  op_ptr made = make_operation("event record", owner, [passed_at] {
    *passed_at = clock::now();
    return turn::done;
  });
  mark->mark = made;
  mark->passed_at = passed_at;
  mark->captured_in = nullptr;
  mark->captured_after.clear();
  return made;
}

op_ptr make_wait(const event_ptr& mark, const context_ptr& owner) {
  op_ptr made = make_operation("event wait", owner, nullptr);
  made->after.push_back(mark->mark);
  return made;
}

/// Partitions share the events of their device's primary context.
bool are_together(const context_state& a, const context_state& b) {
  const auto is_shared = [](const context_state& one) {
    return one.kind != context_state::origin::made;
  };
  return &a == &b || (a.device == b.device && is_shared(a) && is_shared(b));
}

result record(call& in, event mark, stream on, bool external) {
  const event_ptr what = in.event_of(mark);
  const stream_ptr here = in.at(on);
  require(are_together(*what->owner, *here->owner), result::invalid_handle);
  if (here->capture != nullptr && !external) {
    require(!here->capture->invalid, result::stream_capture_invalidated);
    what->captured_in = here->capture;
    what->captured_after = here->capture_tail;
    return result::success;
  }
  issue(in, here, node_type::record_event,
        [what, owner = here->owner] { return make_mark(what, owner); });
  return result::success;
}

void refuse_captured_event(const event_state& of) {
  if (of.captured_in == nullptr) return;
  require(!of.captured_in->ended);
  spoil(*of.captured_in);
  throw refusal{result::captured_event};
}

bool has_passed(const event_state& of) {
  return of.mark == nullptr || of.mark->done();
}

}  // namespace

namespace served {

result cuEventCreate(call& in, event* made, event_flags flags) {
  require(made != nullptr);
  require((static_cast<std::uint32_t>(flags) & ~known_flags) == 0);
  const auto fresh = std::make_shared<event_state>();
  fresh->owner = in.current();
  fresh->flags = static_cast<std::uint32_t>(flags);
  fresh->handle = in.new_handle<event>();
  in.all.events[fresh->handle] = fresh;
  *made = fresh->handle;
  return result::success;
}

/// Waits that refer to it stay as they are.
result cuEventDestroy(call& in, event gone) {
  require(in.all.events.erase(gone) != 0, result::invalid_handle);
  return result::success;
}

result cuEventRecord(call& in, event mark, stream on) {
  return record(in, mark, on, false);
}

result cuEventRecordWithFlags(call& in, event mark, stream on, event_record_flags flags) {
  require(static_cast<std::uint32_t>(flags) <= 1);
  return record(in, mark, on, flags == event_record_flags::external);
}

result cuStreamWaitEvent(call& in, stream on, event mark, event_wait_flags flags) {
  require(static_cast<std::uint32_t>(flags) <= 1);
  const event_ptr what = in.event_of(mark);
  const stream_ptr here = in.at(on);
  const bool external = flags == event_wait_flags::external && here->capture != nullptr;
  if (!external && join_capture(here, what)) return result::success;
  const auto make = [what, owner = here->owner] { return make_wait(what, owner); };
  issue(in, here, node_type::wait_event, make);
  return result::success;
}

result cuEventQuery(call& in, event of) {
  const event_ptr what = in.event_of(of);
  refuse_captured_event(*what);
  const bool passed = ask(in, what->asked, what->mark);
  refuse_faulted(*what->owner);
  return passed ? result::success : result::not_ready;
}

result cuEventSynchronize(call& in, event of) {
  const event_ptr what = in.event_of(of);
  refuse_captured_event(*what);
  finish(in, what->mark);
  refuse_faulted(*what->owner);
  return result::success;
}

result cuEventElapsedTime(call& in, float* ms, event from, event to) {
  require(ms != nullptr);
  const event_ptr first = in.event_of(from);
  const event_ptr last = in.event_of(to);
  require(has_timing(*first) && has_timing(*last), result::invalid_handle);
  require(first->mark != nullptr && last->mark != nullptr, result::invalid_handle);
  require(has_passed(*first) && has_passed(*last), result::not_ready);
  *ms = std::chrono::duration<float, std::milli>(*last->passed_at - *first->passed_at).count();
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
