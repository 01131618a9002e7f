// SPDX-License-Identifier: Apache-2.0
/// Errors of the driver: which are for good, and that none spoils anything else.
#include "tests/unit/cuda/machine_test.hpp"

namespace cuda_test {
namespace {

class Failure : public MachineTest {
 protected:
  void fail_next(const char* name, abi::result with, bool sticky = false) {
    control.fail(name, 1, static_cast<int>(with), sticky ? 1 : 0);
  }
};

TEST_F(Failure, AnOrdinaryErrorIsToldAndForgotten) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr queue = make_queue();
  void* block = value(device().allocate(64, *queue));
  fail_next("cuEventRecord", abi::result::not_permitted);
  const event_ptr event = value(device().make_event());
  const backend::status answer = queue->record(*event);
  EXPECT_EQ(answer.code(), errc::device);
  EXPECT_NE(answer.text().find("'cuda:0' failed to mark the tail"), std::string::npos);
  EXPECT_NE(answer.text().find("CUDA_ERROR_NOT_PERMITTED"), std::string::npos);
  fill(*queue, block, 64, 1);
  EXPECT_EQ(read(*queue, block, 64), bytes(64, std::byte{1}));
  ok(device().release(block, 64, *queue));
}

TEST_F(Failure, AStickyErrorIsToldByEveryLaterCallOfTheDevice) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  expects_leaks = true;
  queue_ptr queue = make_queue();
  event_ptr event = mark(*queue);
  fail_next("cuEventQuery", abi::result::illegal_address, true);
  EXPECT_EQ(event->is_done().why().code(), errc::device_lost);
  control.clear_counts();
  for (const backend::status& answer :
       {queue->record(*event), device().make_queue().take_status(),
        device().allocate(64, *queue).take_status(), event->wait_for(long_time).take_status()}) {
    EXPECT_EQ(answer.code(), errc::device_lost);
    EXPECT_NE(answer.text().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << answer.text();
  }
  EXPECT_EQ(control.count("cuEventRecord"), 0U);
  const queue_ptr other = make_queue(1);
  finish(*other);  // the other device goes on
}

TEST_F(Failure, MemoryThatTheDriverDoesNotKnowIsHostMemoryAndAnyOtherAnswerAnError) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr queue = make_queue();
  void* const block = value(device().allocate(64, *queue));
  int mine = 0;
  EXPECT_EQ(value(machine().home_of(&mine)), static_cast<int>(memory_home::host));
  fail_next("cuPointerGetAttributes", abi::result::invalid_value);
  EXPECT_EQ(value(machine().home_of(&mine)), static_cast<int>(memory_home::host));
  fail_next("cuPointerGetAttributes", abi::result::unknown);
  const backend::status answer = machine().home_of(block).take_status();
  EXPECT_EQ(answer.code(), errc::device);
  EXPECT_NE(answer.text().find("failed to tell where memory is"), std::string::npos);
  EXPECT_EQ(value(machine().home_of(block)), 0);
  ok(device().release(block, 64, *queue));
}

TEST_F(Failure, OutOfMemoryOfTheDriverIsNotSticky) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr queue = make_queue();
  control.fail("cuMemAllocFromPoolAsync", 1, static_cast<int>(abi::result::out_of_memory), 0);
  // Tried again after the pool was trimmed.
  void* block = value(device().allocate(64, *queue));
  ok(device().release(block, 64, *queue));
  control.fail("cuMemAllocFromPoolAsync", 1, static_cast<int>(abi::result::out_of_memory), 0);
  control.fail("cuMemAllocFromPoolAsync", 2, static_cast<int>(abi::result::out_of_memory), 0);
  EXPECT_EQ(device().allocate(64, *queue).why().code(), errc::out_of_memory);
  block = value(device().allocate(64, *queue));
  ok(device().release(block, 64, *queue));
}

TEST_F(Failure, ASecondDeviceThatDoesNotOpenIsUnavailableAndTheFirstGoesOn) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  fail_next("cuDevicePrimaryCtxRetain", abi::result::out_of_memory);
  const auto answer = device(1).make_queue();
  EXPECT_EQ(answer.why().code(), errc::unavailable);
  EXPECT_NE(answer.why().text().find("'cuda:1' cannot be opened"), std::string::npos);
  finish(*make_queue(0));
  finish(*make_queue(1));  // and may open later
}

TEST_F(Failure, AnyCallOfTheDriverMayFailAndNothingIsLost) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const auto program = [&]() -> backend::status {
    auto made = device().make_queue();
    if (!made) return made.take_status();
    backend::queue& queue = *made.value();
    auto event = device().make_event();
    if (!event) return event.take_status();
    auto block = device().allocate(1000, queue);
    if (!block) return block.take_status();
    bytes got(1000);
    backend::status now = queue.copy(backend::copy_request::contiguous(
        got.data(), memory_home::host, block.value(), backend::device_memory(0), 1000));
    if (now) now = queue.record(*event.value());
    if (now) now = event.value()->wait_for(long_time).take_status();
    control.fail(nullptr, 0, 0, 0);
    ok(device().release(block.value(), 1000, queue));
    finish(queue);
    return now;
  };
  ok(program());
  std::uint64_t nth = 1;
  for (std::uint64_t fired = 0;; ++nth) {
    const std::int64_t before = machine().live_objects();
    control.fail(nullptr, nth, static_cast<int>(abi::result::not_permitted), 0);
    const backend::status answer = program();
    control.fail(nullptr, 0, 0, 0);
    EXPECT_EQ(machine().live_objects(), before);
    if (control.faults_fired() == fired) break;
    fired = control.faults_fired();
    EXPECT_NE(answer.code(), errc::internal) << answer.text();
  }
  EXPECT_GT(nth, 10U);
  ok(program());
}

}  // namespace
}  // namespace cuda_test
