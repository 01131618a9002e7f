// SPDX-License-Identifier: Apache-2.0
#include "backend/host/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>
#include <utility>

#include "backend/device_limit.hpp"
#include "backend/guarded.hpp"
#include "backend/host/device.hpp"
#include "base/settings.hpp"

namespace millstream::backend::host {
namespace {

constexpr capability_set bits{capability::runs_jobs, capability::host_memory, capability::values,
                              capability::managed,   capability::peer,        capability::graphs};

class machine final : public backend::machine {
 public:
  machine(std::shared_ptr<machine_state> state, int queue_hint)
      : state_(std::move(state)), host_(state_, -1, queue_hint) {
    for (std::size_t i = 0; i < state_->memory.devices.size(); ++i) {
      devices_.push_back(std::make_unique<device>(state_, static_cast<int>(i), queue_hint));
    }
  }
  ~machine() override {
    // In a forked child the threads are missing and may have left mutexes locked.
    if (base::forked_child()) return;
    state_->nodes.close();  // first, so that no lane is made after the others were shut down
    if (state_->order != nullptr) state_->order->shut_down();
  }

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] capability_set capabilities() const noexcept override { return bits; }
  [[nodiscard]] int device_count() const noexcept override {
    return static_cast<int>(devices_.size());
  }
  [[nodiscard]] backend::device& at(int index) noexcept override {
    return *devices_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] backend::device& host() noexcept override { return host_; }
  [[nodiscard]] int current_device() noexcept override { return 0; }
  [[nodiscard]] result<int> device_of_stream(std::uint64_t number) override {
    if (auto known = state_->queues.find(number)) return known->device;
    return status(errc::invalid_value, base::cat(who_, " has no queue with number ", number,
                                                 "; pass what fence() or a task's stream gave"));
  }

  [[nodiscard]] result<int> home_of(const void* address) override {
    return state_->device_at(address);
  }
  status register_memory(void* /*block*/, std::size_t /*bytes*/) override {
    status passed = state_->gate.pass(call::register_memory, who_);
    if (passed) state_->live.add(1);
    return passed;
  }
  status unregister_memory(void* /*block*/) override {
    status passed = state_->gate.pass(call::unregister_memory, who_);
    if (passed) state_->live.add(-1);
    return passed;
  }

  [[nodiscard]] call_counts calls() const noexcept override { return state_->gate.counts(); }
  void set_fault_plan(const fault_plan& plan) noexcept override { state_->gate.set_plan(plan); }
  [[nodiscard]] std::int64_t live_objects() const noexcept override { return state_->live.now(); }

 private:
  const std::string name_ = "host";
  const std::string who_ = "machine 'host'";
  const std::shared_ptr<machine_state> state_;
  device host_;
  std::vector<std::unique_ptr<device>> devices_;
};

int cores() noexcept {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// What the process may use: the machine's memory, or the limit of its container.
std::size_t memory_of_system() {
  std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const char* file :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::size_t limit = 0;
    if (std::ifstream(file) >> limit) bytes = std::min(bytes, limit);
  }
  return bytes;
}

/// Answers the text about a wrong variable, or nothing.
status check(const char* variable) {
  const std::string problem = base::environment().problem_with(variable);
  return problem.empty() ? status{} : status{errc::invalid_value, problem};
}

result<int> count_devices(int asked) {
  if (asked != 0) return asked;
  if (status wrong = check("MILLSTREAM_HOST_DEVICES"); !wrong) return wrong;
  const int set = base::environment().host_devices;
  return set != 0 ? set : std::clamp(cores() / 2, 2, most_devices);
}

result<std::size_t> size_memory(std::size_t asked, int devices) {
  if (asked != 0) return asked;
  if (status wrong = check("MILLSTREAM_HOST_MEMORY"); !wrong) return wrong;
  const std::size_t set = base::environment().host_memory_bytes;
  if (set != 0) return set;
  return default_capacity(memory_of_system() / static_cast<std::size_t>(devices + 1));
}

/// As many queues as a device has cores; a few more in seed mode, where they cost nothing and show
/// more orders.
int hint_queues(int devices, bool seeded) noexcept {
  return seeded ? 4 : std::clamp((cores() + devices - 1) / devices, 2, 8);
}

}  // namespace

machine_result open(const open_options& options) {
  return open_with(options, {});
}

machine_result open_with(const open_options& options, const host_options& more) {
  const std::string who = "machine 'host'";
  if (base::forked_child()) return call_gate::refuse_child(who);
  if (status wrong = check_device_count(options.devices, who); !wrong) return wrong;
  return guarded(who, [&]() -> machine_result {
    auto devices = count_devices(options.devices);
    if (!devices) return devices.take_status();
    auto bytes = size_memory(more.memory_bytes, devices.value());
    if (!bytes) return bytes.take_status();
    auto memory =
        reserve_arenas(devices.value(), device_name,
                       {.owner = {},
                        .capacity = bytes.value(),
                        .way_out = "use less data at a time or set MILLSTREAM_HOST_MEMORY to more",
                        .fresh = fresh_content::marked});
    if (!memory) return memory.take_status();
    const auto state = std::make_shared<machine_state>();
    state->memory = std::move(memory.value());
    if (options.seed) state->order = std::make_shared<scheduler>(*options.seed);
    base::note_machine_opened();
    const int hint = hint_queues(devices.value(), options.seed.has_value());
    state->node_lanes = static_cast<std::size_t>(hint);
    return std::unique_ptr<backend::machine>(std::make_unique<machine>(state, hint));
  });
}

}  // namespace millstream::backend::host
