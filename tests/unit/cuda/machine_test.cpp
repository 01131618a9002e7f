// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/machine_test.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace cuda_test {

std::string library_path() {
  return std::getenv("MILLSTREAM_CUDA_DRIVER");
}

std::string kernel_text() {
  return fake_cuda_test::kernel_text();
}

void run_job(backend::queue& on, std::function<void()> body) {
  ok(on.run(*new called_job(std::move(body))));
}

void begin_anew() {
  if (fake().is_fake) fake().control.reset();
}

int device_count() {
  int count = 0;
  fake().call.cuInit(0);
  fake().call.cuDeviceGetCount(&count);
  return count;
}

void MachineTest::SetUp() {
  begin_anew();
  if (fake().is_fake) control.devices(2);
  fake().look_up();
  open();
}

void MachineTest::open(int devices) {
  const int there = fake().is_fake ? devices : std::min(devices, device_count());
  machine_ = value(backend::cuda::open_with({there, {}}, library_path()));
}

void MachineTest::close() {
  if (machine_ == nullptr) return;
  if (!expects_leaks) {
    EXPECT_EQ(machine_->live_objects(), 0);
  }
  // With work in flight the machine would leave its contexts to the process.
  while (fake().is_fake && control.step(1000) != 0)
    continue;
  machine_.reset();
}

void MachineTest::TearDown() {
  if (fake().is_fake) control.fail(nullptr, 0, 0, 0);
  const abi::context before = current();
  close();
  EXPECT_EQ(current(), before);
  if (!fake().is_fake) return;
  // Threads of host queues let go of the machine in their own time.
  for (int looks = 0; looks < 100'000 && control.live("context") != 0 && !expects_leaks; ++looks) {
    std::this_thread::yield();
  }
  if (!expects_leaks) {
    EXPECT_EQ(what_is_left(), "");
  }
}

std::string MachineTest::what_is_left() const {
  std::string left;
  for (const char* kind : {"context", "stream", "event", "device_memory", "host_memory",
                           "managed_memory", "registration", "pool", "range", "physical", "module",
                           "graph", "executable_graph", "green_context"}) {
    if (const std::int64_t count = control.live(kind); count != 0) {
      left += std::to_string(count) + " " + kind + ", ";
    }
  }
  return left;
}

event_ptr MachineTest::mark(backend::queue& tail) {
  event_ptr made = value(device(0).make_event());
  ok(tail.record(*made));
  return made;
}

void MachineTest::finish(backend::queue& tail) {
  ASSERT_TRUE(value(mark(tail)->wait_for(long_time)));
}

void MachineTest::fill(backend::queue& on, void* to, std::size_t count, int with, int home) {
  backend::fill_request request;
  request.to = to;
  request.home = static_cast<memory_home>(home);
  request.bytes = count;
  request.pattern[0] = static_cast<std::byte>(with);
  ok(on.fill(request));
}

bytes MachineTest::read(backend::queue& on, const void* from, std::size_t count, int home) {
  bytes got(count);
  ok(on.copy(backend::copy_request::contiguous(got.data(), memory_home::host, from,
                                               static_cast<memory_home>(home), count)));
  finish(on);
  return got;
}

abi::context MachineTest::current() const {
  abi::context now = nullptr;
  call.cuCtxGetCurrent(&now);
  return now;
}

gate::gate(backend::machine& in, backend::queue& held) : jobs_(value(in.host().make_queue())) {
  run_job(*jobs_, [opened = opened_] {
    while (!opened->load())
      std::this_thread::yield();
  });
  const event_ptr passed = value(in.host().make_event());
  ok(jobs_->record(*passed));
  ok(held.wait(*passed));
}

namespace {

class Machine : public MachineTest {};

TEST_F(Machine, RetainsTheDefaultDeviceOnly) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  EXPECT_EQ(control.live("context"), 1);
  const queue_ptr queue = make_queue(0);
  EXPECT_EQ(control.live("context"), 1);
  const queue_ptr other = make_queue(1);
  EXPECT_EQ(control.live("context"), 2);
}

