// SPDX-License-Identifier: Apache-2.0
/// What the tests of host functions beside a device are written with. On the look-alike driver a
/// second stream that waits for a host function stops the device, and that is a failure.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <millstream/hooks.hpp>

#include "core/machine.hpp"

#include "tests/unit/cuda/engine_test.hpp"

namespace millstream::test {

inline const exec_place device = exec_place::device(0);
inline constexpr std::size_t word = sizeof(std::uint32_t);

/// A word for each of many host functions, page-locked. Made and freed while nothing runs: freeing
/// waits for the whole device, and thereby for streams that wait for host functions.
class word_block {
 public:
  explicit word_block(std::size_t count) {
    const on_device_0 here;
    void* made = nullptr;
    must(cuda_driver().call.cuMemHostAlloc(&made, count * sizeof(std::uint32_t),
                                           abi::host_alloc_flags::portable));
    words_ = static_cast<std::uint32_t*>(made);
  }
  ~word_block() {
    const on_device_0 here;
    must(cuda_driver().call.cuMemFreeHost(words_));
  }
  word_block(const word_block&) = delete;
  word_block& operator=(const word_block&) = delete;
  [[nodiscard]] std::uint32_t* at(std::size_t index) const { return words_ + index; }

 private:
  std::uint32_t* words_ = nullptr;
};

/// A stream of the user's; what is in it has ended when this goes.
class own_stream {
 public:
  own_stream() {
    const on_device_0 here;
    must(cuda_driver().call.cuStreamCreate(&made_, abi::stream_flags::non_blocking));
  }
  ~own_stream() {
    synchronize();
    const on_device_0 here;
    must(cuda_driver().call.cuStreamDestroy(made_));
  }
  own_stream(const own_stream&) = delete;
  own_stream& operator=(const own_stream&) = delete;
  void synchronize() const {
    const on_device_0 here;
    must(cuda_driver().call.cuStreamSynchronize(made_));
  }
  [[nodiscard]] abi::stream raw() const { return made_; }
  [[nodiscard]] std::uint64_t number() const { return reinterpret_cast<std::uint64_t>(made_); }

 private:
  abi::stream made_ = nullptr;
};

/// A context on the CUDA machine, on the caller's stream if there is one.
[[nodiscard]] inline untyped_context open_cuda(const own_stream* on, bool recorded,
                                               int devices = 1) {
  context_options options;
  options.on = machine({.name = "cuda", .devices = devices, .seed = {}});
  if (on != nullptr) options.stream = on->number();
  options.use_graph = recorded;
  return untyped_context(std::move(options));
}

/// Keeps a device busy until it is set, at the latest by the destructor.
class busy_until_set {
 public:
  busy_until_set() { store(0); }
  ~busy_until_set() { set(); }
  busy_until_set(const busy_until_set&) = delete;
  busy_until_set& operator=(const busy_until_set&) = delete;
  void set() { store(1); }
  void wait_in(abi::stream on) const {
    const on_device_0 here;
    launch(device_0().kernel("test_spin_until_set"), on,
           reinterpret_cast<abi::device_pointer>(word_.at(0)));
  }
  /// A body for the device.
  [[nodiscard]] auto body() const {
    return [this](const body_call& call) { wait_in(static_cast<abi::stream>(call.stream)); };
  }

