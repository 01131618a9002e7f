// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/cuda_driver/launch.hpp"

#include <cstring>

#include "tests/fakes/cuda_driver/device.hpp"
#include "tests/fakes/cuda_driver/kernels.hpp"

namespace fake_cuda {

namespace {

constexpr unsigned max_threads = 1024;
constexpr unsigned max_grid_yz = 65535;
constexpr int shared_without_asking = 48 << 10;
constexpr std::uint32_t most_cluster_blocks = 8;
constexpr std::uint64_t threads_per_multiprocessor = 2048;

std::uint64_t number(const void* handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

using packed_block = std::vector<std::byte>;

packed_block pack(const builtin_kernel& what, void** parameters) {
  packed_block packed(what.block_bytes());
  for (std::size_t i = 0; i < what.parameters.size(); ++i) {
    require(parameters[i] != nullptr);
    std::memcpy(packed.data() + what.parameters[i].offset, parameters[i], what.parameters[i].bytes);
  }
  return packed;
}

packed_block read_extra(const builtin_kernel& what, void** extra) {
  const void* buffer = nullptr;
  std::size_t bytes = 0;
  for (; *extra != launch_end; extra += 2) {
    const auto key = static_cast<launch_key>(number(extra[0]));
    if (key == launch_key::buffer_pointer) buffer = extra[1];
    if (key == launch_key::buffer_bytes) bytes = *static_cast<const std::size_t*>(extra[1]);
  }
  require(bytes == 0 || buffer != nullptr);
  require(bytes >= what.block_bytes());
  const auto* const first = static_cast<const std::byte*>(buffer);
  return {first, first + bytes};
}

packed_block take_arguments(const builtin_kernel& what, void** parameters, void** extra) {
  require(parameters == nullptr || extra == nullptr);
  if (extra != nullptr) return read_extra(what, extra);
  require(what.parameters.empty() || parameters != nullptr);
  return pack(what, parameters);
}

void check_shape(const launch_config& how, const function_state& what) {
  require(how.grid_x > 0 && how.grid_y > 0 && how.grid_z > 0);
  require(how.grid_y <= max_grid_yz && how.grid_z <= max_grid_yz);
  const std::uint64_t threads = std::uint64_t{how.block_x} * how.block_y * how.block_z;
  require(threads > 0 && threads <= max_threads);
  const int allowed = attribute_of(what, function_attribute::max_dynamic_shared_bytes);
  require(how.shared_bytes <= static_cast<std::uint32_t>(allowed));
}

/// A function of a module can be launched in its own context, and in partitions of its device.
void check_context(const function_state& what, const context_state& in) {
  if (what.owner == nullptr) return;
  const bool is_part = in.kind == context_state::origin::green && in.device == what.owner->device;
  require(what.owner.get() == &in || is_part, result::invalid_handle);
}

std::uint64_t threads_of(const launch_config& how) {
  return std::uint64_t{how.block_x} * how.block_y * how.block_z;
}

void check_cluster(const launch_config& how, const launch_attribute_value& value) {
  std::uint32_t extent[3];
  std::memcpy(extent, value.bytes, sizeof extent);
  const auto [x, y, z] = extent;
  require(x > 0 && y > 0 && z > 0 && std::uint64_t{x} * y * z <= most_cluster_blocks,
          result::invalid_cluster_size);
  require(how.grid_x % x == 0 && how.grid_y % y == 0 && how.grid_z % z == 0,
          result::invalid_cluster_size);
}

/// All blocks must find room at the same time.
void check_cooperative(call& in, const launch_config& how) {
  const std::uint64_t blocks = std::uint64_t{how.grid_x} * how.grid_y * how.grid_z;
  const int count = attribute_of(in.all.config, device_attribute::multiprocessor_count);
  const std::uint64_t room =
      static_cast<std::uint64_t>(count) * (threads_per_multiprocessor / threads_of(how));
  require(blocks <= room, result::cooperative_launch_too_large);
}

op_ptr make_launch(state& all, const function_state& what, const context_ptr& owner,
                   const packed_block& packed) {
  const memory_view seen(all, owner);
  const auto run = [kernel = what.what, image = what.image, seen, packed,
                    turns = std::uint64_t{0}]() mutable {
    if (image->unloaded)
      throw device_fault{result::launch_failed, "its image was unloaded before it ran"};
    return kernel->run({seen, packed.data(), turns++});
  };
  return make_operation(what.what->name.c_str(), owner, run);
}

}  // namespace

function_ptr function_of(call& in, const void* handle) {
  const function_ptr found = look_up(in.all.functions, number(handle));
  require(found != nullptr, result::invalid_handle);
  return found;
}

int attribute_of(const function_state& of, function_attribute what) {
  const auto given = of.attributes.find(static_cast<std::uint32_t>(what));
  if (given != of.attributes.end()) return given->second;
  switch (what) {
    case function_attribute::max_threads_per_block: return static_cast<int>(max_threads);
    case function_attribute::shared_bytes: return 0;
    case function_attribute::max_dynamic_shared_bytes: return shared_without_asking;
  }
  return 0;
}

op_factory check_launch(call& in, const launch_config& how, const function_ptr& what,
                        const context_ptr& owner, void** parameters, void** extra) {
  check_context(*what, *owner);
  check_shape(how, *what);
  const packed_block packed = take_arguments(*what->what, parameters, extra);
  in.all.launch_attributes = 0;
  require(how.attribute_count == 0 || how.attributes != nullptr);
  for (std::uint32_t i = 0; i < how.attribute_count; ++i)
    check_attribute(in, how, how.attributes[i]);
  return [all = &in.all, what, owner, packed] { return make_launch(*all, *what, owner, packed); };
}

void check_attribute(call& in, const launch_config& how, const launch_attribute& one) {
  int on = 0;
  std::memcpy(&on, one.value.bytes, sizeof on);
  switch (one.id) {
    case launch_attribute_id::cluster_dimension: check_cluster(how, one.value); break;
    case launch_attribute_id::cooperative:
      if (on != 0) check_cooperative(in, how);
      break;
    case launch_attribute_id::programmatic_stream_serialization: break;
    default: throw refusal{result::invalid_value};
  }
  in.all.launch_attributes |= std::uint64_t{1} << static_cast<std::uint32_t>(one.id);
}

namespace {

result launch(call& in, const launch_config& how, function what, void** parameters, void** extra) {
  const stream_ptr here = in.at(how.on);
  const op_factory make =
      check_launch(in, how, function_of(in, what), here->owner, parameters, extra);
  issue(in, here, node_type::launch, make);
  return result::success;
}

}  // namespace

namespace served {

result cuLaunchKernel(call& in, function what, std::uint32_t grid_x, std::uint32_t grid_y,
                      std::uint32_t grid_z, std::uint32_t block_x, std::uint32_t block_y,
                      std::uint32_t block_z, std::uint32_t shared_bytes, stream on,
                      void** parameters, void** extra) {
  const launch_config how{grid_x,  grid_y,       grid_z, block_x, block_y,
                          block_z, shared_bytes, on,     nullptr, 0};
  return launch(in, how, what, parameters, extra);
}

result cuLaunchKernelEx(call& in, const launch_config* how, function what, void** parameters,
                        void** extra) {
  require(how != nullptr);
  return launch(in, *how, what, parameters, extra);
}

}  // namespace served
}  // namespace fake_cuda
