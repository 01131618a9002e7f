// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/partition.hpp"

#include <algorithm>
#include <utility>

#include "backend/cuda/stream.hpp"
#include "base/text.hpp"

namespace millstream::backend::cuda {
namespace {

/// Keeps a state that the machine does not own, and closes it with the last object made of it.
struct own_state {
  own_state(std::shared_ptr<void> kept_by, machine_state& machine, device_home home,
            device_state* whole)
      : kept(std::move(kept_by)), state(machine, std::move(home), whole) {}
  ~own_state() {
    if (base::forked_child()) return;
    const relaxed_capture allowed(state.api());
    const bool idle = state.is_idle();
    state.close(idle);
    // A context with work in flight stays with the process.
    if (idle) state.leave_context();
  }
  own_state(const own_state&) = delete;
  own_state& operator=(const own_state&) = delete;

  const std::shared_ptr<void> kept;  // outlives the state
  device_state state;
};

std::unique_ptr<backend::device> device_with(std::shared_ptr<own_state> own) {
  device_state* const state = &own->state;
  return std::make_unique<device>(std::shared_ptr<device_state>(std::move(own), state));
}

status too_many(const device_state& whole, int parts, int smallest, std::uint32_t possible,
                std::uint32_t multiprocessors) {
  return {errc::invalid_value,
          base::cat(whole.who(), " cannot be split into ", parts, " parts of at least ", smallest,
                    " multiprocessors: it has ", multiprocessors, ", enough for ", possible,
                    " such parts; ask for fewer or smaller ones")};
}

result<abi::green_context> make_green(device_state& whole, abi::device_resource& part) {
  const driver& api = whole.api();
  abi::resource_descriptor descriptor = nullptr;
  abi::green_context made = nullptr;
  abi::result answer = api->cuDevResourceGenerateDesc(&descriptor, &part, 1);
  if (answer == abi::result::success) {
    answer = api->cuGreenCtxCreate(&made, descriptor, whole.ordinal(),
                                   abi::green_context_flags::default_stream);
  }
  if (status failed = whole.check("make a partition", answer); !failed) return failed;
  return made;
}

}  // namespace

result<std::vector<std::unique_ptr<backend::device>>> split_device(
    const std::shared_ptr<device_state>& whole, int parts, int smallest) {
  constexpr int most_parts = 1024;
  if (parts < 1 || parts > most_parts || smallest < 1) {
    return status(errc::invalid_value,
                  base::cat(whole->who(), " cannot be split into ", parts, " parts of at least ",
                            smallest, " multiprocessors; ask for 1 or more of each"));
  }
  const driver& api = whole->api();
  const context_guard in(api, whole->context());
  const relaxed_capture allowed(api);
  abi::device_resource all{};
  abi::result answer =
      api->cuDeviceGetDevResource(whole->ordinal(), &all, abi::resource_type::multiprocessors);
  if (status failed = whole->check("tell its multiprocessors", answer); !failed) return failed;
  const std::uint32_t multiprocessors = all.multiprocessors.count;
  if (static_cast<std::uint32_t>(smallest) > multiprocessors) {
    return too_many(*whole, parts, smallest, 0, multiprocessors);
  }
  std::vector<abi::device_resource> sets(static_cast<std::size_t>(parts));
  auto count = static_cast<std::uint32_t>(parts);
  answer = api->cuDevSmResourceSplitByCount(sets.data(), &count, &all, nullptr, 0,
                                            static_cast<std::uint32_t>(smallest));
  if (status failed = whole->check("split its multiprocessors", answer); !failed) return failed;
  if (count < static_cast<std::uint32_t>(parts)) {
    return too_many(*whole, parts, smallest, count, multiprocessors);
  }
  std::vector<std::unique_ptr<backend::device>> made;
  for (abi::device_resource& set : sets) {
    auto green = make_green(*whole, set);
    if (!green) return green.take_status();
    device_home home;
    home.index = whole->index();
    home.ordinal = whole->ordinal();
    home.name = base::cat(whole->name(), ".", made.size());
    home.partition = green.value();
    made.push_back(device_with(
        std::make_shared<own_state>(whole, whole->machine(), std::move(home), whole.get())));
  }
  return made;
}

result<std::unique_ptr<backend::device>> device_of_context(
    const std::shared_ptr<machine_state>& machine, std::uint64_t native) {
  device_home home;
  home.foreign = reinterpret_cast<abi::context>(native);
  if (home.foreign == nullptr) {
    return status(errc::invalid_value, "machine 'cuda' cannot adopt no context; give its handle");
  }
  const driver& api = *machine->api;
  const context_guard in(api, home.foreign);
  abi::result answer = in.answer();
  if (answer == abi::result::success) answer = api->cuCtxGetDevice(&home.ordinal);
  if (answer != abi::result::success) {
    return api.failed("machine 'cuda'", "adopt a context", answer);
  }
  const auto found = std::find_if(
      machine->devices.begin(), machine->devices.end(),
      [&](const std::unique_ptr<device_state>& each) { return each->ordinal() == home.ordinal; });
  if (found == machine->devices.end()) {
    return status(errc::invalid_value,
                  base::cat("machine 'cuda' does not hold device ", home.ordinal,
                            " of the context; open it with more devices"));
  }
  home.index = (*found)->index();
  home.name = base::cat((*found)->name(), ".foreign");
  return device_with(std::make_shared<own_state>(machine, *machine, std::move(home), nullptr));
}

}  // namespace millstream::backend::cuda