TEST_F(Machine, TheDefaultDeviceIsTheCallersCurrentOne) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  close();
  abi::context second = nullptr;
  call.cuDevicePrimaryCtxRetain(&second, 1);
  call.cuCtxSetCurrent(second);
  open();
  EXPECT_EQ(machine().current_device(), 1);
  EXPECT_EQ(control.live("context"), 1);  // the caller's, and nothing on device 0
  call.cuCtxSetCurrent(nullptr);
  EXPECT_EQ(machine().current_device(), 0);
  close();
  call.cuDevicePrimaryCtxRelease(1);
}

TEST_F(Machine, StreamsAreNonBlockingAndUsedAgainWhenIdle) {
  queue_ptr queue = make_queue();
  const std::uint64_t handle = queue->handle();
  std::uint32_t flags = 0;
  call.cuStreamGetFlags(reinterpret_cast<abi::stream>(handle), &flags);
  EXPECT_EQ(flags, static_cast<std::uint32_t>(abi::stream_flags::non_blocking));
  finish(*queue);
  queue.reset();
  EXPECT_EQ(make_queue()->handle(), handle);
}

TEST_F(Machine, ABusyStreamIsNotUsedAgainAndNotDestroyed) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  queue_ptr queue = make_queue();
  gate hold(machine(), *queue);
  const std::uint64_t handle = queue->handle();
  const event_ptr passed = mark(*queue);
  queue.reset();
  EXPECT_NE(make_queue()->handle(), handle);
  EXPECT_EQ(control.count("cuStreamDestroy"), 0U);
  hold.open();
  EXPECT_TRUE(value(passed->wait_for(long_time)));
}

TEST_F(Machine, AHostQueueMayCallTheDriverAndSynchronise) {
  const queue_ptr jobs = make_queue(-1);
  const queue_ptr behind = make_queue();
  const queue_ptr inner = make_queue();
  void* block = value(device().allocate(64, *inner));
  bytes seen;
  run_job(*jobs, [&] {
    fill(*inner, block, 64, 5);
    call.cuCtxSetCurrent(nullptr);
    seen = read(*inner, block, 64);
  });
  ok(behind->wait(*mark(*jobs)));
  finish(*behind);
  EXPECT_EQ(seen, bytes(64, std::byte{5}));
  ok(device().release(block, 64, *inner));
}

TEST_F(Machine, TheParkedLimitIsThree) {}

TEST_F(Machine, ClosingAndOpeningAgainLeavesNothingBehind) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  for (int i = 0; i < 20; ++i) {
    const queue_ptr queue = make_queue(i % 2);
    void* block = value(device(i % 2).allocate(1000, *queue));
    fill(*queue, block, 1000, i, i % 2);
    EXPECT_EQ(read(*queue, block, 1000, i % 2), bytes(1000, static_cast<std::byte>(i)));
    ok(device(i % 2).release(block, 1000, *queue));
    finish(*queue);
  }
  close();
  EXPECT_EQ(control.live(nullptr), 0);
  open();
}

TEST_F(Machine, RoundsOfWorkNeedNoMoreThanTheFirst) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const auto round = [&] {
    const queue_ptr queue = make_queue();
    void* block = value(device().allocate(1000, *queue));
    void* host = value(device(-1).allocate(1000, *queue));
    fill(*queue, block, 1000, 1);
    EXPECT_EQ(read(*queue, block, 1000), bytes(1000, std::byte{1}));
    ok(device(-1).release(host, 1000, *queue));
    ok(device().release(block, 1000, *queue));
    finish(*queue);
  };
  round();
  const std::int64_t after_first = control.live(nullptr);
  for (int i = 0; i < 1000; ++i)
    round();
  EXPECT_EQ(control.live(nullptr), after_first);
}

}  // namespace
}  // namespace cuda_test
