// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/queue.hpp"

#include <utility>

#include "backend/cuda/kept.hpp"
#include "backend/guarded.hpp"
#include "backend/missing.hpp"
#include "backend/request.hpp"

namespace millstream::backend::cuda {

queue::queue(std::shared_ptr<device_state> on, std::unique_ptr<stream> leased)
    : on_(std::move(on)), alive_(on_->machine().live), stream_(std::move(leased)) {}

queue::~queue() {
  // In a forked child the driver must not be called.
  if (base::forked_child()) {
    [[maybe_unused]] const auto* const left = stream_.release();
  } else {
    on_->give_back(std::move(stream_));
  }
}

std::uint64_t queue::handle() const noexcept {
  return reinterpret_cast<std::uint64_t>(stream_->raw);
}

template <class Body>
status queue::call(backend::call kind, Body&& body) {
  if (!on_->machine().gate.is_open() || !on_->is_open()) {
    if (status refused = on_->machine().gate.pass(kind, on_->who()); !refused) return refused;
    if (status refused = on_->open(); !refused) return refused;
  }
  return guarded(on_->who(), body);
}

status queue::copy(const copy_request& request) {
  return call(call::copy, [&]() -> status {
    auto spans = check_copy(request, on_->who());
    if (!spans) return spans.take_status();
    const bool left_out = request.skip_when != nullptr &&
                          request.skip_when->load(std::memory_order_acquire) != nullptr;
    return left_out || spans.value().to.empty() ? status{} : stream_->copy(request);
  });
}

status queue::fill(const fill_request& request) {
  return call(call::fill, [&]() -> status {
    auto span = check_fill(request, on_->who());
    if (!span) return span.take_status();
    return span.value().empty() ? status{} : stream_->fill(request);
  });
}

status queue::run(job& /*work*/) {
  return call(call::run,
              [&] { return missing(on_->who(), "run host functions", capability::runs_jobs); });
}

status queue::launch(const launch_request& request) {
  return call(call::launch, [&]() -> status {
    if (request.what == nullptr) {
      return {errc::invalid_value,
              base::cat(on_->who(), " cannot launch no kernel; give one that was found")};
    }
    return stream_->launch(request);
  });
}

status queue::record(backend::event& into) {
  return call(call::record,
              [&]() -> status { return stream_->record_into(static_cast<event&>(into), on_); });
}

status queue::wait(backend::event& what) {
  return call(call::wait, [&] { return stream_->wait(static_cast<event&>(what).steady()); });
}

result<bool> queue::is_capturing() {
  if (base::forked_child()) return call_gate::refuse_child(on_->who());
  return guarded(on_->who(), [&] { return stream_->is_capturing(); });
}

status queue::keep(std::shared_ptr<void> what) {
  if (base::forked_child()) return call_gate::refuse_child(on_->who());
  return guarded(on_->who(), [&]() -> status {
    auto place = look_at_capture(*stream_);
    if (!place) return place.take_status();
    return keep_in(*on_, place.value().into, std::move(what));
  });
}

}  // namespace millstream::backend::cuda
