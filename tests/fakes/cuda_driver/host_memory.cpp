// SPDX-License-Identifier: Apache-2.0
// Page-locked host memory, made here or registered, and what is known about a pointer.
#include "tests/fakes/cuda_driver/call.hpp"

namespace fake_cuda {

namespace {

std::uint64_t address_of(const void* block) {
  return reinterpret_cast<std::uint64_t>(block);
}

block_ptr host_block(call& in, const void* base, block_kind kind, result otherwise) {
  const block_ptr found = in.all.memory.find(address_of(base));
  require(found != nullptr && found->base == address_of(base) && found->kind == kind, otherwise);
  return found;
}

memory_type type_of(const block& what) {
  switch (what.kind) {
    case block_kind::pinned:
    case block_kind::registered: return memory_type::on_host;
    case block_kind::device:
    case block_kind::mapped:
    case block_kind::managed: break;
  }
  return memory_type::on_device;
}

bool is_host(const block& what) {
  return type_of(what) == memory_type::on_host;
}

/// What a caller that asked for all it can get sees of a pointer the driver does not know.
void clear_attribute(void* value, pointer_attribute what) {
  switch (what) {
    case pointer_attribute::owner_context:
    case pointer_attribute::seen_by_device:
    case pointer_attribute::seen_by_host:
    case pointer_attribute::range_start:
    case pointer_attribute::range_size: *static_cast<std::uint64_t*>(value) = 0; return;
    case pointer_attribute::memory_type:
    case pointer_attribute::is_managed: *static_cast<std::uint32_t*>(value) = 0; return;
    case pointer_attribute::device_ordinal: *static_cast<int*>(value) = -2; return;
  }
}

result read_attribute(void* value, pointer_attribute what, const block& of, device_pointer where) {
  switch (what) {
    case pointer_attribute::owner_context:
      *static_cast<context*>(value) = of.owner;
      return result::success;
    case pointer_attribute::memory_type:
      *static_cast<std::uint32_t*>(value) = static_cast<std::uint32_t>(type_of(of));
      return result::success;
    case pointer_attribute::seen_by_device:
      *static_cast<device_pointer*>(value) = where;
      return result::success;
    case pointer_attribute::seen_by_host:
      if (!is_host(of) && of.kind != block_kind::managed) return result::invalid_value;
      *static_cast<std::uint64_t*>(value) = where;
      return result::success;
    case pointer_attribute::is_managed:
      // The driver writes a bool; callers that give more room have cleared it.
      *static_cast<bool*>(value) = of.kind == block_kind::managed;
      return result::success;
    case pointer_attribute::device_ordinal:
      *static_cast<int*>(value) = of.device;
      return result::success;
    case pointer_attribute::range_start:
      *static_cast<device_pointer*>(value) = of.base;
      return result::success;
    case pointer_attribute::range_size:
      *static_cast<std::size_t*>(value) = of.bytes;
      return result::success;
  }
  return result::invalid_value;
}

void add_host_block(call& in, block_kind kind, void* base, std::size_t bytes, storage data) {
  const context_ptr here = in.current();
  const auto made = std::make_shared<block>();
  made->kind = kind;
  made->base = address_of(base);
  made->bytes = bytes;
  made->device = here->device;
  made->owner = here->handle;
  made->data = std::move(data);
  in.all.memory.add(made);
}

}  // namespace

namespace served {

result cuMemHostAlloc(call& in, void** block, std::size_t bytes, host_alloc_flags /*flags*/) {
  require(block != nullptr && bytes > 0);
  static_cast<void>(in.current());
  const storage made = make_storage(bytes);
  add_host_block(in, block_kind::pinned, made.get(), bytes, made);
  *block = made.get();
  return result::success;
}

/// Does not wait: queued work that still uses the block is a fault of the program.
result cuMemFreeHost(call& in, void* block) {
  static_cast<void>(in.current());
  if (block == nullptr) return result::success;
  static_cast<void>(host_block(in, block, block_kind::pinned, result::invalid_value));
  in.all.memory.remove(address_of(block));
  return result::success;
}

result cuMemHostGetDevicePointer(call& in, device_pointer* seen, void* block, std::uint32_t flags) {
  require(seen != nullptr && flags == 0);
  const block_ptr found = in.all.memory.find(address_of(block));
  require(found != nullptr && is_host(*found));
  *seen = address_of(block);
  return result::success;
}

result cuMemHostRegister(call& in, void* block, std::size_t bytes, host_register_flags /*flags*/) {
  require(block != nullptr && bytes > 0);
  static_cast<void>(in.current());
  require(!in.all.memory.overlaps(address_of(block), bytes),
          result::host_memory_already_registered);
  // Owned by the program: nothing to free.
  storage theirs(static_cast<std::byte*>(block), [](std::byte*) {});
  add_host_block(in, block_kind::registered, block, bytes, std::move(theirs));
  return result::success;
}

/// Does not wait either.
result cuMemHostUnregister(call& in, void* block) {
  static_cast<void>(in.current());
  static_cast<void>(
      host_block(in, block, block_kind::registered, result::host_memory_not_registered));
  in.all.memory.remove(address_of(block));
  return result::success;
}

result cuPointerGetAttribute(call& in, void* value, pointer_attribute what, device_pointer of) {
  require(value != nullptr);
  const block_ptr found = in.all.memory.find(of);
  require(found != nullptr);
  return read_attribute(value, what, *found, of);
}

result cuPointerGetAttributes(call& in, std::uint32_t count, pointer_attribute* what, void** values,
                              device_pointer of) {
  require(what != nullptr && values != nullptr);
  const block_ptr found = in.all.memory.find(of);
  for (std::uint32_t i = 0; i < count; ++i) {
    require(values[i] != nullptr);
    clear_attribute(values[i], what[i]);
    if (found != nullptr) static_cast<void>(read_attribute(values[i], what[i], *found, of));
  }
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
