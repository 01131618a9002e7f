// SPDX-License-Identifier: Apache-2.0
#include "backend/null/machine.hpp"

#include <algorithm>
#include <utility>

#include "backend/device_limit.hpp"
#include "backend/guarded.hpp"
#include "backend/null/device.hpp"

namespace millstream::backend::null {
namespace {

// Only addresses, so as many as nobody runs out of by accident.
constexpr std::size_t default_memory = default_capacity(std::size_t{1} << 40U);

class machine final : public backend::machine {
 public:
  explicit machine(std::shared_ptr<machine_state> state)
      : state_(std::move(state)), host_(state_, -1) {
    for (std::size_t i = 0; i < state_->memory.devices.size(); ++i) {
      devices_.push_back(std::make_unique<device>(state_, static_cast<int>(i)));
    }
  }

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] capability_set capabilities() const noexcept override {
    capability_set bits{capability::kernels, capability::graphs, capability::capture_to_graph};
    bits.set(capability::runs_jobs, state_->runs_jobs);
    return bits;
  }
  [[nodiscard]] int device_count() const noexcept override {
    return static_cast<int>(devices_.size());
  }
  [[nodiscard]] backend::device& at(int index) noexcept override {
    return *devices_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] backend::device& host() noexcept override { return host_; }
  [[nodiscard]] int current_device() noexcept override { return 0; }

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
  const std::string name_ = "null";
  const std::string who_ = "machine 'null'";
  const std::shared_ptr<machine_state> state_;
  device host_;
  std::vector<std::unique_ptr<device>> devices_;
};

}  // namespace

machine_result open(const open_options& options) {
  return open_with(options, {});
}

machine_result open_with(const open_options& options, const null_options& more) {
  const std::string who = "machine 'null'";
  if (base::forked_child()) return call_gate::refuse_child(who);
  if (status wrong = check_device_count(options.devices, who); !wrong) return wrong;
  return guarded(who, [&]() -> machine_result {
    const std::size_t bytes = more.memory_bytes != 0 ? more.memory_bytes : default_memory;
    auto memory = reserve_arenas(std::max(1, options.devices), device_name,
                                 {.owner = {},
                                  .capacity = bytes,
                                  .way_out = "use less data at a time",
                                  .fresh = fresh_content::as_it_comes});
    if (!memory) return memory.take_status();
    const auto state = std::make_shared<machine_state>();
    state->memory = std::move(memory.value());
    state->runs_jobs = more.runs_jobs;
    base::note_machine_opened();
    return std::unique_ptr<backend::machine>(std::make_unique<machine>(state));
  });
}

}  // namespace millstream::backend::null
