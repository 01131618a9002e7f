// SPDX-License-Identifier: Apache-2.0
/// No queue of a device waits for a host function that is not needed there, and what does need one
/// waits in the engine (docs/design/0003-cuda-in-core.md). Where that is broken the test stops for
/// good, or the look-alike driver counts it.
#include "tests/unit/cuda/engine_host.hpp"

namespace millstream::test {
namespace {

class EngineHeld : public EngineHost {};

// Neither the memory for a small copy to the host nor that of a device task is what a host function
// still uses that has nothing to do with them.
TEST_F(EngineHeld, MemoryThatAHostFunctionUsesIsNotTakenForOthers) {
  gate hold;
  const untyped_data x = on_.make_data(word);
  run(on_, device, {x.write()}, fill_words(4));
  write_behind(on_, hold, on_.make_data(word), 5);
  {
    const untyped_data dropped = on_.make_data(word);
    run(on_, device, {dropped.write()}, fill_words(5));
    use_behind(on_, hold, dropped);
  }
  log_waits();
  EXPECT_EQ(content<std::uint32_t>(on_, x), 4U);
  expect_goes_on(on_);
  EXPECT_EQ(on_.stats().reused_blocks, 1U);  // that of the first copy, for the second
  expect_no_waits();
  hold.open();
  on_.finalize();
}

TEST_F(EngineHeld, MemoryIsTakenInARecordingBesideAHostFunction) {
  gate hold;
  untyped_context recorded = open_cuda(nullptr, /*recorded=*/true);
  write_behind(recorded, hold, recorded.make_data(word), 1);
  {
    const untyped_data dropped = recorded.make_data(word);
    run(recorded, device, {dropped.write()}, fill_words(5));
  }
  expect_goes_on(recorded);
  hold.open();
  recorded.finalize();
}

// A part of it was allocated in a host queue, behind work of the device.
TEST_F(EngineHeld, MemoryOfAHostTaskWithoutRoomIsGivenBackInTheEngine) {
  MILLSTREAM_LOOK_ALIKE_ONLY();  // needs a small device
  busy_until_set busy;
  const untyped_data before = on_.make_data(word);
  run(on_, device, {before.write()}, busy.body());
  const untyped_data fits = on_.make_data(std::size_t{1} << 20U);
  const untyped_data too_large = on_.make_data(std::size_t{600} << 20U);
  const data_place there = data_place::device(0);
  const block_count counted;
  log_waits();
  std::atomic<bool> ended{false};
  std::thread without_room([&] {
    const auto submit = [&] {
      run(on_, exec_place::host(), {before.read(), fits.write(there), too_large.write(there)},
          nothing, {}, task_kind::host_launch);
    };
    EXPECT_EQ(thrown(submit), errc::out_of_memory);
    ended = true;
  });
  block_count::await(1, ended);
  busy.set();
  without_room.join();
  expect_no_waits();
  on_.finish();
}

// The thread of a host queue waits there for the device, whose streams might then wait for that
// thread.
TEST_F(EngineHeld, AFenceIsHeldBackWhileAnOpenTaskWaitsForADevice) {
  busy_until_set busy;
  const untyped_data y = on_.make_data(word);
  run(on_, device, {y.write()}, busy.body());
  const block_count counted;
  log_waits();
  std::atomic<bool> fenced{false};
  std::thread opening([&] {
    untyped_task task(on_);
    task.set_place(exec_place::host());
    task.add_dep(y.write());
    task.start();
    task.end();
  });
  block_count::await(1, fenced);
  std::thread fencing([&] {
    (void)on_.fence();
    fenced = true;
  });
  block_count::await(2, fenced);
  EXPECT_FALSE(fenced);
  busy.set();
  opening.join();
  fencing.join();
  expect_no_waits();
  on_.finalize();
}

TEST_F(EngineHeld, AQueueThatWaitsForAHostFunctionIsNotLeasedToOthers) {
  const own_stream stream;
  gate hold;
  untyped_context one = open_cuda(&stream, /*recorded=*/false);
  {
    const untyped_data used = one.make_data(word);
    run(one, device, {used.write()}, fill_words(5));
    use_behind(one, hold, used);
  }
  one.finish();
  expect_goes_on(on_);
  hold.open();
}

TEST_F(EngineHeld, AHostFunctionOpensAContextAfterItsOwnHasEnded) {
  const own_stream stream;
  gate hold;
  const auto work = [wait = hold.waiter()](const body_call&) {
    wait();
    untyped_context two = open_cuda(nullptr, /*recorded=*/false);
    expect_goes_on(two);
    const untyped_data there = two.make_data(word);
    run(
        two, exec_place::host(), {there.write()},
        [](const body_call& call) { first<std::uint32_t>(call) = 6; }, {}, task_kind::host_launch);
    EXPECT_EQ(content<std::uint32_t>(two, there), 6U);
    two.finalize();
  };
  {
    untyped_context one = open_cuda(&stream, /*recorded=*/false);
    const untyped_data used = one.make_data(word);
    run(one, device, {used.write()}, fill_words(5));
    run(one, exec_place::host(), {used.read(data_place::device(0))}, work, {},
        task_kind::host_launch);
    one.finish();
  }
  hold.open();
}

// Unlocking pages would wait for it.
TEST_F(EngineHeld, ACallersStreamIsCountedWhileItWaitsForAHostFunction) {
  const own_stream stream;
  gate hold;
  const std::shared_ptr<core::machine> where = on_.where().state();
  {
    untyped_context one = open_cuda(&stream, /*recorded=*/false);
    write_behind(one, hold, one.make_data(word), 1);
    one.finish();
  }
  EXPECT_TRUE(where->has_parked_queues());
  hold.open();
  stream.synchronize();
  while (where->has_parked_queues())
    std::this_thread::yield();  // the thread of a host queue notices
}

TEST_F(EngineHeld, QueuesOfBodiesDoNotWaitForHostFunctions) {
  for (const bool recorded : {false, true}) {
    const word_block words(1);
    const own_stream stream;
    gate hold;
    untyped_context one = open_cuda(&stream, recorded);
    const untyped_data x = one.make_data(word);
    const untyped_data y = one.make_data(word);
    run(one, device, {x.write()}, fill_words(5));
    run(
        one, exec_place::host(), {y.write()},
        [at = words.at(0), wait = hold.waiter()](const body_call&) {
          wait();
          run_a_kernel(at, 7);
        },
        {}, task_kind::host_launch);
    one.finish();
    hold.open();
    stream.synchronize();
    EXPECT_EQ(*words.at(0), 7U);
  }
}

TEST_F(EngineHeld, AStageIsHeldBackWhereItsQueueWaitsForAHostFunction) {
  MILLSTREAM_LOOK_ALIKE_ONLY();  // counts calls
  const own_stream stream;
  gate hold;
  untyped_context on = open_cuda(&stream, /*recorded=*/true);
  const untyped_data x = on.make_data(word);
  const untyped_data y = on.make_data(word);
  write_behind(on, hold, x, 1);
  (void)on.fence();
  run(on, device, {y.write()}, fill_words(6));
  const std::uint64_t launches = cuda_driver().control.count("cuGraphLaunch");
  const block_count counted;
  std::atomic<bool> ended{false};
  std::thread reading([&] {
    EXPECT_EQ(content<std::uint32_t>(on, y), 6U);
    ended = true;
  });
  block_count::await(1, ended);
  EXPECT_EQ(cuda_driver().control.count("cuGraphLaunch"), launches);
  hold.open();
  reading.join();
  on.finalize();
}

TEST_F(EngineHeld, ADeviceThatIsUsedLateComesAfterTheStreamAsItWasFound) {
  int devices = 0;
  must(cuda_driver().call.cuDeviceGetCount(&devices));
  if (devices < 2) GTEST_SKIP() << "needs two devices";
  std::vector<std::vector<std::uint32_t>> buffers(8, {1});
  const own_stream stream;
  gate hold;
  untyped_context on = open_cuda(&stream, /*recorded=*/false, 2);
  std::vector<untyped_data> all;
  for (std::vector<std::uint32_t>& each : buffers)
    all.push_back(registered(on, each));
  for (const untyped_data& each : all)
    run(on, device, {each.write()}, fill_words(3));
  write_behind(on, hold, on.make_data(word), 1);
  (void)on.fence();
  all.clear();  // the stream's mark is set behind the host function
  const untyped_data late = on.make_data(word);
  const std::vector<std::byte> pattern(word, std::byte{7});
  on.fill(late.write(), pattern, exec_place::device(1));
  EXPECT_EQ(content<std::uint32_t>(on, late), 0x07070707U);
  hold.open();
  on.finalize();
}

TEST_F(EngineHeld, ABufferWhoseProducerIsTheCallersStreamHoldsNoOtherTaskUp) {
  std::uint32_t buffer = 1;
  const own_stream stream;
  gate hold;
  untyped_context on = open_cuda(&stream, /*recorded=*/false);
  write_behind(on, hold, on.make_data(word), 1);
  (void)on.fence();
  registration what;
  what.block = &buffer;
  what.bytes = word;
  what.producer = stream.number();
  const untyped_data produced = on.register_data(what);
  for (int i = 0; i < 6; ++i)  // in each lane
    expect_goes_on(on);
  hold.open();
  on.finalize();
}

// The job that was to note it is refused.
TEST_F(EngineHeld, AnEndThatCouldNotBeNotedIsFound) {
  const untyped_data x = on_.make_data(word);
  backend::fault_plan plan;
  plan.kind = backend::call::run;
  plan.nth = 1;
  const std::shared_ptr<core::machine> where = on_.where().state();
  where->driver().set_fault_plan(plan);
  const std::vector<std::byte> pattern(word, std::byte{7});
  on_.fill(x.write(), pattern, exec_place::host());
  where->driver().set_fault_plan({});
  run(on_, device, {x.rw()}, doubled);
  EXPECT_EQ(content<std::uint32_t>(on_, x), 0x0e0e0e0eU);
  on_.finalize();
}

}  // namespace
}  // namespace millstream::test
