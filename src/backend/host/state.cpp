// SPDX-License-Identifier: Apache-2.0
#include "backend/host/state.hpp"

#include <algorithm>
#include <utility>

#include "backend/guarded.hpp"
#include "backend/request.hpp"
#include "backend/worker.hpp"

namespace millstream::backend::host {
namespace {

std::string describe(memory_home home) {
  if (home == memory_home::host) return "host memory";
  if (home == memory_home::managed) return "managed memory";
  return base::cat("memory of device ", base::quoted(device_name(static_cast<int>(home))));
}

/// User memory, the machine's host memory and managed memory are one: everything outside of the
/// devices.
bool is_at_home(const machine_state& machine, const byte_span& span, memory_home home) noexcept {
  if (span.empty()) return true;
  const auto index = static_cast<int>(home);
  if (index >= 0) {
    const auto device = static_cast<std::size_t>(index);
    return device < machine.memory.devices.size() && machine.memory.devices[device]->owns(span);
  }
  return std::none_of(machine.memory.devices.begin(), machine.memory.devices.end(),
                      [&](const auto& device) { return device->meets(span); });
}

}  // namespace

int machine_state::device_at(const void* address) const noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t i = 0; i < memory.devices.size(); ++i) {
    if (memory.devices[i]->owns({first, first + 1})) return static_cast<int>(i);
  }
  return static_cast<int>(memory_home::host);
}

status machine_state::check_home(const byte_span& span, memory_home home,
                                 const std::string& who) const noexcept {
  if (is_at_home(*this, span, home)) return {};
  return guarded(who, [&] {
    return status(errc::device,
                  base::cat(who, " cannot touch ", span.past - span.first, " bytes as ",
                            describe(home), ", which do not lie there; name the right home"));
  });
}

result<bool> machine_state::check(const copy_request& request,
                                  const std::string& who) const noexcept {
  auto spans = check_copy(request, who);
  if (!spans) return spans.take_status();
  for (const auto& [span, home] : {std::pair{spans.value().to, request.to_home},
                                   std::pair{spans.value().from, request.from_home}}) {
    if (status misplaced = check_home(span, home, who); !misplaced) return misplaced;
  }
  return !spans.value().to.empty();
}

result<bool> machine_state::check(const fill_request& request,
                                  const std::string& who) const noexcept {
  auto span = check_fill(request, who);
  if (!span) return span.take_status();
  if (status misplaced = check_home(span.value(), request.home, who); !misplaced) return misplaced;
  return !span.value().empty();
}

std::string machine_state::who_of(int device) {
  return base::cat("device ", base::quoted(device_name(device)));
}

std::shared_ptr<lane> make_lane(const std::shared_ptr<machine_state>& machine,
                                const std::string& who) {
  if (machine->order != nullptr) return machine->order->make_lane(who, machine);
  return std::make_shared<worker>(who, machine);
}

std::string device_name(int device) {
  return device < 0 ? std::string("host") : base::cat("host:", device);
}

}  // namespace millstream::backend::host
