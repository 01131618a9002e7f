// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/range.hpp"

#include <algorithm>
#include <utility>

#include "backend/guarded.hpp"

namespace millstream::backend::cuda {
namespace {

const std::string& who() {
  static const std::string name = "a range of machine 'cuda'";
  return name;
}

abi::allocation_properties memory_on(abi::device ordinal) noexcept {
  abi::allocation_properties properties{};
  properties.type = abi::allocation_type::pinned;
  properties.location = {abi::location_type::at_device, ordinal};
  return properties;
}

result<std::size_t> common_granularity(machine_state& machine) {
  std::size_t common = 1;
  for (const std::unique_ptr<device_state>& each : machine.devices) {
    std::size_t own = 0;
    const abi::allocation_properties properties = memory_on(each->ordinal());
    const abi::result answer =
        (*machine.api)
            ->cuMemGetAllocationGranularity(&own, &properties, abi::granularity::recommended);
    if (status failed = each->check("tell the granularity of its memory", answer); !failed) {
      return failed;
    }
    common = std::max(common, own);  // powers of two
  }
  return common;
}

}  // namespace

result<std::unique_ptr<backend::virtual_range>> virtual_range::reserve(
    std::shared_ptr<machine_state> machine, std::size_t bytes) {
  const driver& api = *machine->api;
  const context_guard in(api, machine->first->context());
  const relaxed_capture allowed(api);
  auto granularity = common_granularity(*machine);
  if (!granularity) return granularity.take_status();
  const std::size_t step = granularity.value();
  const std::size_t rounded = (bytes + step - 1) / step * step;
  if (bytes == 0 || rounded < bytes) {
    return status(errc::invalid_value, base::cat(who(), " cannot have ", bytes,
                                                 " bytes; ask for a size that memory can have"));
  }
  abi::device_pointer first = 0;
  const abi::result answer = api->cuMemAddressReserve(&first, rounded, step, 0, 0);
  if (status failed = machine->first->check("reserve addresses", answer); !failed) return failed;
  return std::unique_ptr<backend::virtual_range>(
      std::make_unique<virtual_range>(std::move(machine), first, rounded, step));
}

virtual_range::virtual_range(std::shared_ptr<machine_state> machine, abi::device_pointer first,
                             std::size_t bytes, std::size_t granularity)
    : machine_(std::move(machine)),
      alive_(machine_->live),
      first_(first),
      bytes_(bytes),
      granularity_(granularity) {}

virtual_range::~virtual_range() {
  if (base::forked_child()) return;
  const driver& api = *machine_->api;
  const context_guard in(api, machine_->first->context());
  const relaxed_capture allowed(api);
  for (const part& each : parts_)
    api->cuMemUnmap(first_ + each.offset, each.bytes);
  api->cuMemAddressFree(first_, bytes_);
}

void* virtual_range::address() const noexcept {
  return reinterpret_cast<void*>(first_);
}

status virtual_range::check_part(std::size_t offset, std::size_t bytes) const {
  if (bytes == 0 || offset % granularity_ != 0 || bytes % granularity_ != 0 || offset > bytes_ ||
      bytes > bytes_ - offset) {
    return {errc::invalid_value,
            base::cat(who(), " of ", base::bytes_text(bytes_), " has no part of ",
                      base::bytes_text(bytes), " at ", offset, "; use multiples of ",
                      base::bytes_text(granularity_), " within it")};
  }
  const auto meets = [&](const part& each) {
    return offset < each.offset + each.bytes && each.offset < offset + bytes;
  };
  if (std::any_of(parts_.begin(), parts_.end(), meets)) {
    return {errc::invalid_value,
            base::cat(who(), " has memory at ", offset, " already; back each part once")};
  }
  return {};
}

status virtual_range::back(std::size_t offset, std::size_t bytes, int device) {
  if (base::forked_child()) return call_gate::refuse_child(who());
  return guarded(who(), [&]() -> status {
    if (status wrong = check_part(offset, bytes); !wrong) return wrong;
    auto home = device_of(*machine_, device, who());
    if (!home) return home.take_status();
    parts_.reserve(parts_.size() + 1);
    const part added{offset, bytes, device};
    const context_guard in(*machine_->api, machine_->first->context());
    const relaxed_capture allowed(*machine_->api);
    const abi::result answer = map(added, home.value()->ordinal());
    if (status failed = home.value()->check("back a range with memory", answer); !failed) {
      return failed;
    }
    parts_.push_back(added);
    status granted = give_access(added, device);
    for (const int each : allowed_) {
      if (granted) granted = give_access(added, each);
    }
    return granted;
  });
}

// The mapping keeps the memory; our handle goes at once.
abi::result virtual_range::map(const part& what, abi::device ordinal) noexcept {
  const driver& api = *machine_->api;
  const abi::allocation_properties properties = memory_on(ordinal);
  abi::allocation_handle memory = 0;
  abi::result answer = api->cuMemCreate(&memory, what.bytes, &properties, 0);
  if (answer != abi::result::success) return answer;
  answer = api->cuMemMap(first_ + what.offset, what.bytes, 0, memory, 0);
  api->cuMemRelease(memory);
  return answer;
}

status virtual_range::give_access(const part& to, int device) {
  auto home = device_of(*machine_, device, who());
  if (!home) return home.take_status();
  const abi::memory_access access{{abi::location_type::at_device, home.value()->ordinal()},
                                  abi::access_flags::read_write};
  const abi::result answer =
      (*machine_->api)->cuMemSetAccess(first_ + to.offset, to.bytes, &access, 1);
  return home.value()->check("reach a range", answer);
}

status virtual_range::allow(int device) {
  if (base::forked_child()) return call_gate::refuse_child(who());
  return guarded(who(), [&]() -> status {
    const context_guard in(*machine_->api, machine_->first->context());
    const relaxed_capture allowed(*machine_->api);
    for (const part& each : parts_) {
      if (each.device == device) continue;
      if (status failed = give_access(each, device); !failed) return failed;
    }
    if (std::find(allowed_.begin(), allowed_.end(), device) == allowed_.end()) {
      allowed_.push_back(device);
    }
    return {};
  });
}

}  // namespace millstream::backend::cuda
