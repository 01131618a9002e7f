// SPDX-License-Identifier: Apache-2.0
#include "core/program.hpp"

#include <utility>

#include <millstream/kernel.hpp>

namespace millstream::core {

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

backend::result<backend::kernel*> program::find(place_index device, const std::string& entry) {
  auto there = loaded(device);
  if (!there) return there.take_status();
  return there.value()->find(entry);
}

}  // namespace millstream::core

namespace millstream::inline v1 {

program::program(const machine& on, std::span<const std::byte> image) {
  core::check_process();
  state_ = std::make_shared<core::program>(on.state(), image);
}

program::program(const machine& on, std::string_view ptx)
    : program(on, std::as_bytes(std::span(ptx.data(), ptx.size()))) {}

}  // namespace millstream::inline v1
