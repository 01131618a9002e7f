// SPDX-License-Identifier: Apache-2.0
/// What tests of the engine on the CUDA machine count to see that nothing is left behind.
#pragma once

#include <chrono>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/context.hpp"
#include "tests/unit/cuda/engine_test.hpp"

namespace millstream::test {

inline const exec_place device = exec_place::device(0);

/// Everything the driver and the system count, but events: how many of those are pooled depends on
/// how many were in use at once.
[[nodiscard]] inline std::map<std::string, std::int64_t> what_is_alive() {
  std::map<std::string, std::int64_t> all;
  const auto& control = cuda_driver().control;
  for (const char* kind :
       {"context", "stream", "device_memory", "host_memory", "managed_memory", "registration",
        "pool", "range", "physical", "module", "graph", "executable_graph"}) {
    all[kind] = control.live(kind);
  }
  all["bytes"] = static_cast<std::int64_t>(control.used_bytes(0));
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  all["descriptors"] = std::distance(begin(descriptors), end(descriptors));
  return all;
}

/// What tests before have queued has ended.
inline void wait_for_the_device() {
  const on_device_0 here;
  must(cuda_driver().call.cuCtxSynchronize());
}

/// What is to be alive in the end of all that is made from here on, which only makes queues and
/// pools grow: nothing else than `before` that.
[[nodiscard]] inline std::map<std::string, std::int64_t> wanted_after(
    const std::map<std::string, std::int64_t>& before) {
  auto all = what_is_alive();
  for (const char* kind : {"device_memory", "graph", "executable_graph", "bytes"})
    all[kind] = before.at(kind);
  return all;
}
/// Until it is so: a thread of the library's may be the last to let go.
template <class Done>
void await(const Done& done) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!done() && std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
}

inline constexpr std::int64_t most_events = 64;

[[nodiscard]] inline std::int64_t events_alive() {
  return cuda_driver().control.live("event");
}

/// What the last operation that failed did wrong; empty if none did.
[[nodiscard]] inline std::string last_fault() {
  char text[256] = "";
  cuda_driver().control.last_fault(text, sizeof text);
  return text;
}

/// A stream of the caller's on device 0.
class own_stream {
 public:
  own_stream() {
    const on_device_0 here;
    must(cuda_driver().call.cuStreamCreate(&raw_, abi::stream_flags::non_blocking));
  }
  ~own_stream() {
    const on_device_0 here;
    must(cuda_driver().call.cuStreamSynchronize(raw_));
    must(cuda_driver().call.cuStreamDestroy(raw_));
  }
  own_stream(const own_stream&) = delete;
  own_stream& operator=(const own_stream&) = delete;
  void synchronize() const {
    const on_device_0 here;
    must(cuda_driver().call.cuStreamSynchronize(raw_));
  }
  [[nodiscard]] abi::stream raw() const { return raw_; }
  [[nodiscard]] std::uint64_t number() const { return reinterpret_cast<std::uint64_t>(raw_); }

 private:
  abi::stream raw_ = nullptr;
};

/// How a context is opened.
struct way_to_open {
  bool use_graph = false;
  const own_stream* on = nullptr;
};
[[nodiscard]] inline untyped_context open(const way_to_open& how) {
  context_options options;
  options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
  options.use_graph = how.use_graph;
  if (how.on != nullptr) options.stream = how.on->number();
  options.resources.emplace();
  return untyped_context(std::move(options));
}

/// What a context opened like that gives up last of all.
[[nodiscard]] inline std::weak_ptr<void> last_of(const untyped_context& on) {
  return on.state()->options().resources->state();
}
/// Everything that a context had is gone soon after its last handle; not, if it holds itself.
inline void await_end(const std::weak_ptr<void>& of) {
  await([&] { return of.expired(); });
  EXPECT_TRUE(of.expired());
}

/// A context that does a little of everything; `failing`: with a task that fails.
inline void one_context(bool failing, const way_to_open& how = {}) {
  std::vector<std::uint32_t> buffer(16, 1);
  std::weak_ptr<void> last;
  {
    untyped_context on = open(how);
    last = last_of(on);
    untyped_data x = registered(on, buffer);
    untyped_data y = on.make_data(64);
    run(on, device, {y.write()}, fill_words(2, 16));
    run(on, device, {x.rw(), y.read()}, fill_words(3, 16));
    run(on, device, {x.rw()}, nothing);
    run(on, exec_place::host(), {y.rw()}, [](const body_call&) {}, {}, task_kind::host_launch);
    if (failing) {
      run(on, device, {y.rw()}, [](const body_call&) { throw std::runtime_error("boom"); });
    } else {
      EXPECT_EQ(content<std::uint32_t>(on, y), 2U);
    }
    x = {};
    y = {};
    on.finish();
  }
  if (how.on != nullptr) how.on->synchronize();
  await_end(last);
  EXPECT_EQ(buffer[15], 3U);
}

/// Leaves as many streams in the pool as a context ever uses: how many a task finds idle depends on
/// what has ended by then.
inline void use_all_streams() {
  untyped_context on = open("cuda", 1);
  for (int i = 0; i < 16; ++i) {
    const untyped_data y = on.make_data(64);
    run(on, device, {y.write()}, fill_words(2, 16));
  }
  on.finish();
}

}  // namespace millstream::test
