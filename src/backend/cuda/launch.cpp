// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/launch.hpp"

#include <cstring>

#include "backend/cuda/state.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {

launch_form::launch_form(const launch_request& request) noexcept
    : bytes_(request.arguments.size()),
      extra_{reinterpret_cast<void*>(abi::launch_key::buffer_pointer),
             const_cast<std::byte*>(request.arguments.data()),
             reinterpret_cast<void*>(abi::launch_key::buffer_bytes), &bytes_, abi::launch_end} {
  constexpr int yes = 1;
  if (request.cluster != std::array<std::uint32_t, 3>{1, 1, 1}) {
    add(abi::launch_attribute_id::cluster_dimension, request.cluster);
  }
  if (request.cooperative) add(abi::launch_attribute_id::cooperative, yes);
  if (request.programmatic) {
    add(abi::launch_attribute_id::programmatic_stream_serialization, yes);
  }
}

template <class Value>
void launch_form::add(abi::launch_attribute_id id, const Value& value) noexcept {
  static_assert(sizeof value <= sizeof(abi::launch_attribute_value));
  abi::launch_attribute& next = attributes_[attribute_count_++];
  next = {};
  next.id = id;
  std::memcpy(next.value.bytes, &value, sizeof value);
}

status check_launch_form(const driver& api, const std::string& who, const launch_request& request) {
  if (is_plain(request) || api->cuLaunchKernelEx != nullptr) return {};
  return {errc::unsupported,
          base::cat(who,
                    " cannot launch with clusters, cooperatively or before the predecessor ends: "
                    "the CUDA driver has no cuLaunchKernelEx; install a newer driver")};
}

abi::result launch_on(const driver& api, abi::stream on, abi::function entry,
                      const launch_request& request) noexcept {
  launch_form form(request);
  const auto& [grid_x, grid_y, grid_z] = request.grid;
  const auto& [block_x, block_y, block_z] = request.block;
  if (form.attributes().empty()) {
    return api->cuLaunchKernel(entry, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                               request.shared_bytes, on, nullptr, form.extra());
  }
  const abi::launch_config how{grid_x,
                               grid_y,
                               grid_z,
                               block_x,
                               block_y,
                               block_z,
                               request.shared_bytes,
                               on,
                               form.attributes().data(),
                               static_cast<std::uint32_t>(form.attributes().size())};
  return api->cuLaunchKernelEx(&how, entry, nullptr, form.extra());
}

namespace {

int limit_of(const driver& api, abi::function entry, abi::function_attribute what) noexcept {
  int value = 0;
  const abi::result answer = api->cuFuncGetAttribute(&value, what, entry);
  return answer == abi::result::success ? value : 0;
}

std::string passed_threads(const device_state& on, abi::function entry,
                           const std::array<std::uint32_t, 3>& block) {
  const std::uint64_t threads = std::uint64_t{block[0]} * block[1] * block[2];
  const int most = limit_of(on.api(), entry, abi::function_attribute::max_threads_per_block);
  if (most <= 0 || threads <= static_cast<std::uint64_t>(most)) return {};
  return base::cat("; its block has ", threads, " threads, and on this device the kernel takes at ",
                   "most ", most);
}

std::string passed_shared_bytes(const device_state& on, abi::function entry, std::uint64_t bytes) {
  const int most = limit_of(on.api(), entry, abi::function_attribute::max_dynamic_shared_bytes);
  if (most <= 0 || bytes <= static_cast<std::uint64_t>(most)) return {};
  return base::cat("; it asks for ", bytes, " bytes of dynamic shared memory, and the kernel may ",
                   "have at most ", most, " unless its attribute for that is raised");
}

}  // namespace

std::string passed_limit(const device_state& on, abi::function entry, const launch_request& request,
                         abi::result answer) {
  if (answer != abi::result::invalid_value && answer != abi::result::launch_out_of_resources) {
    return {};
  }
  std::string found = passed_threads(on, entry, request.block);
  return found.empty() ? passed_shared_bytes(on, entry, request.shared_bytes) : found;
}

}  // namespace millstream::backend::cuda
