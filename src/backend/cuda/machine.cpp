// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/machine.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cuda/device.hpp"
#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/partition.hpp"
#include "backend/cuda/range.hpp"
#include "backend/cuda/state.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/device_limit.hpp"
#include "backend/guarded.hpp"
#include "base/settings.hpp"

namespace millstream::backend::cuda {
namespace {

const std::string& machine_name() {
  static const std::string who = "machine 'cuda'";
  return who;
}

class machine final : public backend::machine {
 public:
  explicit machine(std::shared_ptr<machine_state> state)
      : backend::machine(state->lost), state_(std::move(state)), host_(state_) {
    for (const std::unique_ptr<device_state>& each : state_->devices) {
      devices_.push_back(
          std::make_unique<device>(std::shared_ptr<device_state>(state_, each.get())));
    }
  }

  ~machine() override {
    if (!base::forked_child()) state_->host->forget_last_uses();
  }

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] capability_set capabilities() const noexcept override { return state_->bits; }
  [[nodiscard]] int device_count() const noexcept override {
    return static_cast<int>(devices_.size());
  }
  [[nodiscard]] backend::device& at(int index) noexcept override {
    return *devices_[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] backend::device& host() noexcept override { return host_; }
  [[nodiscard]] int current_device() noexcept override;
  [[nodiscard]] result<int> device_of_stream(std::uint64_t native_stream) override;
  [[nodiscard]] result<int> home_of(const void* address) override;

  [[nodiscard]] status loss() noexcept override;

  status register_memory(void* block, std::size_t bytes) override;
  status unregister_memory(void* block) override;
  status enable_peer(int by, int of) override;
  [[nodiscard]] result<std::unique_ptr<backend::virtual_range>> reserve_range(
      std::size_t bytes) override;
  [[nodiscard]] result<std::unique_ptr<backend::device>> adopt_context(
      std::uint64_t native) override;

  [[nodiscard]] call_counts calls() const noexcept override { return state_->gate.counts(); }
  void set_fault_plan(const fault_plan& plan) noexcept override { state_->gate.set_plan(plan); }
  [[nodiscard]] std::int64_t live_objects() const noexcept override { return state_->live.now(); }

 private:
  const std::string name_ = "cuda";
  const std::string& who_ = machine_name();
  const std::shared_ptr<machine_state> state_;
  host_device host_;
  std::vector<std::unique_ptr<device>> devices_;
};

/// The device of the thread's current context, as a place in `devices`; -1 without one or if it is
/// none of them.
int current_position(const machine_state& state) noexcept {
  abi::device ordinal = 0;
  if ((*state.api)->cuCtxGetDevice(&ordinal) != abi::result::success) return -1;
  const auto found = std::find_if(
      state.devices.begin(), state.devices.end(),
      [&](const std::unique_ptr<device_state>& each) { return each->ordinal() == ordinal; });
  return found == state.devices.end() ? -1 : (*found)->index();
}

/// Asked for each task without a place, so a machine of one device asks nobody.
int current_index(const machine_state& state) noexcept {
  return state.devices.size() == 1 ? 0 : std::max(current_position(state), 0);
}

status machine::loss() noexcept {
  for (const std::unique_ptr<device_state>& each : state_->devices) {
    if (status lost = each->loss(); !lost) return lost;
  }
  return {};
}

int machine::current_device() noexcept {
  return base::forked_child() ? 0 : current_index(*state_);
}

result<int> machine::device_of_stream(std::uint64_t native_stream) {
  if (base::forked_child()) return call_gate::refuse_child(who_);
  // The default streams are those of the current device.
  if (native_stream <= per_thread_default) return current_index(*state_);
  abi::context owner = nullptr;
  const driver& api = *state_->api;
  const abi::result answer =
      api->cuStreamGetCtx(reinterpret_cast<abi::stream>(native_stream), &owner);
  if (answer != abi::result::success) {
    status failed = api.failed(who_, "tell whose stream it was given", answer);
    return status(errc::invalid_value, failed.text());
  }
  const context_guard in(api, owner);
  const int found = current_position(*state_);
  if (found >= 0) return found;
  return status(errc::invalid_value,
                base::cat(who_, " was given a stream of a device it does not have"));
}

/// Memory of the device with that number of the driver's.
result<int> home_of_ordinal(const machine_state& state, int ordinal) {
  for (const std::unique_ptr<device_state>& each : state.devices) {
    if (static_cast<int>(each->ordinal()) == ordinal) return each->index();
  }
  return status(errc::invalid_value,
                base::cat(machine_name(), " was given memory of GPU ", ordinal, ", but has only ",
                          state.devices.size(), " devices; open it with more"));
}

result<int> machine::home_of(const void* address) {
  constexpr int host = static_cast<int>(memory_home::host);
  if (base::forked_child()) return call_gate::refuse_child(who_);
  if (address == nullptr) return host;
  // For memory it does not know the driver clears the answers and reports success.
  std::uint32_t type = 0;
  std::uint32_t managed = 0;  // the driver writes one byte of it
  int ordinal = -1;
  std::array what{abi::pointer_attribute::memory_type, abi::pointer_attribute::is_managed,
                  abi::pointer_attribute::device_ordinal};
  std::array<void*, 3> into{&type, &managed, &ordinal};
  const abi::result answer =
      (*state_->api)
          ->cuPointerGetAttributes(3, what.data(), into.data(),
                                   reinterpret_cast<abi::device_pointer>(address));
  if (answer == abi::result::invalid_value) return host;
  if (status failed = state_->first->check("tell where memory is", answer); !failed) return failed;
  if (managed != 0 && state_->bits.has(capability::managed)) {
    return static_cast<int>(memory_home::managed);
  }
  if (type != static_cast<std::uint32_t>(abi::memory_type::on_device) && managed == 0) return host;
  return guarded(who_, [&] { return home_of_ordinal(*state_, ordinal); });
}

status machine::register_memory(void* block, std::size_t bytes) {
  if (status refused = state_->gate.pass(call::register_memory, who_); !refused) return refused;
  return guarded(who_, [&] {
    status locked = state_->host->lock_pages(block, bytes);
    if (locked) state_->live.add(1);
    return locked;
  });
}

status machine::unregister_memory(void* block) {
  if (status refused = state_->gate.pass(call::unregister_memory, who_); !refused) return refused;
  return guarded(who_, [&] {
    status unlocked = state_->host->unlock_pages(block);
    if (unlocked) state_->live.add(-1);
    return unlocked;
  });
}

status machine::enable_peer(int by, int of) {
  if (base::forked_child()) return call_gate::refuse_child(who_);
  return guarded(who_, [&]() -> status {
    auto user = device_of(*state_, by, who_);
    if (!user) return user.take_status();
    auto owner = device_of(*state_, of, who_);
    return owner ? user.value()->reach(*owner.value()) : owner.take_status();
  });
}

result<std::unique_ptr<backend::virtual_range>> machine::reserve_range(std::size_t bytes) {
  if (base::forked_child()) return call_gate::refuse_child(who_);
  if (!state_->bits.has(capability::vmm)) return backend::machine::reserve_range(bytes);
  return guarded(who_, [&] { return virtual_range::reserve(state_, bytes); });
}

result<std::unique_ptr<backend::device>> machine::adopt_context(std::uint64_t native) {
  if (base::forked_child()) return call_gate::refuse_child(who_);
  return guarded(who_, [&] { return device_of_context(state_, native); });
}

bool all_devices(const machine_state& state, abi::device_attribute what) noexcept {
  return std::all_of(
      state.devices.begin(), state.devices.end(),
      [&](const std::unique_ptr<device_state>& each) { return each->attribute(what) != 0; });
}

bool all_reach_each_other(const machine_state& state) noexcept {
  for (const std::unique_ptr<device_state>& from : state.devices) {
    for (const std::unique_ptr<device_state>& to : state.devices) {
      int can = from == to ? 1 : 0;
      if (can == 0) (*state.api)->cuDeviceCanAccessPeer(&can, from->ordinal(), to->ordinal());
      if (can == 0) return false;
    }
  }
  return true;
}

/// Asked for, never guessed from versions.
capability_set ask_bits(const machine_state& state) noexcept {
  const driver& api = *state.api;
  capability_set bits{capability::values, capability::kernels};
  bits.set(capability::managed,
           api->cuMemAllocManaged != nullptr &&
               all_devices(state, abi::device_attribute::concurrent_managed_access));
  bits.set(capability::peer, all_reach_each_other(state));
  bits.set(capability::stream_memory_ops,
           api->cuStreamWaitValue64 != nullptr && api->cuStreamWriteValue64 != nullptr &&
               all_devices(state, abi::device_attribute::can_use_64_bit_stream_mem_ops));
  bits.set(capability::capture_to_graph,
           api->cuStreamBeginCaptureToGraph != nullptr && api->cuStreamGetCaptureInfo != nullptr &&
               api->cuStreamEndCapture != nullptr && api->cuGraphCreate != nullptr &&
               api->cuGraphDestroy != nullptr && api->cuStreamUpdateCaptureDependencies != nullptr);
  bits.set(capability::graphs,
           api->cuGraphCreate != nullptr && api->cuGraphDestroy != nullptr &&
               api->cuGraphAddKernelNode != nullptr && api->cuGraphAddMemcpyNode != nullptr &&
               api->cuGraphAddMemsetNode != nullptr && api->cuGraphAddHostNode != nullptr &&
               api->cuGraphAddChildGraphNode != nullptr && api->cuGraphAddEmptyNode != nullptr &&
               api->cuGraphKernelNodeSetAttribute != nullptr &&
               api->cuGraphDestroyNode != nullptr && api->cuGraphGetNodes != nullptr &&
               api->cuGraphNodeGetType != nullptr && api->cuGraphDebugDotPrint != nullptr &&
               api->cuGraphInstantiateWithParams != nullptr && api->cuGraphExecUpdate != nullptr &&
               api->cuGraphLaunch != nullptr && api->cuGraphExecDestroy != nullptr &&
               api->cuUserObjectCreate != nullptr && api->cuUserObjectRelease != nullptr &&
               api->cuGraphRetainUserObject != nullptr);
  bits.set(capability::vmm,
           api->cuMemAddressReserve != nullptr && api->cuMemAddressFree != nullptr &&
               api->cuMemCreate != nullptr && api->cuMemRelease != nullptr &&
               api->cuMemMap != nullptr && api->cuMemUnmap != nullptr &&
               api->cuMemSetAccess != nullptr && api->cuMemGetAllocationGranularity != nullptr &&
               all_devices(state, abi::device_attribute::virtual_memory_management_supported));
  bits.set(capability::green_contexts,
           api->cuDeviceGetDevResource != nullptr && api->cuDevSmResourceSplitByCount != nullptr &&
               api->cuDevResourceGenerateDesc != nullptr && api->cuGreenCtxCreate != nullptr &&
               api->cuGreenCtxDestroy != nullptr && api->cuCtxFromGreenCtx != nullptr &&
               api->cuGreenCtxStreamCreate != nullptr);
  return bits;
}

status add_devices(machine_state& state, int wanted) {
  const driver& api = *state.api;
  int present = 0;
  const abi::result counted = api->cuDeviceGetCount(&present);
  if (counted != abi::result::success && counted != abi::result::no_device) {
    return api.failed(machine_name(), "count the devices", counted);
  }
  if (present < std::max(wanted, 1)) {
    return {errc::unavailable, base::cat(machine_name(), " cannot be opened with ",
                                         std::max(wanted, 1), " devices: the driver ", "shows ",
                                         present, "; choose fewer, or the machine 'host'")};
  }
  for (int i = 0; i < (wanted == 0 ? std::min(present, most_devices) : wanted); ++i) {
    device_home home;
    home.index = i;
    home.name = base::cat("cuda:", i);
    const abi::result got = api->cuDeviceGet(&home.ordinal, i);
    if (got != abi::result::success) return api.failed(machine_name(), "find a device", got);
    state.devices.push_back(std::make_unique<device_state>(state, std::move(home)));
  }
  return {};
}

status open_first(machine_state& state) {
  device_state& first = *state.devices[static_cast<std::size_t>(current_index(state))];
  if (status failed = first.open(); !failed) return failed;
  state.first = &first;
  return {};
}

}  // namespace

machine_result open(const open_options& options) {
  return open_with(options, base::environment().cuda_driver);
}

machine_result open_with(const open_options& options, const std::string& library) {
  if (base::forked_child()) return call_gate::refuse_child(machine_name());
  if (status wrong = check_device_count(options.devices, machine_name()); !wrong) return wrong;
  return guarded(machine_name(), [&]() -> machine_result {
    auto loaded = driver::load(library);
    if (!loaded) return loaded.take_status();
    auto state = std::make_shared<machine_state>(std::move(loaded.value()));
    // Whatever the driver's reason, a failure means that this machine is not there.
    status there = add_devices(*state, options.devices);
    if (there) there = open_first(*state);
    if (!there) return status(errc::unavailable, there.text());
    state->bits = ask_bits(*state);
    base::note_machine_opened();
    return std::unique_ptr<backend::machine>(std::make_unique<machine>(std::move(state)));
  });
}

}  // namespace millstream::backend::cuda
