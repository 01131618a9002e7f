// SPDX-License-Identifier: Apache-2.0
#include "core/machine.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "backend/registry.hpp"
#include "base/fork_guard.hpp"
#include "base/text.hpp"
#include "core/context.hpp"
#include "core/task_job.hpp"

namespace millstream::core {
namespace {

struct open_entry {
  machine_options options;
  std::shared_ptr<machine> opened;
};

struct registry {
  std::mutex mutex;  // guards `entries`; outermost: machines are opened under it
  std::vector<open_entry> entries;
};

// Never destroyed, like the machines in it.
registry& machines() {
  static auto* const all = new registry;
  return *all;
}

bool has_passed(backend::event& mark) {
  auto passed = mark.is_done();
  return passed && passed.value();
}

}  // namespace

machine::machine(std::unique_ptr<backend::machine> driver)
    : driver_(std::move(driver)),
      bits_(driver_->capabilities()),
      has_one_device_(driver_->device_count() == 1),
      idle_(static_cast<std::size_t>(driver_->device_count()) + 1),
      hand_over_(idle_.size()) {}

parked_queue::~parked_queue() {
  of_->unpark();
}

void machine::note_host_end() noexcept {
  const std::scoped_lock hold(mutex_);
  ++host_ends_;
  host_ended_.notify_all();
}

bool machine::wait_for_host_end(std::uint64_t seen, std::chrono::milliseconds limit) {
  std::unique_lock hold(mutex_);
  return host_ended_.wait_for(hold, limit, [&] { return host_ends_ != seen; });
}

backend::result<leased_queue> machine::lease(place_index place) {
  if (auto taken = take_idle(place)) return std::move(*taken);
  // Outside the lock: making a queue may take the driver a while.
  auto queue = at(place).make_queue();
  if (!queue) return queue.take_status();
  auto mark = at(place).make_event();
  if (!mark) return mark.take_status();
  note_handle(queue.value()->handle());
  return leased_queue{std::move(queue.value()), std::move(mark.value()), false, false};
}

// Those that took part in a recording are asked whether it goes on.
std::optional<leased_queue> machine::take_idle(place_index place) {
  std::vector<leased_queue> busy;
  std::optional<leased_queue> taken;
  for (;;) {
    {
      const std::scoped_lock hold(mutex_);
      std::vector<leased_queue>& free = idle(place);
      if (taken || free.empty()) {
        std::move(busy.begin(), busy.end(), std::back_inserter(free));
        return taken;
      }
      taken = std::move(free.back());
      free.pop_back();
      if (!taken->recorded && !taken->busy) continue;
    }
    if (taken->recorded) {
      auto still = taken->queue->is_capturing();
      taken->recorded = !still || still.value();
    }
    if (taken->busy && !taken->recorded) {
      taken->busy = !taken->queue->has_ended() && !has_passed(*taken->mark);
    }
    if (!taken->recorded && !taken->busy) continue;
    busy.push_back(std::move(*taken));
    taken.reset();
  }
}

void machine::note_handle(std::uint64_t handle) {
  const std::scoped_lock hold(mutex_);
  if (std::find(handles_.begin(), handles_.end(), handle) == handles_.end()) {
    handles_.push_back(handle);
  }
}

adopted_queue machine::adopt(std::uint64_t stream, bool one_thread) {
  const auto refuse = [&](const backend::status& why) {
    return error(errc::invalid_value,
                 base::cat("stream ", stream, " cannot be used: ", why.text()));
  };
  auto device = driver_->device_of_stream(stream);
  if (!device) throw refuse(device.why());
  const auto place = static_cast<place_index>(device.value());
  auto queue = at(place).adopt(stream, one_thread);
  if (!queue) throw refuse(queue.why());
  note_handle(stream);  // 0 has another one
  note_handle(queue.value()->handle());
  return {std::move(queue.value()), place};
}

void machine::give_back(place_index place, leased_queue lease) noexcept {
  const std::scoped_lock hold(mutex_);
  idle(place).push_back(std::move(lease));
}

held_leases::~held_leases() {
  for (auto& [place, lease] : all_) {
    if (base::forked_child()) {
      [[maybe_unused]] const auto* const queue = lease.queue.release();
      [[maybe_unused]] const auto* const mark = lease.mark.release();
    } else {
      of_.give_back(place, std::move(lease));
    }
  }
}

backend::result<std::uint64_t> machine::hand_over_queue(place_index place) {
  std::optional<leased_queue>& kept = hand_over_[static_cast<std::size_t>(place + 1)];
  {
    const std::scoped_lock hold(mutex_);
    if (kept) return kept->queue->handle();
  }
  auto fresh = lease(place);
  if (!fresh) return fresh.take_status();
  {
    const std::scoped_lock hold(mutex_);
    if (!kept) {
      kept = std::move(fresh.value());
      return kept->queue->handle();
    }
  }
  // Another thread was faster.
  give_back(place, std::move(fresh.value()));
  const std::scoped_lock hold(mutex_);
  return kept->queue->handle();
}

backend::result<std::unique_ptr<backend::event>> machine::take_event() {
  {
    const std::scoped_lock hold(mutex_);
    if (!events_.empty()) {
      auto taken = std::move(events_.back());
      events_.pop_back();
      return taken;
    }
  }
  return driver_->host().make_event();
}

void machine::give_back(std::unique_ptr<backend::event> event) noexcept {
  const std::scoped_lock hold(mutex_);
  events_.push_back(std::move(event));
}

bool machine::knows_queue(std::uint64_t handle) const {
  const std::scoped_lock hold(mutex_);
  return std::find(handles_.begin(), handles_.end(), handle) != handles_.end();
}

void machine::drop_idle_queues() noexcept {
  std::vector<std::vector<leased_queue>> dropped(idle_.size());
  const std::scoped_lock hold(mutex_);
  dropped.swap(idle_);
}

std::shared_ptr<machine> open_machine(const machine_options& options) {
  check_process();
  const std::scoped_lock hold(machines().mutex);
  for (const open_entry& entry : machines().entries) {
    if (entry.options == options) return entry.opened;
  }
  const backend::open_options how{options.devices, options.seed};
  auto opened = backend::open_by_name(options.name, how);
  if (!opened) throw error(opened.why().code(), opened.why().text());
  base::note_machine_opened();
  auto made = std::make_shared<machine>(std::move(opened.value()));
  machines().entries.push_back({options, made});
  return made;
}

std::vector<std::shared_ptr<machine>> open_machines() {
  const std::scoped_lock hold(machines().mutex);
  std::vector<std::shared_ptr<machine>> all;
  for (const open_entry& entry : machines().entries)
    all.push_back(entry.opened);
  return all;
}

void refuse_process() {
  if (base::forked_child()) {
    throw error(errc::unavailable,
                "millstream cannot be used in a child "
                "process forked after a machine was opened; "
                "start the child with the 'spawn' method");
  }
  throw error(errc::unavailable, "millstream was shut down; the interpreter is ending");
}

}  // namespace millstream::core

