// SPDX-License-Identifier: Apache-2.0
/// Calls that end while another thread finishes the context, and what is left of calls that failed.
#include <functional>

#include "tests/unit/cuda/engine_host.hpp"

namespace millstream::test {
namespace {

class EngineFinish : public EngineHost {};

/// Holds one thread when it is about to return from its n-th blocking section.
class held_thread {
 public:
  explicit held_thread(int section) {
    sections_left = section;
    has_entered = is_held = is_released = false;
    set_blocking_hooks({.enter = enter, .leave = leave, .interrupted = nullptr});
  }
  ~held_thread() {
    release();
    set_blocking_hooks({});
  }
  held_thread(const held_thread&) = delete;
  held_thread& operator=(const held_thread&) = delete;
  /// Called by the thread that is meant.
  static void adopt() { who = std::this_thread::get_id(); }
  static void await_entered() { await(has_entered); }
  static void await_held() { await(is_held); }
  static void release() { is_released = true; }

 private:
  static void await(const std::atomic<bool>& that) {
    while (!that)
      std::this_thread::yield();
  }
  static bool is_meant() noexcept { return std::this_thread::get_id() == who.load(); }
  static void* enter() noexcept {
    if (is_meant()) has_entered = true;
    return nullptr;
  }
  static void leave(void*) noexcept {
    if (!is_meant() || --sections_left > 0) return;
    is_held = true;
    await(is_released);
  }
  static inline std::atomic<std::thread::id> who;
  static inline std::atomic<int> sections_left;
  static inline std::atomic<bool> has_entered;
  static inline std::atomic<bool> is_held;
  static inline std::atomic<bool> is_released;
};

std::atomic<bool> g_is_interrupted{false};

TEST_F(EngineFinish, AFenceThatWasHeldBackFindsTheContextFinished) {
  gate hold;
  write_behind(on_, hold, on_.make_data(word), 1);
  const held_thread held(1);
  std::thread fencing([&] {
    held_thread::adopt();
    EXPECT_EQ(thrown([&] { (void)on_.fence(); }), errc::usage);
  });
  held_thread::await_entered();
  hold.open();
  held_thread::await_held();
  on_.finish();
  held_thread::release();
  fencing.join();
}

TEST_F(EngineFinish, ABlockOfACopyThatIsWaitedForComesBackToAFinishedContext) {
  for (int i = 0; i < 8; ++i)  // all host lanes
    run(on_, exec_place::host(), {}, nothing, {}, task_kind::host_launch);
  const untyped_data x = on_.make_data(word);
  busy_until_set busy;
  run(on_, device, {x.write()}, [&](const body_call& call) {
    busy.body()(call);
    fill_words(3)(call);
  });
  const held_thread held(2);  // the first one is for the content, the second for the copy
  std::thread reading([&] {
    held_thread::adopt();
    EXPECT_EQ(content<std::uint32_t>(on_, x), 3U);
  });
  held_thread::await_entered();
  busy.set();
  held_thread::await_held();
  on_.finish();
  held_thread::release();
  reading.join();
}

TEST_F(EngineFinish, AnInterruptedFinishOnACallersStreamCanBeRepeated) {
  std::vector<std::uint32_t> buffer{1};
  busy_until_set busy;
  const own_stream stream;
  gate hold;
  set_blocking_hooks({.enter = nullptr, .leave = nullptr, .interrupted = []() noexcept {
                        return g_is_interrupted.load();
                      }});
  {
    untyped_context on = open_cuda(&stream, /*recorded=*/false);
    const untyped_data x = on.make_data(word);
    const untyped_data y = on.make_data(word);
    const untyped_data back = registered(on, buffer);
    run(on, device, {y.write()}, fill_words(3));
    run(on, device, {back.write()}, [&](const body_call& call) {
      busy.body()(call);
      fill_words(77)(call);
    });
    write_behind(on, hold, x, 1);
    run(on, exec_place::host(), {x.read(), y.read()}, nothing, {}, task_kind::host_launch);
    g_is_interrupted = true;
    EXPECT_EQ(thrown([&] { on.finish(); }), errc::interrupted);
    g_is_interrupted = false;
    EXPECT_FALSE(on.is_finished());
    hold.open();
    EXPECT_EQ(thrown([&] { on.finish(); }), errc::ok);
    EXPECT_TRUE(on.is_finished());
  }
  set_blocking_hooks({});
  busy.set();
  stream.synchronize();
  EXPECT_EQ(buffer[0], 77U);
}

/// What `read` finds in a buffer that the caller's stream is still to write.
void expect_comes_after_the_stream(
    const std::function<std::uint32_t(untyped_context&, const untyped_data&)>& read) {
  const word_block words(1);
  *words.at(0) = 0;
  busy_until_set busy;
  const own_stream stream;
  busy.wait_in(stream.raw());
  {
    const on_device_0 here;
    launch(device_0().kernel("test_write_word"), stream.raw(),
           reinterpret_cast<abi::device_pointer>(words.at(0)), std::uint32_t{9});
  }
  untyped_context on = open_cuda(&stream, /*recorded=*/false);
  registration what;
  what.block = words.at(0);
  what.bytes = word;
  const untyped_data given = on.register_data(what);
  const block_count counted;
  std::atomic<bool> ended{false};
  std::thread reading([&] {
    EXPECT_EQ(read(on, given), 9U);
    ended = true;
  });
  block_count::await(1, ended);
  busy.set();
  reading.join();
  on.finish();
}

TEST_F(EngineFinish, WhatTheHostReadsComesAfterWhatWasInTheCallersStream) {
  expect_comes_after_the_stream([](untyped_context& on, const untyped_data& given) {
    untyped_task task(on);
    task.set_place(exec_place::host());
    task.add_dep(given.read());
    task.start();
    const std::uint32_t seen = first<std::uint32_t>(task.call());
    task.end();
    return seen;
  });
  expect_comes_after_the_stream([](untyped_context& on, const untyped_data& given) {
    return content<std::uint32_t>(on, given);
  });
}

TEST_F(EngineFinish, ACopyThatFailedIsMadeAgain) {
  MILLSTREAM_LOOK_ALIKE_ONLY();  // fails calls
  std::vector<std::uint32_t> first_buffer{21};
  std::vector<std::uint32_t> second_buffer{1};
  const untyped_data x = registered(on_, first_buffer);
  const untyped_data y = registered(on_, second_buffer);
  const untyped_data z = on_.make_data(word);
  cuda_driver().control.fail("cuMemcpyHtoDAsync", 2, 1, 0);
  EXPECT_EQ(thrown([&] { run(on_, device, {x.read(), y.read()}, nothing); }), errc::device);
  const untyped_data others[] = {on_.make_data(word), on_.make_data(word)};
  for (const untyped_data& each : others)  // get the memory
    run(on_, device, {each.write()}, fill_words(99));
  run(on_, device, {z.write(), x.read()}, doubled_into);
  EXPECT_EQ(content<std::uint32_t>(on_, z), 42U);
  on_.finish();
}

TEST_F(EngineFinish, ACopyOfAStageThatIsLostIsMadeAgain) {
  MILLSTREAM_LOOK_ALIKE_ONLY();  // fails calls
  const auto spoil_by_driver = [](untyped_context& on, const untyped_data& to,
                                  const untyped_data& x) {
    run(on, device, {to.write(), x.read()}, doubled_into);
    cuda_driver().control.fail("cuGraphInstantiateWithParams", 1, 2, 0);
    (void)on.fence();
    cuda_driver().control.fail(nullptr, 0, 0, 0);
  };
  const auto spoil_by_body = [](untyped_context& on, const untyped_data& to,
                                const untyped_data& x) {
    const auto submit = [&] {
      run(on, device, {to.write(), x.read()}, [](const body_call& call) {
        doubled_into(call);
        const on_device_0 here;
        (void)cuda_driver().call.cuCtxSynchronize();
      });
    };
    (void)thrown(submit);
    (void)on.fence();
  };
  const auto check = [](const auto& spoil) {
    untyped_context on = open_cuda(nullptr, /*recorded=*/true);
    std::vector<std::uint32_t> buffer{21};
    const untyped_data x = registered(on, buffer);
    const untyped_data lost = on.make_data(word);
    const untyped_data z = on.make_data(word);
    spoil(on, lost, x);
    EXPECT_EQ(on.take_failures().size(), 1U);
    run(on, device, {z.write(), x.read()}, doubled_into);
    EXPECT_EQ(content<std::uint32_t>(on, z), 42U);
    on.finish();
  };
  check(spoil_by_driver);
  check(spoil_by_body);
}

}  // namespace
}  // namespace millstream::test
