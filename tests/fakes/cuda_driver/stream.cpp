// SPDX-License-Identifier: Apache-2.0
// Streams, and how work gets into them.
#include "tests/fakes/cuda_driver/stream.hpp"

#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/capture.hpp"

namespace fake_cuda {

namespace {

constexpr int greatest_priority = -5;

// The handles that stand for default streams of the current context.
stream default_handle(std::uintptr_t number) {
  return reinterpret_cast<stream>(number);
}

stream_ptr new_stream(const call& in, const context_ptr& owner) {
  const auto made = std::make_shared<stream_state>();
  made->owner = owner;
  made->id = in.all.next_id++;
  std::erase_if(owner->streams, [](const auto& one) { return one.expired(); });
  owner->streams.emplace_back(made);
  return made;
}

stream_ptr legacy_stream(const call& in) {
  const context_ptr here = in.current();
  if (here->legacy == nullptr) {
    here->legacy = new_stream(in, here);
    here->legacy->legacy = true;
    here->legacy->handle = default_handle(1);
  }
  return here->legacy;
}

stream_ptr stream_of_thread(const call& in) {
  const context_ptr here = in.current();
  stream_ptr& mine = here->of_threads[in.thread.number];
  if (mine == nullptr) {
    mine = new_stream(in, here);
    mine->blocking = true;
    mine->handle = default_handle(2);
  }
  return mine;
}

/// The legacy stream runs alone among the blocking streams of its context.
void add_implicit_order(operation& what, const stream_state& on) {
  if (on.legacy) {
    for (const std::weak_ptr<stream_state>& one : on.owner->streams)
      if (const stream_ptr other = one.lock(); other != nullptr && other->blocking)
        what.after.push_back(other->tail);
  } else if (on.blocking && on.owner->legacy != nullptr) {
    what.after.push_back(on.owner->legacy->tail);
  }
}

void leave_behind(const stream_state& gone) {
  std::vector<op_ptr>& left = gone.owner->left_behind;
  std::erase_if(left, [](const op_ptr& one) { return one->done(); });
  if (gone.tail != nullptr && !gone.tail->done()) left.push_back(gone.tail);
}

void finish_stream(call& in, const stream_ptr& of) {
  operation all;
  all.after.push_back(of->tail);
  if (of->legacy) add_implicit_order(all, *of);
  for (const op_ptr& one : all.after)
    finish(in, one);
}

}  // namespace

stream_ptr call::at(stream handle) const {
  if (handle == nullptr || handle == default_handle(1)) return legacy_stream(*this);
  if (handle == default_handle(2)) return stream_of_thread(*this);
  const stream_ptr found = look_up(all.streams, handle);
  require(found != nullptr, result::invalid_handle);
  refuse_faulted(*found->owner);
  return found;
}

stream make_stream(call& in, const context_ptr& owner, stream_flags flags, int priority) {
  require(flags == stream_flags::default_stream || flags == stream_flags::non_blocking);
  const stream_ptr made = new_stream(in, owner);
  made->blocking = flags == stream_flags::default_stream;
  // Out of range priorities are taken for the nearest one.
  made->priority = std::min(0, std::max(priority, greatest_priority));
  made->handle = in.new_handle<stream>();
  in.all.streams[made->handle] = made;
  return made->handle;
}

void issue(call& in, const stream_ptr& on, node_type type, const op_factory& make) {
  if (on->capture != nullptr) {
    node_work work;
    work.type = type;
    work.make = make;
    record_node(in, on, std::move(work));
    return;
  }
  refuse_implicit_dependence(in, on);
  const op_ptr made = make();
  made->lane = on->id;
  made->after.push_back(on->tail);
  add_implicit_order(*made, *on);
  in.all.work.submit(made);
  on->tail = made;
  in.all.thread.wake();
}

namespace served {

result cuStreamCreate(call& in, stream* made, stream_flags flags) {
  require(made != nullptr);
  *made = make_stream(in, in.current(), flags, 0);
  return result::success;
}

result cuStreamCreateWithPriority(call& in, stream* made, stream_flags flags, int priority) {
  require(made != nullptr);
  *made = make_stream(in, in.current(), flags, priority);
  return result::success;
}

/// Work that is still queued goes on.
result cuStreamDestroy(call& in, stream gone) {
  const stream_ptr found = look_up(in.all.streams, gone);
  require(found != nullptr, result::invalid_handle);
  if (found->capture != nullptr) spoil(*found->capture);
  leave_behind(*found);
  in.all.streams.erase(gone);
  return result::success;
}

result cuStreamQuery(call& in, stream of) {
  const stream_ptr here = in.at(of);
  refuse_captured(in, here);
  const bool idle = ask(in, here->asked, here->tail);
  refuse_faulted(*here->owner);
  return idle ? result::success : result::not_ready;
}

result cuStreamSynchronize(call& in, stream of) {
  const stream_ptr here = in.at(of);
  refuse_captured(in, here);
  finish_stream(in, here);
  refuse_faulted(*here->owner);
  return result::success;
}

result cuStreamGetCtx(call& in, stream of, context* owner) {
  require(owner != nullptr);
  *owner = in.at(of)->owner->handle;
  return result::success;
}

result cuStreamGetId(call& in, stream of, std::uint64_t* id) {
  require(id != nullptr);
  *id = in.at(of)->id;
  return result::success;
}

result cuStreamGetFlags(call& in, stream of, std::uint32_t* flags) {
  require(flags != nullptr);
  const stream_ptr here = in.at(of);
  *flags = here->blocking || here->legacy ? 0 : 1;
  return result::success;
}

result cuStreamGetPriority(call& in, stream of, int* priority) {
  require(priority != nullptr);
  *priority = in.at(of)->priority;
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
