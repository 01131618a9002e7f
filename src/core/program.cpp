// SPDX-License-Identifier: Apache-2.0
#include "core/program.hpp"

#include <utility>

#include <millstream/kernel.hpp>

#include "core/task_job.hpp"

namespace millstream::core {

kernel_source::~kernel_source() {
  for (const found* each = found_.load(std::memory_order_relaxed); each != nullptr;) {
    const std::unique_ptr<const found> gone(each);
    each = gone->next;
  }
}

backend::result<backend::kernel*> kernel_source::look_up(machine& on, place_index device) {
  auto answer = of_ != nullptr ? of_->find(device, entry_) : on.at(device).adopt_kernel(native_);
  if (!answer || answer.value() == find_known(on, device)) return answer;
  auto made = std::make_unique<found>(found{&on, device, answer.value(), nullptr});
  made->next = found_.load(std::memory_order_relaxed);
  while (!found_.compare_exchange_weak(made->next, made.get(), std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  [[maybe_unused]] const auto* const kept = made.release();
  return answer;
}

backend::kernel* kernel_source::find_other(machine& on, place_index device,
                                           const backend::kernel& was) {
  if (!may_change_) return nullptr;
  auto now = look_up(on, device);
  return now && now.value() != &was ? now.value() : nullptr;
}

program::program(std::shared_ptr<machine> on, std::span<const std::byte> image)
    : on_(std::move(on)),
      image_(image.begin(), image.end()),
      by_device_(static_cast<std::size_t>(on_->driver().device_count())) {}

backend::result<backend::program*> program::loaded(place_index device) {
  const std::scoped_lock hold(mutex_);
  std::unique_ptr<backend::program>& known = by_device_[static_cast<std::size_t>(device)];
  if (known == nullptr) {
    auto fresh = on_->at(device).load(image_);
    if (!fresh) return fresh.take_status();
    known = std::move(fresh.value());
  }
  return known.get();
}

kernel_source& program::kernel(std::string_view entry) {
  const std::scoped_lock hold(mutex_);
  const auto known = kernels_.find(entry);
  if (known != kernels_.end()) return *known->second;
  std::string name(entry);
  auto made = std::make_unique<kernel_source>(*this, name);
  return *kernels_.emplace(std::move(name), std::move(made)).first->second;
}

backend::result<backend::kernel*> program::find(place_index device, const std::string& entry) {
  auto there = loaded(device);
  if (!there) return there.take_status();
  return there.value()->find(entry);
}

}  // namespace millstream::core

namespace millstream::inline v1 {

device_kernel::device_kernel(std::uint64_t native) {
  if (native != 0) source_ = std::make_shared<core::kernel_source>(native, /*may_change=*/false);
}

device_kernel device_kernel::by_handle(std::uint64_t native) {
  if (native == 0) return {};
  return device_kernel(std::make_shared<core::kernel_source>(native, /*may_change=*/true));
}

device_kernel program::kernel(std::string_view entry) const {
  return device_kernel(std::shared_ptr<core::kernel_source>(state_, &state_->kernel(entry)));
}

program::program(const machine& on, std::span<const std::byte> image) {
  core::check_process();
  core::check_outside_node(*on.state(), "program");
  state_ = std::make_shared<core::program>(on.state(), image);
}

program::program(const machine& on, std::string_view ptx)
    : program(on, std::as_bytes(std::span(ptx.data(), ptx.size()))) {}

}  // namespace millstream::inline v1