 private:
  void store(std::uint32_t value) { std::atomic_ref<std::uint32_t>(*word_.at(0)).store(value); }
  word_block word_{1};
};

/// Launches a kernel that writes there, on a stream of its own, and waits for it.
inline void run_a_kernel(std::uint32_t* to, std::uint32_t value) {
  const on_device_0 here;
  const fake_cuda_test::entry_points& call = cuda_driver().call;
  abi::stream own = nullptr;
  must(call.cuStreamCreate(&own, abi::stream_flags::non_blocking));
  launch(device_0().kernel("test_fill_u32"), own, reinterpret_cast<abi::device_pointer>(to), value,
         std::uint64_t{1});
  must(call.cuStreamSynchronize(own));
  must(call.cuStreamDestroy(own));
}

/// A body for a device: twice the word.
inline void doubled(const body_call& call) {
  const on_device_0 here;
  const auto at = reinterpret_cast<abi::device_pointer>(call.pointers[0]);
  launch(device_0().kernel("test_add_u32"), static_cast<abi::stream>(call.stream), at, at, at,
         std::uint64_t{1});
}

/// A body for a device: the first word is twice the second.
inline void doubled_into(const body_call& call) {
  const on_device_0 here;
  const auto from = reinterpret_cast<abi::device_pointer>(call.pointers[1]);
  launch(device_0().kernel("test_add_u32"), static_cast<abi::stream>(call.stream),
         reinterpret_cast<abi::device_pointer>(call.pointers[0]), from, from, std::uint64_t{1});
}

/// Streams that were told to wait for a host function while the log was on.
[[nodiscard]] inline std::size_t streams_told_to_wait() {
  std::set<std::uint64_t> streams;
  fake_cuda_call entry{};
  for (std::size_t i = 0; cuda_driver().control.log_entry(i, &entry) != 0; ++i) {
    if (std::string(entry.name) == "cuStreamWaitValue64") streams.insert(entry.argument[0]);
  }
  return streams.size();
}

/// Counts the calls that block, while one lives.
class block_count {
 public:
  block_count() {
    blocked() = 0;
    set_blocking_hooks({.enter = count, .leave = nullptr, .interrupted = nullptr});
  }
  ~block_count() { set_blocking_hooks({}); }
  block_count(const block_count&) = delete;
  block_count& operator=(const block_count&) = delete;
  /// Until that many have blocked, or `ended` is true.
  static void await(int calls, const std::atomic<bool>& ended) {
    while (blocked() < calls && !ended)
      std::this_thread::yield();
  }

 private:
  static std::atomic<int>& blocked() {
    static std::atomic<int> calls{0};
    return calls;
  }
  static void* count() noexcept {
    ++blocked();
    return nullptr;
  }
};

class EngineHost : public testing::Test {
 protected:
  void SetUp() override {
    static_cast<void>(device_0());
    if (!cuda_driver().is_fake) return;
    cuda_driver().control.park_limit(1);
    stalls_before_ = cuda_driver().control.stalls();
  }
  void TearDown() override {
    if (!cuda_driver().is_fake) return;
    EXPECT_EQ(cuda_driver().control.stalls(), stalls_before_);
    cuda_driver().control.park_limit(0);
  }

  /// A host function that waits for the gate, then writes `value`.
  void write_behind(const gate& hold, const untyped_data& to, std::uint32_t value) {
    write_behind(on_, hold, to, value);
  }
  static void write_behind(untyped_context& on, const gate& hold, const untyped_data& to,
                           std::uint32_t value) {
    run(
        on, exec_place::host(), {to.write()},
        [wait = hold.waiter(), value](const body_call& call) {
          wait();
          first<std::uint32_t>(call) = value;
        },
        {}, task_kind::host_launch);
  }
  /// A host function that waits for the gate and uses the memory on the device.
  static void use_behind(untyped_context& on, const gate& hold, const untyped_data& what) {
    run(
        on, exec_place::host(), {what.read(data_place::device(0))},
        [wait = hold.waiter()](const body_call&) { wait(); }, {}, task_kind::host_launch);
  }
  /// Work of a device that has nothing to do with host functions ends.
  static void expect_goes_on(untyped_context& on) {
    const untyped_data fresh = on.make_data(word);
    run(on, device, {fresh.write()}, fill_words(6));
    EXPECT_EQ(content<std::uint32_t>(on, fresh), 6U);
  }
  static void log_waits() {
    if (cuda_driver().is_fake) cuda_driver().control.log(1);
  }
  static void expect_no_waits() {
    if (!cuda_driver().is_fake) return;
    cuda_driver().control.log(0);
    EXPECT_EQ(streams_told_to_wait(), 0U);
  }
  void fail(const untyped_data& to) {
    run(
        on_, exec_place::host(), {to.write()},
        [](const body_call&) { throw std::runtime_error("boom"); }, "bad", task_kind::host_launch);
  }
  /// A device task that writes 7 to `to` after it has read `from`.
  void derive(const untyped_data& from, const untyped_data& to) {
    run(on_, device, {to.write(), from.read()}, fill_words(7), "derived");
  }
  [[nodiscard]] errc outcome_of(const untyped_data& of) {
    return thrown([&] { (void)content<std::uint32_t>(on_, of); });
  }

  untyped_context on_ = open("cuda", 1);
  std::uint64_t stalls_before_ = 0;
};

}  // namespace millstream::test
