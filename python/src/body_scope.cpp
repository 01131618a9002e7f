// SPDX-License-Identifier: Apache-2.0
#include "body_scope.hpp"

#include <utility>

namespace millstream::python {

body_scope::body_scope(const context_state& in, const body_call& call)
    : in_(in), device_(call.device), stream_(call.queue) {
  if (device_ >= 0) entered_ = in_.on->opened().enter(device_);
}

void body_scope::leave() const noexcept {
  in_.on->opened().leave(device_, entered_);
}

std::uint64_t body_scope::stream() {
  if (device_ < 0 && in_.native_memory && !gave_stream_) {
    const machine& on = in_.on->opened();
    stream_ = on.hand_over_stream(on.current_device());
    gave_stream_ = true;
  }
  return stream_;
}

void body_scope::finish() {
  if (!std::exchange(gave_stream_, false)) return;
  const may_block section;
  synchronize(stream_);
}

}  // namespace millstream::python
