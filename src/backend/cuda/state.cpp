// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/state.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend/cuda/host_call.hpp"
#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/program.hpp"
#include "backend/cuda/stream.hpp"
#include "backend/cuda/word_pool.hpp"
#include "backend/guarded.hpp"

namespace millstream::backend::cuda {
namespace {

/// The driver still refers to parts of such a stream.
void keep_for_good(std::unique_ptr<stream> busy) noexcept {
  static std::mutex mutex;  // guards `kept`; innermost
  static auto* const kept = new std::vector<std::unique_ptr<stream>>;
  const std::scoped_lock hold(mutex);
  try {
    kept->push_back(std::move(busy));
  } catch (const std::bad_alloc&) {
    [[maybe_unused]] const auto* const left = busy.release();
  }
}

}  // namespace

device_state::device_state(machine_state& machine, device_home home, device_state* whole)
    : machine_(machine),
      api_(*machine.api),
      home_(std::move(home)),
      whole_(whole),
      who_(base::cat("device ", base::quoted(home_.name))),
      adopted_(std::make_unique<adopted_kernels>()),
      runner_(std::make_shared<host_runner>("device 'cuda:host'")) {
  if (whole_ != nullptr) return;
  std::size_t total = 0;
  const abi::result answer = api()->cuDeviceTotalMem(&total, home_.ordinal);
  memory_ = std::make_unique<device_memory>(*this, answer == abi::result::success ? total : 0);
}

device_state::~device_state() = default;

status device_state::open_or_refuse() noexcept {
  if (status lost = loss(); !lost) return lost;
  if (context() != nullptr) return {};
  return guarded(who_, [&] {
    const std::scoped_lock hold(open_mutex_);
    return context() != nullptr ? status{} : open_now();
  });
}

status device_state::open_now() {
  const relaxed_capture allowed(api());
  if (whole_ != nullptr) {
    if (status failed = whole_->open(); !failed) return failed;
    const abi::result answer = api()->cuCtxFromGreenCtx(&partition_context_, home_.partition);
    if (status failed = check("enter a partition", answer); !failed) return failed;
    context_.store(whole_->context(), std::memory_order_release);
    return {};
  }
  abi::context own = home_.foreign;
  if (own == nullptr) {
    const abi::result answer = api()->cuDevicePrimaryCtxRetain(&own, home_.ordinal);
    if (answer != abi::result::success) {
      return {errc::unavailable, base::cat(who_, " cannot be opened: ", api().describe(answer),
                                           "; use another device or free this one")};
    }
  }
  if (status failed = enter(own); !failed) {
    memory_->close();
    if (home_.foreign == nullptr) api()->cuDevicePrimaryCtxRelease(home_.ordinal);
    return failed;
  }
  context_.store(own, std::memory_order_release);
  return {};
}

status device_state::enter(abi::context own) {
  const context_guard in(api(), own);
  status entered = check("enter its context", in.answer());
  return entered ? memory_->open() : std::move(entered);
}

status device_state::refuse(std::string_view what, abi::result answer) noexcept {
  status failed = api().failed(who_, what, answer);
  return is_sticky(answer) ? root().note_loss(failed.text()) : std::move(failed);
}

status device_state::note_loss(const std::string& text) noexcept {
  const status noted = guarded(who_, [&]() -> status {
    const std::scoped_lock hold(loss_mutex_);
    if (lost_text_.empty()) lost_text_ = text;
    return {};
  });
  lost_.store(true, std::memory_order_release);
  if (home_.foreign == nullptr) machine().lost.store(true, std::memory_order_release);
  return noted ? lost_status() : status(errc::device_lost);
}

status device_state::loss() noexcept {
  return root().lost_.load(std::memory_order_acquire) ? root().lost_status() : status{};
}

status device_state::lost_status() noexcept {
  return guarded(who_, [&] {
    const std::scoped_lock hold(loss_mutex_);
    return status(errc::device_lost,
                  base::cat(lost_text_, "; nothing more can run there, restart the process"));
  });
}

int device_state::attribute(abi::device_attribute what) const noexcept {
  int value = 0;
  const abi::result answer = api()->cuDeviceGetAttribute(&value, what, home_.ordinal);
  return answer == abi::result::success ? value : 0;
}

const launch_limits& device_state::limits() noexcept {
  using attribute_of = abi::device_attribute;
  const auto read = [this](attribute_of what) {
    return static_cast<std::uint32_t>(std::max(attribute(what), 0));
  };
  std::call_once(limits_read_, [&] {
    limits_.grid = {read(attribute_of::max_grid_x), read(attribute_of::max_grid_y),
                    read(attribute_of::max_grid_z)};
    limits_.block = {read(attribute_of::max_block_x), read(attribute_of::max_block_y),
                     read(attribute_of::max_block_z)};
    limits_.block_threads = read(attribute_of::max_threads_per_block);
    limits_.shared_bytes =
        std::max(read(attribute_of::max_shared_bytes), read(attribute_of::max_shared_bytes_optin));
  });
  return limits_;
}

result<std::unique_ptr<stream>> device_state::take_stream() {
  if (std::unique_ptr<stream> idle = take_idle()) return idle;
  return make_stream();
}

std::unique_ptr<stream> device_state::take_idle() noexcept {
  const std::scoped_lock hold(mutex_);
  drop_ended_callers();
  const auto idle = std::find_if(streams_.begin(), streams_.end(),
                                 [](const auto& each) { return each->is_idle(); });
  if (idle == streams_.end()) return nullptr;
  std::unique_ptr<stream> taken = std::move(*idle);
  streams_.erase(idle);
  return taken;
}

void device_state::drop_ended_callers() noexcept {
  std::erase_if(callers_, [](const std::unique_ptr<stream>& each) {
    if (!each->is_idle()) return false;
    each->close();
    return true;
  });
  callers_looked_at_ = callers_.size();
}

result<std::unique_ptr<stream>> device_state::make_stream() {
  const context_guard in(api(), context());
  const relaxed_capture allowed(api());
  abi::stream made = nullptr;
  constexpr auto flags = abi::stream_flags::non_blocking;
  const abi::result answer = home_.partition != nullptr
                                 ? api()->cuGreenCtxStreamCreate(&made, home_.partition, flags, 0)
                                 : api()->cuStreamCreateWithPriority(&made, flags, 0);
  if (status failed = check("make a stream", answer); !failed) return failed;
  return std::make_unique<stream>(*this, made, stream::owner::us);
}

// Those of callers are looked at when there are twice as many as were left last time, which takes a
// constant number of looks for each.
void device_state::give_back(std::unique_ptr<stream> gone) noexcept {
  if (!gone->leave()) return;
  const bool is_ours = gone->of == stream::owner::us;
  const std::scoped_lock hold(mutex_);
  try {
    (is_ours ? streams_ : callers_).push_back(std::move(gone));
    if (callers_.size() > 2 * callers_looked_at_) drop_ended_callers();
  } catch (const std::bad_alloc&) {
    // Without room to note it, the stream is never used again.
  }
}

// Copies work between all devices; with access they need no staging.
status device_state::reach(device_state& other) {
  if (&other == this) return {};
  {
    const std::scoped_lock hold(mutex_);
    const auto is_in = [&](const std::vector<const device_state*>& list) {
      return std::find(list.begin(), list.end(), &other) != list.end();
    };
    if (is_in(reached_)) return {};
    if (is_in(out_of_reach_)) return unreachable(other);
  }
  int can = 0;
  const abi::result answer = api()->cuDeviceCanAccessPeer(&can, home_.ordinal, other.ordinal());
  if (status failed = check("ask whether it reaches another device", answer); !failed) {
    return failed;
  }
  if (can != 0) {
    if (status failed = open_way_to(other); !failed) return failed;
  }
  const std::scoped_lock hold(mutex_);
  (can != 0 ? reached_ : out_of_reach_).push_back(&other);
  return can != 0 ? status{} : unreachable(other);
}

status device_state::unreachable(const device_state& other) const {
  return {errc::unsupported,
          base::cat(who_, " cannot reach memory of ", other.who(), "; copy it instead")};
}

status device_state::open_way_to(device_state& other) {
  const context_guard in(api(), context());
  const relaxed_capture allowed(api());
  const abi::result answer = api()->cuCtxEnablePeerAccess(other.context(), 0);
  if (answer != abi::result::peer_access_already_enabled) {
    if (status failed = check("reach another device", answer); !failed) return failed;
  }
  return other.memory().let_in(*this);
}

void device_state::retire(std::unique_ptr<loaded_module> gone) noexcept {
  const std::scoped_lock hold(mutex_);
  try {
    modules_.push_back(std::move(gone));
  } catch (const std::bad_alloc&) {
    // Without room to note it, the module stays loaded.
  }
}

void device_state::sweep_modules() noexcept {
  const std::scoped_lock hold(mutex_);
  if (modules_.empty()) return;
  const context_guard in(api(), context());
  const relaxed_capture allowed(api());
  std::erase_if(modules_, [&](const std::unique_ptr<loaded_module>& each) {
    if (each->in_graph) return false;
    for (const mark& launch : each->last_launches) {
      auto passed = is_passed(launch);
      if (!passed || !passed.value()) return false;
    }
    api()->cuModuleUnload(each->handle);
    return true;
  });
}

bool device_state::is_idle() noexcept {
  const auto are_idle = [](const std::vector<std::unique_ptr<stream>>& all) {
    return std::all_of(all.begin(), all.end(), [](const auto& each) { return each->is_idle(); });
  };
  const std::scoped_lock hold(mutex_);
  return are_idle(streams_) && are_idle(callers_);
}

void device_state::close(bool machine_is_idle) noexcept {
  if (context() == nullptr) return;
  const context_guard in(api(), context());
  std::move(callers_.begin(), callers_.end(), std::back_inserter(streams_));
  callers_.clear();
  for (std::unique_ptr<stream>& each : streams_) {
    if (each->is_idle()) {
      each->close();
    } else {
      each->tail()->close();
      keep_for_good(std::move(each));
    }
  }
  streams_.clear();
  if (machine_is_idle) {
    for (const std::unique_ptr<loaded_module>& each : modules_)
      api()->cuModuleUnload(each->handle);
  }
  modules_.clear();
  if (memory_ != nullptr) memory_->close();
}

void device_state::leave_context() noexcept {
  if (home_.partition != nullptr) api()->cuGreenCtxDestroy(home_.partition);
  const bool retained = whole_ == nullptr && home_.foreign == nullptr && context() != nullptr;
  if (retained) api()->cuDevicePrimaryCtxRelease(home_.ordinal);
}

machine_state::machine_state(std::shared_ptr<const driver> loaded)
    : api(std::move(loaded)),
      host(std::make_unique<host_memory>(*this)),
      words(std::make_unique<word_pool>(*this)) {}

// With work in flight, releasing a context would wait for it or break it, and page-locked memory
// is still in use: then both stay with the process.
machine_state::~machine_state() {
  if (base::forked_child()) {
    for (std::unique_ptr<device_state>& each : devices) {
      [[maybe_unused]] const auto* const left = each.release();
    }
    [[maybe_unused]] const auto* const left = host.release();
    return;
  }
  const relaxed_capture allowed(*api);
  const bool idle =
      std::all_of(devices.begin(), devices.end(),
                  [](const std::unique_ptr<device_state>& each) { return each->is_idle(); });
  for (const std::unique_ptr<device_state>& each : devices)
    each->close(idle);
  if (idle && first != nullptr) {
    const context_guard in(*api, first->context());
    host->close();
  }
  if (!idle) return;
  for (const std::unique_ptr<device_state>& each : devices)
    each->leave_context();
}

result<device_state*> device_of(machine_state& machine, int index, const std::string& who) {
  if (index < 0 || static_cast<std::size_t>(index) >= machine.devices.size()) {
    return status(errc::invalid_value, base::cat(who, " was given memory of device ", index,
                                                 ", which is not there; name the right home"));
  }
  device_state* const found = machine.devices[static_cast<std::size_t>(index)].get();
  if (status refused = found->open(); !refused) return refused;
  return found;
}

}  // namespace millstream::backend::cuda