namespace millstream::inline v1 {

machine::machine(const machine_options& options) : state_(core::open_machine(options)) {}

const std::string& machine::name() const noexcept {
  return state_->name();
}
int machine::device_count() const noexcept {
  return state_->driver().device_count();
}

std::vector<std::string> machine::capabilities() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < backend::capability_count; ++i) {
    if (state_->has(static_cast<backend::capability>(i))) {
      names.emplace_back(backend::capability_names[i]);
    }
  }
  return names;
}

int machine::current_device() const noexcept {
  return state_->current_device();
}

data_place machine::home_of(const void* address) const {
  auto found = state_->driver().home_of(address);
  if (!found) throw error(found.why().code(), found.why().text());
  if (found.value() == core::host_place) return data_place::host();
  if (found.value() == core::managed_place) return data_place::managed();
  return data_place::device(found.value());
}

std::uint64_t machine::hand_over_stream(int device) const {
  core::check_outside_node(*state_, "stream_ptr");
  auto queue = state_->hand_over_queue(core::resolve(exec_place::device(device), *state_));
  if (!queue) throw error(queue.why().code(), queue.why().text());
  return queue.value();
}

std::uint64_t machine::enter(int device) const noexcept {
  return state_->driver().at(device).enter();
}
void machine::leave(int device, std::uint64_t entered) const noexcept {
  if (entered != 0) state_->driver().at(device).leave(entered);
}

bool machine::runs_kernels() const noexcept {
  // The null machine takes kernels, but has no memory that they could touch.
  return state_->has(backend::capability::kernels) && state_->has(backend::capability::values);
}

std::vector<std::pair<std::string, std::uint64_t>> machine::call_counts() const {
  std::vector<std::pair<std::string, std::uint64_t>> counts;
  const backend::call_counts calls = state_->driver().calls();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i] != 0) counts.emplace_back(backend::call_names[i], calls[i]);
  }
  return counts;
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const backend::backend_entry& entry : backend::backends())
    names.emplace_back(entry.name);
  return names;
}

void synchronize(std::uint64_t stream) {
  core::check_process();
  bool known = core::synchronize_leased(stream);
  for (const auto& each : core::open_machines()) {
    if (!each->knows_queue(stream)) continue;
    known = true;
    // What contexts left in it that do not use it any more.
    core::synchronize_adopted(*each, stream);
  }
  if (known) return;
  throw error(
      errc::invalid_value,
      base::cat("stream ", stream, " does not exist; pass what fence() or a task's stream gave"));
}

}  // namespace millstream::inline v1
