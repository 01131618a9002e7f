// SPDX-License-Identifier: Apache-2.0
// Copies. Each is a block of rows and planes; what the driver's many names mean is which kind of
// memory the two sides must be, and from which context they are seen.
#include <algorithm>
#include <cstring>

#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/device.hpp"
#include "tests/fakes/cuda_driver/graph.hpp"
#include "tests/fakes/cuda_driver/memory_view.hpp"

namespace fake_cuda {

namespace {

// Ordinary host memory up to this size is read while the call is made; more than that makes the
// call wait for the copy.
constexpr std::size_t staged_at_once = std::size_t{64} << 10U;

struct extent {
  std::size_t width = 0;
  std::size_t height = 1;
  std::size_t depth = 1;
  [[nodiscard]] std::size_t bytes() const noexcept { return width * height * depth; }
};

struct side {
  memory_view seen;
  std::uint64_t start = 0;
  std::size_t pitch = 0;
  std::size_t plane = 0;
  bool is_pageable = false;

  [[nodiscard]] std::uint64_t row(std::size_t y, std::size_t z) const noexcept {
    return start + z * plane + y * pitch;
  }
  /// From the first byte to behind the last one.
  [[nodiscard]] std::size_t span(const extent& of) const noexcept {
    return (of.depth - 1) * plane + (of.height - 1) * pitch + of.width;
  }
};

/// What a name of a copy says about one of its sides.
enum class must_be : std::uint8_t { anything, host, device };

struct copy_plan {
  side to;
  side from;
  extent what;
};

std::byte* touch(const side& of, std::uint64_t where, std::size_t& bytes, access_flags how) {
  if (of.is_pageable) return reinterpret_cast<std::byte*>(where);
  return of.seen.touch(where, bytes, how);
}

void copy_row(const copy_plan& plan, std::uint64_t to, std::uint64_t from) {
  std::size_t left = plan.what.width;
  while (left > 0) {
    std::size_t bytes = left;
    const std::byte* const source = touch(plan.from, from, bytes, access_flags::read);
    std::byte* const target = touch(plan.to, to, bytes, access_flags::read_write);
    std::memmove(target, source, bytes);
    to += bytes;
    from += bytes;
    left -= bytes;
  }
}

void run(const copy_plan& plan) {
  for (std::size_t z = 0; z < plan.what.depth; ++z)
    for (std::size_t y = 0; y < plan.what.height; ++y)
      copy_row(plan, plan.to.row(y, z), plan.from.row(y, z));
}

/// Finds out what the side is, and refuses what the call may not name.
void check(call& in, side& of, const extent& what, access_flags how, must_be kind) {
  require(of.start != 0);
  const std::size_t bytes = of.span(what);
  const bool is_known = in.all.memory.find(of.start) != nullptr;
  if (!is_known) {
    // Memory the driver does not know is the program's own, unless only the driver hands such
    // addresses out.
    require(kind != must_be::device && !in.all.memory.is_device_range(of.start));
    of.is_pageable = true;
    return;
  }
  const block_kind found = in.all.memory.find(of.start)->kind;
  require(kind != must_be::host || (found != block_kind::device && found != block_kind::mapped));
  require(of.seen.may_name(of.start, bytes, how));
}

std::shared_ptr<std::byte> take_snapshot(copy_plan& plan) {
  storage packed = make_storage(plan.what.bytes());
  copy_plan staging = plan;
  staging.to.start = reinterpret_cast<std::uint64_t>(packed.get());
  staging.to.is_pageable = true;
  staging.to.pitch = plan.what.width;
  staging.to.plane = plan.what.width * plan.what.height;
  run(staging);
  plan.from = staging.to;
  return packed;
}

bool is_host_side(const call& in, const side& of) {
  if (of.is_pageable) return true;
  const block_kind kind = in.all.memory.find(of.start)->kind;
  return kind == block_kind::pinned || kind == block_kind::registered;
}

/// Whether the call comes back only after the copy.
bool waits(const call& in, const copy_plan& plan) {
  if (plan.to.is_pageable || plan.from.is_pageable) return true;
  return is_host_side(in, plan.to) && is_host_side(in, plan.from);
}

/// `held` is what the plan refers to.
op_ptr make_run(const copy_plan& plan, const storage& held, const context_ptr& owner) {
  return make_operation("copy", owner, [plan, held] {
    run(plan);
    return turn::done;
  });
}

// An H200 was seen to carry out copies of ordinary memory in the call that launches the graph: it
// waits for those to such memory, and what is copied from there it reads whatever comes before.
op_factory make_node_runs(const copy_plan& plan, const context_ptr& owner) {
  return [plan, owner] {
    copy_plan mine = plan;
    storage held;
    if (mine.from.is_pageable && !mine.to.is_pageable) held = take_snapshot(mine);
    op_ptr made = make_run(mine, held, owner);
    made->holds_launch = mine.to.is_pageable;
    return made;
  };
}

result start(call& in, const stream_ptr& on, copy_plan plan, must_be to, must_be from) {
  if (plan.what.bytes() == 0) return result::success;
  check(in, plan.to, plan.what, access_flags::read_write, to);
  check(in, plan.from, plan.what, access_flags::read, from);
  if (on->capture != nullptr) {
    issue(in, on, node_type::copy, make_node_runs(plan, on->owner));
    refuse_faulted(*on->owner);
    return result::success;
  }
  bool must_wait = waits(in, plan);
  storage held;
  if (must_wait && plan.from.is_pageable && !is_host_side(in, plan.to) &&
      plan.what.bytes() <= staged_at_once) {
    held = take_snapshot(plan);
    must_wait = false;
  }
  issue(in, on, node_type::copy, [&] { return make_run(plan, held, on->owner); });
  if (must_wait) finish(in, on->tail);
  refuse_faulted(*on->owner);
  return result::success;
}

copy_plan flat(call& in, const context_ptr& to_seen, std::uint64_t to, const context_ptr& from_seen,
               std::uint64_t from, std::size_t bytes) {
  return {{memory_view(in.all, to_seen), to, bytes, bytes},
          {memory_view(in.all, from_seen), from, bytes, bytes},
          {bytes, 1, 1}};
}

result flat_copy(call& in, std::uint64_t to, must_be to_kind, std::uint64_t from, must_be from_kind,
                 std::size_t bytes, const stream_ptr& on) {
  return start(in, on, flat(in, on->owner, to, on->owner, from, bytes), to_kind, from_kind);
}

/// The blocking forms run in the legacy stream.
result copy_and_wait(call& in, std::uint64_t to, must_be to_kind, std::uint64_t from,
                     must_be from_kind, std::size_t bytes) {
  const stream_ptr on = in.at(nullptr);
  const result answer = flat_copy(in, to, to_kind, from, from_kind, bytes, on);
  finish(in, on->tail);
  refuse_faulted(*on->owner);
  return answer;
}

std::uint64_t word(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

/// One side of a described copy.
struct described {
  memory_type type;
  const void* host;
  device_pointer on_device;
  std::size_t x_bytes;
  std::size_t y;
  std::size_t z;
  std::size_t pitch;
  std::size_t height;
};

must_be kind_of(memory_type type) {
  switch (type) {
    case memory_type::on_host: return must_be::host;
    case memory_type::on_device: return must_be::device;
    case memory_type::unified: return must_be::anything;
    case memory_type::in_array:
    case memory_type::unset: break;
  }
  throw refusal{type == memory_type::in_array ? result::not_supported : result::invalid_value};
}

void check_shape(const call& in, const described& of, const extent& what) {
  if (what.bytes() == 0) return;
  const int limit = attribute_of(in.all.config, device_attribute::max_pitch);
  require(of.pitch <= static_cast<std::size_t>(limit));
  require((what.height == 1 && of.pitch == 0) || of.pitch >= of.x_bytes + what.width);
  require(what.depth == 1 || of.height >= of.y + what.height);
}

side side_of(call& in, const context_ptr& seen, const described& of, const extent& what) {
  check_shape(in, of, what);
  const std::uint64_t base = of.type == memory_type::on_host ? word(of.host) : of.on_device;
  side made{memory_view(in.all, seen), base, of.pitch, of.pitch * of.height};
  made.start += of.z * made.plane + of.y * made.pitch + of.x_bytes;
  return made;
}

template <class Description>
described from_side(const Description& of, std::size_t z, std::size_t height) {
  return {of.from_type,  of.from_host, of.from_device, of.from_x_bytes, of.from_y, z,
          of.from_pitch, height};
}

template <class Description>
described to_side(const Description& of, std::size_t z, std::size_t height) {
  return {of.to_type, of.to_host, of.to_device, of.to_x_bytes, of.to_y, z, of.to_pitch, height};
}

result described_copy(call& in, const context_ptr& to_seen, const described& to,
                      const context_ptr& from_seen, const described& from, const extent& what,
                      const stream_ptr& on) {
  const must_be to_kind = kind_of(to.type);
  const must_be from_kind = kind_of(from.type);
  return start(in, on, {side_of(in, to_seen, to, what), side_of(in, from_seen, from, what), what},
               to_kind, from_kind);
}

/// The context a side of a copy between contexts is seen from: its memory must be of that device.
context_ptr peer(call& in, context handle, device_pointer where) {
  const context_ptr found = in.context_of(handle);
  const block_ptr named = in.all.memory.find(where);
  if (named != nullptr && named->kind == block_kind::device)
    require(named->device == found->device);
  return found;
}

/// A side of unified memory is seen from its own device, as in a copy between devices.
context_ptr seen_by(call& in, memory_type type, device_pointer where, const context_ptr& owner) {
  const block_ptr named = in.all.memory.find(where);
  if (type != memory_type::unified || named == nullptr || named->kind != block_kind::device)
    return owner;
  const auto primary = in.all.primaries.find(named->device);
  return primary == in.all.primaries.end() || primary->second == nullptr ? owner : primary->second;
}

}  // namespace

op_factory make_copy(call& in, const copy_3d& what, const context_ptr& owner) {
  const extent size{what.width_bytes, what.height, what.depth};
  require(size.bytes() > 0);
  const described to = to_side(what, what.to_z, what.to_height);
  const described from = from_side(what, what.from_z, what.from_height);
  copy_plan plan{side_of(in, seen_by(in, what.to_type, what.to_device, owner), to, size),
                 side_of(in, seen_by(in, what.from_type, what.from_device, owner), from, size),
                 size};
  check(in, plan.to, size, access_flags::read_write, kind_of(to.type));
  check(in, plan.from, size, access_flags::read, kind_of(from.type));
  return make_node_runs(plan, owner);
}

namespace served {

result cuMemcpyAsync(call& in, device_pointer to, device_pointer from, std::size_t bytes,
                     stream on) {
  return flat_copy(in, to, must_be::anything, from, must_be::anything, bytes, in.at(on));
}

result cuMemcpyHtoDAsync(call& in, device_pointer to, const void* from, std::size_t bytes,
                         stream on) {
  return flat_copy(in, to, must_be::device, word(from), must_be::host, bytes, in.at(on));
}

result cuMemcpyDtoHAsync(call& in, void* to, device_pointer from, std::size_t bytes, stream on) {
  return flat_copy(in, word(to), must_be::host, from, must_be::device, bytes, in.at(on));
}

result cuMemcpyDtoDAsync(call& in, device_pointer to, device_pointer from, std::size_t bytes,
                         stream on) {
  return flat_copy(in, to, must_be::device, from, must_be::device, bytes, in.at(on));
}

result cuMemcpyPeerAsync(call& in, device_pointer to, context to_context, device_pointer from,
                         context from_context, std::size_t bytes, stream on) {
  const context_ptr target = peer(in, to_context, to);
  const context_ptr source = peer(in, from_context, from);
  return start(in, in.at(on), flat(in, target, to, source, from, bytes), must_be::device,
               must_be::device);
}

result cuMemcpy2DAsync(call& in, const copy_2d* what, stream on) {
  require(what != nullptr);
  const stream_ptr here = in.at(on);
  return described_copy(in, here->owner, to_side(*what, 0, what->height), here->owner,
                        from_side(*what, 0, what->height), {what->width_bytes, what->height, 1},
                        here);
}

result cuMemcpy3DAsync(call& in, const copy_3d* what, stream on) {
  require(what != nullptr);
  const stream_ptr here = in.at(on);
  return described_copy(in, here->owner, to_side(*what, what->to_z, what->to_height), here->owner,
                        from_side(*what, what->from_z, what->from_height),
                        {what->width_bytes, what->height, what->depth}, here);
}

result cuMemcpy3DPeerAsync(call& in, const copy_3d_peer* what, stream on) {
  require(what != nullptr);
  const stream_ptr here = in.at(on);
  const context_ptr target = what->to_type == memory_type::on_host
                                 ? here->owner
                                 : peer(in, what->to_context, what->to_device);
  const context_ptr source = what->from_type == memory_type::on_host
                                 ? here->owner
                                 : peer(in, what->from_context, what->from_device);
  return described_copy(in, target, to_side(*what, what->to_z, what->to_height), source,
                        from_side(*what, what->from_z, what->from_height),
                        {what->width_bytes, what->height, what->depth}, here);
}

result cuMemcpy(call& in, device_pointer to, device_pointer from, std::size_t bytes) {
  return copy_and_wait(in, to, must_be::anything, from, must_be::anything, bytes);
}

result cuMemcpyHtoD(call& in, device_pointer to, const void* from, std::size_t bytes) {
  return copy_and_wait(in, to, must_be::device, word(from), must_be::host, bytes);
}

result cuMemcpyDtoH(call& in, void* to, device_pointer from, std::size_t bytes) {
  return copy_and_wait(in, word(to), must_be::host, from, must_be::device, bytes);
}

result cuMemcpyDtoD(call& in, device_pointer to, device_pointer from, std::size_t bytes) {
  return copy_and_wait(in, to, must_be::device, from, must_be::device, bytes);
}

}  // namespace served
}  // namespace fake_cuda
