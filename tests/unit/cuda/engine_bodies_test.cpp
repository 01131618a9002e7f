// SPDX-License-Identifier: Apache-2.0
/// Bodies of host functions that use their own context, and streams that are put in order with
/// them.
#include "tests/unit/cuda/engine_host.hpp"

namespace millstream::test {
namespace {

class EngineBodies : public EngineHost {
 protected:
  /// A host function submits work of the device that comes after another host function, behind the
  /// gate.
  void park_a_lane(const gate& hold, const untyped_data& x) {
    gate parked;
    run(
        on_, exec_place::host(), {},
        [&](const body_call&) {
          write_behind(on_, hold, x, 1);
          run(on_, device, {x.rw()}, doubled);
          parked.open();
        },
        {}, task_kind::host_launch);
    parked.hold();
  }
};

// What is open has not queued all it will.
TEST_F(EngineBodies, WorkOfABodyIsNotPutBeforeTheOpenTasksOfOthers) {
  gate hold;
  std::vector<untyped_data> all;
  std::vector<std::unique_ptr<untyped_task>> open_ones;
  for (int i = 0; i < 4; ++i) {  // in each lane
    all.push_back(on_.make_data(word));
    open_ones.push_back(std::make_unique<untyped_task>(on_));
    open_ones.back()->set_place(device);
    open_ones.back()->add_dep(all.back().write());
    open_ones.back()->start();
  }
  park_a_lane(hold, on_.make_data(word));
  for (const auto& each : open_ones) {
    const body_call call = each->call();
    fill_words(4)(call);
    const on_device_0 here;
    must(cuda_driver().call.cuStreamSynchronize(static_cast<abi::stream>(call.stream)));
    each->end();
  }
  hold.open();
  on_.finalize();
}

TEST_F(EngineBodies, LanesThatBodiesParkAreUsedAgain) {
  const auto park_once = [&] {
    gate hold;
    const untyped_data x = on_.make_data(word);
    park_a_lane(hold, x);
    hold.open();
    EXPECT_EQ(content<std::uint32_t>(on_, x), 2U);
  };
  for (int i = 0; i < 16; ++i)
    park_once();
  const std::uint64_t queues = on_.stats().queues;
  for (int i = 0; i < 32; ++i)
    park_once();
  EXPECT_EQ(on_.stats().queues, queues);
  on_.finalize();
}

// Its work has ended for the body and for who has the task open.
TEST_F(EngineBodies, AStreamIsNotPutBehindTheQueueOfAHostTask) {
  const own_stream stream;
  gate hold;
  const untyped_data y = on_.make_data(word);
  untyped_task task(on_);
  task.set_place(exec_place::host());
  task.add_dep(y.write(data_place::device(0)));
  task.start();
  std::vector<untyped_data> all;
  for (int i = 0; i < 16; ++i) {  // in each host lane
    all.push_back(on_.make_data(word));
    write_behind(on_, hold, all.back(), 1);
  }
  log_waits();
  on_.order(stream.number(), task.call().queue);
  expect_no_waits();
  task.end();
  hold.open();
  on_.finalize();
}

TEST_F(EngineBodies, AHostFunctionUsesMemoryOfADeviceInAStreamOfItsOwn) {
  const own_stream stream;
  const untyped_data y = on_.make_data(word);
  run(on_, device, {y.write()}, fill_words(3));
  run(
      on_, exec_place::host(), {y.rw(data_place::device(0))},
      [&](const body_call& call) {
        on_.order(stream.number(), call.queue);
        const on_device_0 here;
        const auto at = reinterpret_cast<abi::device_pointer>(call.pointers[0]);
        launch(device_0().kernel("test_add_u32"), stream.raw(), at, at, at, std::uint64_t{1});
        stream.synchronize();
      },
      {}, task_kind::host_launch);
  EXPECT_EQ(content<std::uint32_t>(on_, y), 6U);
  on_.finalize();
}

// A copy waits for that body.
TEST_F(EngineBodies, ABodyCallsFenceOnACallersStream) {
  const own_stream stream;
  gate begin;
  std::atomic<bool> ended{false};
  untyped_context on = open_cuda(&stream, /*recorded=*/false);
  const untyped_data x = on.make_data(word);
  const untyped_data y = on.make_data(word);
  run(on, device, {y.write()}, fill_words(3));
  run(
      on, exec_place::host(), {x.write()},
      [&, wait = begin.waiter()](const body_call& call) {
        wait();
        first<std::uint32_t>(call) = 1;
        EXPECT_EQ(on.fence(), stream.number());
        ended = true;
      },
      {}, task_kind::host_launch);
  run(on, exec_place::host(), {x.read(), y.read()}, nothing, {}, task_kind::host_launch);
  begin.open();
  while (!ended)
    std::this_thread::yield();
  on.finalize();
}

// Either of the two that wait for each other finds that.
TEST_F(EngineBodies, WorkThatIsHeldBackForTheCallersOwnOpenTaskIsADeadlock) {
  const untyped_data x = on_.make_data(word);
  const untyped_data z = on_.make_data(word);
  untyped_task mine(on_);
  mine.set_place(device);
  mine.add_dep(x.write());
  mine.start();
  errc inner = errc::ok;
  run(
      on_, exec_place::host(), {z.write()},
      [&](const body_call&) { inner = thrown([&] { run(on_, device, {x.rw()}, nothing); }); }, {},
      task_kind::host_launch);
  const errc outer = thrown([&] { run(on_, device, {z.rw()}, nothing); });
  mine.end();
  on_.finish();
  EXPECT_NE(inner == errc::deadlock, outer == errc::deadlock);
}

}  // namespace
}  // namespace millstream::test
