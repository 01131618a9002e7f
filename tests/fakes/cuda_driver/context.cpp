// SPDX-License-Identifier: Apache-2.0
// Contexts: the primary one of each device, those a program makes, and which is current.
#include "tests/fakes/cuda_driver/context.hpp"

#include <algorithm>

#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/memory.hpp"

namespace fake_cuda {

context_ptr make_context(call& in, int device, context_state::origin kind) {
  const auto made = std::make_shared<context_state>();
  made->handle = in.new_handle<context>();
  made->kind = kind;
  made->device = device;
  made->id = in.all.next_id++;
  in.all.contexts[made->handle] = made;
  return made;
}

namespace {

template <class Table, class Belongs>
std::size_t erase_owned(Table& from, Belongs belongs) {
  return std::erase_if(from, [&belongs](const auto& one) { return belongs(*one.second); });
}

/// Mapped ranges and their memory belong to no context.
std::size_t forget_memory(call& in, const context_state& gone) {
  std::vector<block_ptr> theirs;
  for (const auto& [base, one] : in.all.memory.blocks())
    if (one->owner == gone.handle) theirs.push_back(one);
  for (const block_ptr& one : theirs)
    end_block(in.all, one);
  return theirs.size();
}

}  // namespace

void destroy_context(call& in, const context_ptr& gone) {
  if (gone->faults->sticky == result::success) finish_context(in, gone);
  // They own their context as well.
  gone->legacy = nullptr;
  gone->of_threads.clear();
  const auto owned = [&gone](const auto& one) { return one.owner == gone; };
  in.all.abandoned += erase_owned(in.all.streams, owned) + erase_owned(in.all.events, owned) +
                      erase_owned(in.all.modules, owned) + forget_memory(in, *gone);
  erase_owned(in.all.functions, owned);
  in.all.contexts.erase(gone->handle);
}

namespace served {

result cuDevicePrimaryCtxRetain(call& in, context* primary, device of) {
  require(primary != nullptr);
  require(in.all.has_device(of), result::invalid_device);
  context_ptr& here = in.all.primaries[of];
  if (here == nullptr) here = make_context(in, of, context_state::origin::primary);
  ++here->retained;
  *primary = here->handle;
  return result::success;
}

result cuDevicePrimaryCtxRelease(call& in, device of) {
  require(in.all.has_device(of), result::invalid_device);
  const context_ptr here = in.all.primaries[of];
  require(here != nullptr, result::invalid_context);
  if (--here->retained != 0) return result::success;
  in.all.primaries.erase(of);
  destroy_context(in, here);
  return result::success;
}

result cuDevicePrimaryCtxReset(call& in, device of) {
  require(in.all.has_device(of), result::invalid_device);
  const context_ptr here = in.all.primaries[of];
  in.all.primaries.erase(of);
  if (here != nullptr) destroy_context(in, here);
  return result::success;
}

result cuDevicePrimaryCtxGetState(call& in, device of, std::uint32_t* flags, int* active) {
  require(flags != nullptr && active != nullptr);
  require(in.all.has_device(of), result::invalid_device);
  *flags = 0;
  *active = in.all.primaries.count(of) != 0 && in.all.primaries[of] != nullptr ? 1 : 0;
  return result::success;
}

result cuCtxCreate(call& in, context* made, std::uint32_t /*flags*/, device on) {
  require(made != nullptr);
  require(in.all.has_device(on), result::invalid_device);
  *made = make_context(in, on, context_state::origin::made)->handle;
  in.thread.stack.push_back(*made);
  return result::success;
}

result cuCtxDestroy(call& in, context gone) {
  const context_ptr found = in.context_of(gone);
  require(found->kind == context_state::origin::made, result::invalid_context);
  destroy_context(in, found);
  if (!in.thread.stack.empty() && in.thread.stack.back() == gone) in.thread.stack.pop_back();
  return result::success;
}

result cuCtxPushCurrent(call& in, context next) {
  static_cast<void>(in.context_of(next));
  in.thread.stack.push_back(next);
  return result::success;
}

result cuCtxPopCurrent(call& in, context* popped) {
  require(!in.thread.stack.empty(), result::invalid_context);
  if (popped != nullptr) *popped = in.thread.stack.back();
  in.thread.stack.pop_back();
  return result::success;
}

/// Replaces the top of the stack; null takes it away.
result cuCtxSetCurrent(call& in, context next) {
  if (next != nullptr) static_cast<void>(in.context_of(next));
  if (!in.thread.stack.empty()) in.thread.stack.pop_back();
  if (next != nullptr) in.thread.stack.push_back(next);
  return result::success;
}

result cuCtxGetCurrent(call& in, context* now) {
  require(now != nullptr);
  *now = in.thread.stack.empty() ? nullptr : in.thread.stack.back();
  return result::success;
}

result cuCtxGetDevice(call& in, device* ordinal) {
  require(ordinal != nullptr);
  require(!in.thread.stack.empty(), result::invalid_context);
  *ordinal = in.context_of(in.thread.stack.back())->device;
  return result::success;
}

result cuCtxGetId(call& in, context of, std::uint64_t* id) {
  require(id != nullptr);
  *id = of == nullptr ? in.current()->id : in.context_of(of)->id;
  return result::success;
}

result cuCtxGetStreamPriorityRange(call& in, int* least, int* greatest) {
  static_cast<void>(in.current());
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return result::success;
}

result cuCtxEnablePeerAccess(call& in, context to, std::uint32_t flags) {
  require(flags == 0);
  const context_ptr here = in.current();
  const context_ptr there = in.context_of(to);
  require(here != there, result::invalid_context);
  require(here->device != there->device && in.all.config.peers, result::peer_access_unsupported);
  require(here->peers.insert(there->device).second, result::peer_access_already_enabled);
  return result::success;
}

result cuCtxDisablePeerAccess(call& in, context to) {
  const int there = in.context_of(to)->device;
  require(in.current()->peers.erase(there) != 0, result::peer_access_not_enabled);
  return result::success;
}

result cuCtxSynchronize(call& in) {
  const context_ptr here = in.current();
  refuse_captures(*here);
  finish_context(in, here);
  refuse_faulted(*here);
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
