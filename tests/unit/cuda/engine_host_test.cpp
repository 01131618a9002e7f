// SPDX-License-Identifier: Apache-2.0
/// Host functions beside a device: they use it themselves, devices wait for them, and their
/// failures become known late. Every test holds on a real driver, too.

#include "tests/unit/cuda/engine_host.hpp"

namespace millstream::test {
namespace {

std::atomic<gate*> g_blocks{nullptr};

void* open_blocks() noexcept {
  if (gate* const waited_for = g_blocks.exchange(nullptr)) waited_for->open();
  return nullptr;
}

/// Brings the value to the device and back, on a stream of its own.
std::uint32_t copy_there_and_back(std::uint32_t* word, std::uint32_t value) {
  const on_device_0 here;
  const fake_cuda_test::entry_points& call = cuda_driver().call;
  abi::stream own = nullptr;
  abi::device_pointer there = 0;
  must(call.cuStreamCreate(&own, abi::stream_flags::non_blocking));
  must(call.cuMemAlloc(&there, sizeof value));
  *word = value;
  must(call.cuMemcpyHtoDAsync(there, word, sizeof value, own));
  must(call.cuStreamSynchronize(own));
  *word = ~value;
  must(call.cuMemcpyDtoHAsync(word, there, sizeof value, own));
  must(call.cuStreamSynchronize(own));
  must(call.cuMemFree(there));
  must(call.cuStreamDestroy(own));
  return *word;
}

void load_and_unload() {
  const on_device_0 here;
  abi::module loaded = nullptr;
  must(cuda_driver().call.cuModuleLoadData(&loaded, fake_cuda_test::kernel_text().c_str()));
  must(cuda_driver().call.cuModuleUnload(loaded));
}

TEST_F(EngineHost, FortyHostFunctionsEachRunAndAwaitAKernel) {
  const word_block words(40);
  std::vector<untyped_data> all;
  for (std::uint32_t i = 0; i < 40; ++i) {
    all.push_back(on_.make_data(sizeof(std::uint32_t)));
    run(
        on_, exec_place::host(), {all.back().write()},
        [i, word = words.at(i)](const body_call& call) {
          run_a_kernel(word, i + 1);
          first<std::uint32_t>(call) = *word;
        },
        {}, task_kind::host_launch);
  }
  // A device waits for each of them.
  for (const untyped_data& each : all)
    run(on_, device, {each.rw()}, nothing);
  for (std::uint32_t i = 0; i < 40; ++i)
    EXPECT_EQ(content<std::uint32_t>(on_, all[i]), i + 1);
  on_.finalize();
}

TEST_F(EngineHost, ADeviceTaskWaitsInTheEngineForItsHostFunctionAndOthersGoOn) {
  gate hold;
  const untyped_data x = on_.make_data(sizeof(std::uint32_t));
  const untyped_data other = on_.make_data(sizeof(std::uint32_t));
  if (cuda_driver().is_fake) cuda_driver().control.log(1);
  write_behind(hold, x, 5);
  std::atomic<bool> submitted{false};
  std::thread waiting([&] {
    run(on_, device, {x.rw()}, doubled);
    submitted = true;
  });
  for (std::uint32_t i = 0; i < 40; ++i)
    run(on_, device, {other.write()}, fill_words(i));
  EXPECT_EQ(content<std::uint32_t>(on_, other), 39U);
  EXPECT_FALSE(submitted);
  hold.open();
  waiting.join();
  EXPECT_EQ(content<std::uint32_t>(on_, x), 10U);
  if (cuda_driver().is_fake) {
    cuda_driver().control.log(0);
    EXPECT_EQ(streams_told_to_wait(), 0U);
  }
  on_.finalize();
}

// A copy that waits in a stream stops those of other streams, and a module that is loaded meanwhile
// stops every call: functions that use the device would wait for themselves.
TEST_F(EngineHost, AHostFunctionMayCopyAndLoadModulesWhileADeviceTaskNeedsItsResult) {
  const word_block words(8);
  std::vector<untyped_data> all;
  for (std::uint32_t i = 0; i < 8; ++i) {
    all.push_back(on_.make_data(sizeof(std::uint32_t)));
    run(
        on_, exec_place::host(), {all.back().write()},
        [i, word = words.at(i)](const body_call& call) {
          load_and_unload();
          first<std::uint32_t>(call) = copy_there_and_back(word, i);
        },
        {}, task_kind::host_launch);
    run(on_, device, {all.back().rw()}, doubled);
  }
  for (std::uint32_t i = 0; i < 8; ++i)
    EXPECT_EQ(content<std::uint32_t>(on_, all[i]), 2 * i);
  on_.finalize();
}

TEST_F(EngineHost, AnOpenTaskStartsWhenItsHostFunctionHasEnded) {
  gate hold;
  const untyped_data token = on_.make_token();
  std::atomic<bool> ended{false};
  run(
      on_, exec_place::host(), {token.write()},
      [wait = hold.waiter(), &ended](const body_call&) {
        wait();
        ended = true;
      },
      {}, task_kind::host_launch);
  std::thread opener([&] { hold.open(); });
  untyped_task task(on_);
  task.set_place(device);
  task.add_dep(token.rw());
  task.start();
  EXPECT_TRUE(ended);
  task.end();
  opener.join();
  on_.finalize();
}

// Its turn comes after the body that submits, which therefore must not wait.
TEST_F(EngineHost, ABodySubmitsForADeviceWhatComesAfterALaterHostFunction) {
  const untyped_data x = on_.make_data(sizeof(std::uint32_t));
  gate begin;
  run(
      on_, exec_place::host(), {},
      [&, wait = begin.waiter()](const body_call&) {
        wait();
        run(on_, device, {x.rw()}, doubled);
      },
      {}, task_kind::host_launch);
  run(
      on_, exec_place::host(), {x.write()},
      [](const body_call& call) { first<std::uint32_t>(call) = 3; }, {}, task_kind::host_launch);
  begin.open();
  on_.finish();
  EXPECT_TRUE(on_.take_failures().empty());
}

// The body has its task open until finish blocks.
TEST_F(EngineHost, FinishWaitsForTheTaskThatABodyHasOpen) {
  gate opened;
  gate blocks;
  const untyped_data x = on_.make_data(sizeof(std::uint32_t));
  run(
      on_, exec_place::host(), {},
      [&, wait = blocks.waiter()](const body_call&) {
        untyped_task task(on_, {});
        task.add_dep(x.write());
        task.set_place(device);
        task.start();
        opened.open();
        wait();
        task.end();
      },
      {}, task_kind::host_launch);
  opened.hold();
  g_blocks = &blocks;
  set_blocking_hooks({.enter = open_blocks, .leave = nullptr, .interrupted = nullptr});
  EXPECT_EQ(thrown([this] { on_.finish(); }), errc::ok);
  set_blocking_hooks({});
}

TEST_F(EngineHost, AFailurePoisonsWhatADeviceDerivedFromIt) {
  const untyped_data x = on_.make_data(sizeof(std::uint32_t), "x");
  const untyped_data y = on_.make_data(sizeof(std::uint32_t), "y");
  const untyped_data z = on_.make_data(sizeof(std::uint32_t), "z");
  bool ran = false;
  fail(x);
  derive(x, y);
  derive(y, z);
  run(
      on_, exec_place::host(), {z.read()}, [&ran](const body_call&) { ran = true; }, {},
      task_kind::host_launch);
  EXPECT_EQ(outcome_of(z), errc::poisoned);
  EXPECT_EQ(outcome_of(y), errc::poisoned);
  on_.finish();
  EXPECT_FALSE(ran);
  EXPECT_EQ(on_.take_failures().size(), 1U);
}

TEST_F(EngineHost, AFailureIsHealedByAWriteThatCameBefore) {
  const untyped_data x = on_.make_data(sizeof(std::uint32_t), "x");
  const untyped_data y = on_.make_data(sizeof(std::uint32_t), "y");
  fail(x);
  derive(x, y);
  run(on_, device, {y.write()}, fill_words(9));
  EXPECT_EQ(content<std::uint32_t>(on_, y), 9U);
  EXPECT_EQ(outcome_of(x), errc::poisoned);
  on_.finish();
}

TEST_F(EngineHost, AFailureFindsDataThatWereDropped) {
  const untyped_data x = on_.make_data(sizeof(std::uint32_t), "x");
  const untyped_data z = on_.make_data(sizeof(std::uint32_t), "z");
  {
    fail(x);
    const untyped_data y = on_.make_data(sizeof(std::uint32_t), "y");
    derive(x, y);
    derive(y, z);
  }
  EXPECT_EQ(outcome_of(z), errc::poisoned);
  on_.finish();
}

TEST_F(EngineHost, APoisonedBufferIsNotWrittenBackAtTheEnd) {
  std::vector<std::uint32_t> buffer{3};
  {
    const untyped_data x = on_.make_data(sizeof(std::uint32_t), "x");
    const untyped_data y = registered(on_, buffer, "y");
    fail(x);
    derive(x, y);
    on_.finish();
  }
  EXPECT_EQ(buffer[0], 3U);
}

TEST_F(EngineHost, ATaskOnAHostPlaceHasNoStream) {
  const untyped_data x = on_.make_data(sizeof(std::uint32_t), "x");
  untyped_task task(on_);
  task.set_place(exec_place::host());
  task.add_dep(x.write());
  task.start();
  EXPECT_EQ(task.call().stream, nullptr);
  EXPECT_NE(task.call().queue, 0U);
  first<std::uint32_t>(task.call()) = 4;
  task.end();
  run(on_, device, {x.rw()}, nothing);
  EXPECT_EQ(content<std::uint32_t>(on_, x), 4U);
  on_.finalize();
}

TEST_F(EngineHost, AnOpenTaskWhoseInputFailedDoesNotStart) {
  const untyped_data x = on_.make_data(sizeof(std::uint32_t), "x");
  const untyped_data y = on_.make_data(sizeof(std::uint32_t), "y");
  fail(x);
  untyped_task task(on_);
  task.set_place(device);
  task.add_dep(x.read());
  task.add_dep(y.write());
  EXPECT_EQ(thrown([&] { task.start(); }), errc::poisoned);
  EXPECT_EQ(outcome_of(y), errc::poisoned);
  on_.finish();
}

TEST(EnginePlaces, AKernelFollowsAnAddressOnAnotherDevice) {
  int devices = 0;
  static_cast<void>(device_0());
  must(cuda_driver().call.cuDeviceGetCount(&devices));
  if (devices < 2) GTEST_SKIP() << "needs two devices";
  untyped_context on = open("cuda", 2);
  const untyped_data x = on.make_data(sizeof(std::uint32_t), "x");
  run(on, device, {x.write(data_place::device(1))}, fill_words(6));
  EXPECT_EQ(content<std::uint32_t>(on, x), 6U);
  on.finalize();
}

}  // namespace
}  // namespace millstream::test
