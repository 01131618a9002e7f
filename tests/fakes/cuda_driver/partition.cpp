// SPDX-License-Identifier: Apache-2.0
// Parts of a device: resources, how they are split, and contexts that have only a part.
#include <algorithm>

#include "tests/fakes/cuda_driver/call.hpp"
#include "tests/fakes/cuda_driver/context.hpp"
#include "tests/fakes/cuda_driver/device.hpp"
#include "tests/fakes/cuda_driver/stream.hpp"

namespace fake_cuda {

namespace {

std::uint32_t round_up(std::uint32_t count) {
  return std::max(smallest_part, (count + smallest_part - 1) / smallest_part * smallest_part);
}

device_resource resource_of(std::uint32_t count) {
  device_resource made{};
  made.type = count == 0 ? resource_type::invalid : resource_type::multiprocessors;
  made.multiprocessors = {count, smallest_part, smallest_part};
  return made;
}

green_ptr green_of(call& in, green_context handle) {
  const green_ptr found = look_up(in.all.greens, handle);
  require(found != nullptr, result::invalid_context);
  return found;
}

}  // namespace

namespace served {

result cuDeviceGetDevResource(call& in, device of, device_resource* resource, resource_type type) {
  require(resource != nullptr);
  require(in.all.has_device(of), result::invalid_device);
  require(type == resource_type::multiprocessors, result::invalid_resource_type);
  const int count = attribute_of(in.all.config, device_attribute::multiprocessor_count);
  *resource = resource_of(static_cast<std::uint32_t>(count));
  return result::success;
}

result cuDevSmResourceSplitByCount(call& /*in*/, device_resource* parts, std::uint32_t* count,
                                   const device_resource* whole, device_resource* rest,
                                   std::uint32_t /*flags*/, std::uint32_t smallest) {
  require(count != nullptr && whole != nullptr);
  require(whole->type == resource_type::multiprocessors, result::invalid_resource_type);
  const std::uint32_t each = round_up(smallest);
  const std::uint32_t total = whole->multiprocessors.count;
  const std::uint32_t possible = total / each;
  // Without a list, only the possible number is asked for.
  if (parts == nullptr) {
    *count = possible;
    return result::success;
  }
  *count = std::min(*count, possible);
  require(*count > 0, result::invalid_resource_configuration);
  std::fill_n(parts, *count, resource_of(each));
  if (rest != nullptr) *rest = resource_of(total - *count * each);
  return result::success;
}

result cuDevResourceGenerateDesc(call& in, resource_descriptor* made, device_resource* parts,
                                 std::uint32_t count) {
  require(made != nullptr && parts != nullptr && count > 0);
  const auto fresh = std::make_shared<descriptor_state>();
  for (std::uint32_t i = 0; i < count; ++i) {
    require(parts[i].type == resource_type::multiprocessors, result::invalid_resource_type);
    fresh->multiprocessors += parts[i].multiprocessors.count;
  }
  *made = in.new_handle<resource_descriptor>();
  in.all.descriptors[*made] = fresh;
  return result::success;
}

result cuGreenCtxCreate(call& in, green_context* made, resource_descriptor of, device on,
                        green_context_flags flags) {
  require(made != nullptr && flags == green_context_flags::default_stream);
  require(in.all.has_device(on), result::invalid_device);
  const auto resources = look_up(in.all.descriptors, of);
  require(resources != nullptr);
  const auto fresh = std::make_shared<green_state>();
  fresh->handle = in.new_handle<green_context>();
  fresh->context_of = make_context(in, on, context_state::origin::green);
  fresh->multiprocessors = resources->multiprocessors;
  in.all.greens[fresh->handle] = fresh;
  *made = fresh->handle;
  return result::success;
}

result cuGreenCtxDestroy(call& in, green_context gone) {
  const green_ptr found = green_of(in, gone);
  in.all.greens.erase(gone);
  destroy_context(in, found->context_of);
  return result::success;
}

result cuCtxFromGreenCtx(call& in, context* made, green_context from) {
  require(made != nullptr);
  *made = green_of(in, from)->context_of->handle;
  return result::success;
}

result cuGreenCtxStreamCreate(call& in, stream* made, green_context of, stream_flags flags,
                              int priority) {
  require(made != nullptr && flags == stream_flags::non_blocking);
  *made = make_stream(in, green_of(in, of)->context_of, flags, priority);
  return result::success;
}

}  // namespace served
}  // namespace fake_cuda
