// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/stream.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "backend/block.hpp"
#include "backend/cuda/host_memory.hpp"
#include "backend/cuda/launch.hpp"
#include "backend/cuda/program.hpp"
#include "backend/cuda/state.hpp"
#include "backend/guarded.hpp"
#include "backend/missing.hpp"

namespace millstream::backend::cuda {
namespace {

/// Of a stream that may be anybody's. The answer is an error where the legacy default stream is
/// asked while somebody captures a stream that it would wait for.
result<bool> ask_capturing(device_state& on, abi::stream raw) {
  auto now = abi::capture_status::none;
  const context_guard in(on.api(), on.context());
  const abi::result answer = on.api()->cuStreamIsCapturing(raw, &now);
  if (status failed = on.check("tell whether a stream is captured", answer); !failed) {
    return failed;
  }
  return now != abi::capture_status::none;
}

/// What comes in `into` later relies on it, so a driver that sets no mark is waited for, which a
/// capture does not take.
status join(stream& into, stream& helper, bool captured) {
  auto after = helper.record();
  status now = after ? into.wait(after.value()) : after.take_status();
  if (now || captured || now.code() == errc::device_lost) return now;
  const context_guard in(helper.on.api(), helper.on.context());
  return helper.on.check("wait for a stream", helper.on.api()->cuStreamSynchronize(helper.raw));
}

}  // namespace

result<mark> stream_tail::now() {
  const std::scoped_lock hold(mutex_);
  if (closed_) return last_;
  auto captured = ask_capturing(on, raw);
  if (!captured) return captured.take_status();
  mark tail;
  tail.captured = captured.value();
  if (tail.captured) return tail;
  auto made = raw_event::make(on);
  if (!made) return made.take_status();
  tail.raw = std::move(made.value());
  const context_guard in(on.api(), on.context());
  const abi::result answer = on.api()->cuEventRecord(tail.raw->handle, raw);
  if (status failed = on.check("mark the tail of a stream", answer); !failed) return failed;
  return tail;
}

void stream_tail::close() noexcept {
  auto tail = guarded(on.who(), [&] { return now(); });
  const std::scoped_lock hold(mutex_);
  closed_ = true;
  if (tail) last_ = std::move(tail.value());
}

void stream_tail::close_idle() noexcept {
  const std::scoped_lock hold(mutex_);
  closed_ = true;
}

stream_tail::state stream_tail::look() noexcept {
  const std::scoped_lock hold(mutex_);
  if (!closed_) return state::open;
  if (last_.captured) return state::captured;
  auto passed = guarded(on.who(), [&] { return is_passed(last_); });
  return passed && passed.value() ? state::ended : state::busy;
}

stream::stream(device_state& of_device, abi::stream of_driver, owner whose)
    : on(of_device),
      raw(of_driver),
      of(whose),
      may_capture_(whose == owner::caller),
      tail_(std::make_shared<stream_tail>(of_device, of_driver)) {}

stream::~stream() = default;

result<bool> stream::is_capturing() {
  if (!may_capture_) return false;
  auto now = ask_capturing(on, raw);
  if (now && !now.value() && of == owner::us) may_capture_ = false;
  return now;
}

result<mark> stream::record(event* into) {
  auto captured = is_capturing();
  if (!captured) return captured.take_status();
  auto claimed = into != nullptr ? into->claim(on) : raw_event::make(on);
  if (!claimed) return claimed.take_status();
  mark tail;
  tail.captured = captured.value();
  tail.raw = std::move(claimed.value());
  const context_guard in(on.api(), on.context());
  const abi::result answer = on.api()->cuEventRecord(tail.raw->handle, raw);
  if (status failed = on.check("mark the tail of a queue", answer); !failed) return failed;
  return tail;
}

status stream::record_into(event& into, const std::shared_ptr<device_state>& kept) {
  auto captured = is_capturing();
  if (!captured) return captured.take_status();
  {
    const context_guard in(on.api(), on.context());
    if (auto answer = into.renew(on, raw, captured.value())) {
      return on.check("mark the tail of a queue", *answer);
    }
  }
  auto tail = record(&into);
  if (!tail) return tail.take_status();
  into.set(std::move(tail.value()), kept);
  return {};
}

status stream::wait(const mark& what) {
  const driver& api = on.api();
  const context_guard in(api, on.context());
  if (what.raw != nullptr) {
    if (what.captured) {
      may_capture_ = true;
    } else if (may_capture_) {
      auto captured = is_capturing();
      if (!captured) return captured.take_status();
      if (captured.value()) return wait_outside(what);
    }
    return on.check("wait for a mark",
                    api->cuStreamWaitEvent(raw, what.raw->handle, abi::event_wait_flags::none));
  }
  if (what.behind == nullptr || what.behind->passed(what.position)) return {};
  auto captured = is_capturing();
  if (!captured) return captured.take_status();
  if (captured.value()) {
    return {errc::unsupported,
            base::cat(on.who(),
                      " cannot wait for a host function under stream capture; finish "
                      "the host function before the capture begins")};
  }
  if (!on.machine().bits.has(capability::stream_memory_ops)) {
    return missing(on.who(), "wait for a host function", capability::stream_memory_ops);
  }
  const auto word = reinterpret_cast<abi::device_pointer>(&what.behind->done());
  return on.check(
      "wait for a host function",
      api->cuStreamWaitValue64(raw, word, what.position, abi::wait_value_flags::greater_or_equal));
}

result<capture_place> look_at_capture(stream& of) {
  if (!of.on.machine().bits.has(capability::capture_to_graph)) {
    return missing(of.on.who(), "look at a recording", capability::capture_to_graph);
  }
  const driver& api = of.on.api();
  const context_guard in(api, of.on.context());
  auto now = abi::capture_status::none;
  std::uint64_t id = 0;
  const abi::graph_edge* edges = nullptr;
  capture_place found;
  const abi::result answer = api->cuStreamGetCaptureInfo(of.raw, &now, &id, &found.into,
                                                         &found.after, &edges, &found.count);
  if (status failed = of.on.check("look at a recording", answer); !failed) return failed;
  if (now == abi::capture_status::active) return found;
  return status(errc::usage,
                base::cat(of.on.who(), now == abi::capture_status::none
                                           ? " finds nobody who records the queue; launch there"
                                           : " finds a recording that a call has spoilt; leave "
                                             "out what cannot be recorded"));
}

// The driver refuses such a wait and with it the whole capture.
status stream::wait_outside(const mark& what) {
  auto passed = is_passed(what);
  if (!passed) return passed.take_status();
  if (passed.value()) return {};
  return {errc::usage, base::cat(on.who(),
                                 " cannot wait under stream capture for work outside of the "
                                 "capture; finish that work before the capture begins")};
}

bool stream::is_idle() noexcept {
  if (!turns_.are_done()) return false;
  const driver& api = on.api();
  const context_guard in(api, on.context());
  const relaxed_capture allowed(api);
  if (of == owner::caller) {
    auto tail = guarded(on.who(), [&] { return tail_->now(); });
    if (!tail) return false;
    if (tail.value().captured) return true;  // a graph needs nothing of this object
    auto passed = guarded(on.who(), [&] { return is_passed(tail.value()); });
    return passed && passed.value();
  }
  // Asked first: asking a captured stream for its work would spoil the capture.
  auto captured = guarded(on.who(), [&] { return ask_capturing(on, raw); });
  if (!captured || captured.value()) return false;
  may_capture_ = false;
  return api->cuStreamQuery(raw) == abi::result::success;
}

// The mark costs an event until it was passed, so it is set only where somebody looks at it.
bool stream::leave() noexcept {
  if (of == owner::us) return true;
  const bool is_used = small_staging_ != nullptr || large_staging_ != nullptr || !turns_.are_done();
  if (is_used || tail_.use_count() > 1) tail_->close();
  return is_used;
}

void stream::close() noexcept {
  if (of == owner::us) {
    tail_->close_idle();
    on.api()->cuStreamDestroy(raw);
  }
  for (void*& buffer : {std::ref(small_staging_), std::ref(large_staging_)}) {
    if (buffer != nullptr) on.machine().host->pinned().give(std::exchange(buffer, nullptr));
  }
}

// A stream reaches memory of its own device only, unless peers were let in.
template <class Body>
status stream::elsewhere(int home, Body&& body) {
  auto there = device_of(on.machine(), home, on.who());
  if (!there) return there.take_status();
  auto before = record();
  if (!before) return before.take_status();
  auto helper = there.value()->take_stream();
  if (!helper) return helper.take_status();
  status now = helper.value()->wait(before.value());
  if (now) {
    now = body(*helper.value());
    status joined = join(*this, *helper.value(), before.value().captured);
    if (now) now = std::move(joined);
  }
  there.value()->give_back(std::move(helper.value()));
  return now;
}

status stream::copy(const copy_request& request) {
  const int to = static_cast<int>(request.to_home);
  const int from = static_cast<int>(request.from_home);
  const int executing = to == on.index() || from < 0 ? to : from;
  if (executing >= 0 && executing != on.index()) {
    return elsewhere(executing, [&](stream& there) { return there.copy(request); });
  }
  const bool to_host = request.to_home == memory_home::host;
  const bool from_host = request.from_home == memory_home::host;
  if (!to_host && !from_host) return copy_by_driver(request);
  auto captured = is_capturing();
  if (!captured) return captured.take_status();
  // A graph copies pageable memory at its turn, too.
  if (captured.value()) return copy_by_driver(request);
  // The driver would move memory between host addresses inside of the call.
  if (to_host && from_host) {
    return for_each_part(joined(request), host_move_bytes,
                         [&](const copy_request& part) { return on_host(part); });
  }
  auto spans = check_copy(request, on.who());
  if (!spans) return spans.take_status();
  const byte_span& host_side = to_host ? spans.value().to : spans.value().from;
  const bool pinned = on.machine().host->is_pinned(host_side);
  return pinned ? copy_by_driver(request) : copy_staged(request);
}

status stream::fill(const fill_request& request) {
  if (request.home == memory_home::host) {
    auto captured = is_capturing();
    if (!captured) return captured.take_status();
    if (!captured.value()) return fill_on_host(request);
    const auto start = reinterpret_cast<std::uintptr_t>(request.to);
    if (!on.machine().host->is_pinned({start, start + request.bytes})) {
      return {errc::unsupported,
              base::cat(on.who(),
                        " cannot fill pageable memory under stream capture; page-lock "
                        "it or fill it outside of the capture")};
    }
    return fill_device(request);
  }
  const int home = static_cast<int>(request.home);
  if (home < 0 || home == on.index()) return fill_device(request);
  return elsewhere(home, [&](stream& there) { return there.fill_device(request); });
}

status stream::fill_on_host(const fill_request& request) {
  fill_request part = request;
  const std::size_t most = host_move_bytes / request.pattern_bytes * request.pattern_bytes;
  for (std::size_t done = 0; done < request.bytes; done += part.bytes) {
    part.to = static_cast<std::byte*>(request.to) + done;
    part.bytes = std::min(most, request.bytes - done);
    if (status failed = on_host(part); !failed) return failed;
  }
  return {};
}

status stream::on_host(const host_turns::work& what) {
  const context_guard in(on.api(), on.context());
  return on.check("queue a move of host memory", turns_.add(on.api(), raw, what));
}

status stream::copy_staged(const copy_request& request) {
  return for_each_part(joined(request), large_staging_bytes,
                       [&](const copy_request& part) { return stage_part(part); });
}

// The next part may use the same buffer: its turn comes after this one's.
status stream::stage_part(const copy_request& part) {
  auto buffer = staging(part.bytes());
  if (!buffer) return buffer.take_status();
  copy_request in = part;
  in.to = buffer.value();
  in.to_home = memory_home::host;
  in.to_strides = packed_strides(part);
  copy_request out = part;
  out.from = buffer.value();
  out.from_home = memory_home::host;
  out.from_strides = in.to_strides;
  if (part.from_home == memory_home::host) {
    status queued = on_host(in);
    return queued ? copy_by_driver(out) : std::move(queued);
  }
  status queued = copy_by_driver(in);
  return queued ? on_host(out) : std::move(queued);
}

result<void*> stream::staging(std::size_t bytes) {
  const bool small = bytes <= small_staging_bytes;
  void*& buffer = small ? small_staging_ : large_staging_;
  if (buffer == nullptr) {
    auto taken = on.machine().host->pinned().take(small ? small_staging_bytes : large_staging_bytes,
                                                  on.who());
    if (!taken) return taken.take_status();
    buffer = taken.value();
  }
  return buffer;
}

status stream::launch(const launch_request& request) {
  auto& what = static_cast<kernel&>(*request.what);
  if (status wrong = what.check(on, request); !wrong) return wrong;
  if (status wrong = check_launch_form(on.api(), on.who(), request); !wrong) return wrong;
  auto captured = is_capturing();
  if (!captured) return captured.take_status();
  what.note_launch(tail_, captured.value());
  const context_guard in(on.api(), on.context());
  const abi::result answer = launch_on(on.api(), raw, what.entry(), request);
  if (answer == abi::result::success) return {};
  const status failed = on.check(base::cat("launch kernel ", base::quoted(what.name())), answer);
  return {failed.code(), base::cat(failed.text(), passed_limit(on, what.entry(), request, answer))};
}

}  // namespace millstream::backend::cuda
