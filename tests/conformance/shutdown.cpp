// SPDX-License-Identifier: Apache-2.0
/// The end of queues, machines and processes.
#include <unistd.h>

#include <string>
#include <thread>

#include "tests/conformance/exit_scene.hpp"
#include "tests/conformance/promise.hpp"

namespace conformance {

namespace {

/// What the process leaves behind, as a program does that keeps its machine in a global variable.
struct scene {
  std::unique_ptr<backend::machine> machine;
  job_log log;
  std::vector<queue_ptr> queues;
};

void put_work(scene& into, backend::device& place, bool runs_jobs) {
  into.queues.push_back(value(place.make_queue()));
  if (!runs_jobs) return;
  ok(run_job(*into.queues.back(), into.log, [] { std::latch(1).wait(); }));
  ok(run_job(*into.queues.back(), into.log));
}

}  // namespace

int exit_with_work_in_flight(std::unique_ptr<backend::machine> machine) {
  static scene* const left = new scene;  // never destroyed, like the machines of the library
  left->machine = std::move(machine);
  backend::machine& on = *left->machine;
  put_work(*left, on.host(), true);
  for (int i = 0; i < on.device_count(); ++i) {
    put_work(*left, on.at(i), on.capabilities().has(capability::runs_jobs));
  }
  const event_ptr mark = value(on.host().make_event());
  ok(left->queues.front()->record(*mark));
  static_cast<void>(value(mark->wait_for(std::chrono::milliseconds(20))));
  return 0;
}

namespace {

using shutdown = promise<>;
using shutdown_values = promise<capability::values>;

TEST_F(shutdown_values, ClosingAQueueDiscardsTheJobsThatWait) {
  job_log log;
  queue_ptr queue = value(device(-1).make_queue());
  gate hold(*this, *queue);
  for (int i = 0; i < 10; ++i)
    ok(run_job(*queue, log));
  const event_ptr behind = mark(*queue);
  queue.reset();
  hold.open();
  EXPECT_TRUE(value(behind->wait_for(long_time)));
  EXPECT_EQ(log.runs, 0);
  EXPECT_EQ(log.discards, 10);
}

TEST_F(shutdown_values, ClosingAQueueDoesNotWaitForARunningJob) {
  job_log log;
  std::latch started(1);
  std::latch go_on(1);
  queue_ptr queue = value(device(-1).make_queue());
  ok(run_job(*queue, log, [&] {
    started.count_down();
    go_on.wait();
  }));
  const event_ptr behind = mark(*queue);
  started.wait();
  queue.reset();  // returns although the job cannot end yet
  go_on.count_down();
  EXPECT_TRUE(value(behind->wait_for(long_time)));
  EXPECT_EQ(log.runs, 1);
}

TEST_F(shutdown_values, CopiesOfAClosedQueueAreStillMade) {
  queue_ptr queue = value(device(0).make_queue());
  backend::queue& other = queue_on(0);
  std::byte* block = take(0, 1000, other);
  put_behind(other, *queue);
  gate hold(*this, *queue);
  fill(*queue, 0, block, 1000, 3);
  const event_ptr behind = mark(*queue);
  queue.reset();
  hold.open();
  ok(other.wait(*behind));
  EXPECT_EQ(read(other, 0, block, 1000), bytes(1000, std::byte{3}));
}

TEST_F(shutdown, ABlockReleasedOnAClosedQueueComesBack) {
  queue_ptr queue = value(device(0).make_queue());
  void* block = value(device(0).allocate(1000, *queue));
  ok(device(0).release(block, 1000, *queue));
  const event_ptr behind = mark(*queue);
  queue.reset();
  EXPECT_TRUE(value(behind->wait_for(long_time)));
  EXPECT_EQ(device(0).memory().used_bytes, 0U);
}

TEST_F(shutdown, AMarkOutlivesItsQueue) {
  queue_ptr queue = value(device(0).make_queue());
  const event_ptr event = mark(*queue);
  queue.reset();
  EXPECT_TRUE(value(event->wait_for(long_time)));
  ok(queue_on(0).wait(*event));
}

TEST_F(shutdown, AMachineClosesWithWorkInFlight) {
  auto other = open_machine();
  queue_ptr queue = value(other->at(0).make_queue());
  void* block = value(other->at(0).allocate(100'000, *queue));
  for (int i = 0; i < 100; ++i)
    fill(*queue, 0, block, 100'000, i);
  queue.reset();
  other.reset();
}

TEST_F(shutdown_values, AMachineClosesWhileAJobRunsAndOthersWait) {
  job_log log;
  const auto disposed = std::make_shared<std::latch>(3);
  auto other = open_machine();
  queue_ptr queue = value(other->host().make_queue());
  for (int i = 0; i < 3; ++i) {
    ok(run_job(*queue, log, [end = std::make_shared<end_watch>(disposed)] {}));
  }
  queue.reset();
  other.reset();
  disposed->wait();
}

TEST_F(shutdown, OpeningAndClosingManyTimesIsQuiet) {
  for (int i = 0; i < 20; ++i) {
    const auto other = open_machine();
    const queue_ptr queue = value(other->at(0).make_queue());
    const event_ptr event = value(other->at(0).make_event());
    ok(queue->record(*event));
    EXPECT_TRUE(value(event->wait_for(long_time)));
  }
}

TEST_F(shutdown, ManyQueuesComeAndGo) {
  for (int i = 0; i < 200; ++i) {
    const queue_ptr queue = value(device(0).make_queue());
    void* block = value(device(0).allocate(64, *queue));
    fill(*queue, 0, block, 64, 1);
    ok(device(0).release(block, 64, *queue));
    EXPECT_TRUE(value(mark(*queue)->wait_for(long_time)));
  }
}

TEST_F(shutdown, AForkedChildGetsUnavailable) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 64, queue);
  fill(queue, 0, block, 64, 1);
  const event_ptr event = mark(queue);
  const auto refused = [](const backend::status& answer) {
    return answer.code() == errc::unavailable && answer.text().find("fork") != std::string::npos;
  };
  EXPECT_EQ(0, exit_of_child([&] {
              if (!refused(event->is_done().why())) return 1;
              if (!refused(event->wait_for(long_time).why())) return 2;
              if (!refused(queue.wait(*event))) return 3;
              if (!refused(device(0).make_queue().why())) return 4;
              if (!refused(device(0).allocate(64, queue).why())) return 5;
              if (!refused(device(0).release(block, 64, queue))) return 6;
              if (!refused(options().with->open({}).why())) return 7;
              return 0;
            }));
}

TEST_F(shutdown_values, AForkedChildMayDropWhatItInherited) {
  queue_ptr queue = value(device(0).make_queue());
  queue_ptr host_queue = value(device(-1).make_queue());
  backend::queue& other = queue_on(0);
  std::byte* block = take(0, 64, other);
  put_behind(other, *queue);
  gate hold(*this, *queue);
  fill(*queue, 0, block, 64, 1);
  event_ptr event = mark(*queue);
  static_cast<void>(value(event->wait_for(std::chrono::milliseconds(5))));
  EXPECT_EQ(0, exit_of_child([&] {
              event.reset();
              queue.reset();
              host_queue.reset();
              return 0;
            }));
  hold.open();
  put_behind(*queue, other);
}

TEST_F(shutdown, AProcessMayEndInTheMiddleOfWork) {
  const std::string backend_argument = "--backend=" + options().with->name;
  const std::string devices_argument = "--devices=" + std::to_string(options().devices);
  EXPECT_EQ(0, exit_of_child([&] {
              execl("/proc/self/exe", "millstream_conformance", backend_argument.c_str(),
                    devices_argument.c_str(), "--exit-scene", nullptr);
              return 127;
            }));
}

}  // namespace
}  // namespace conformance
