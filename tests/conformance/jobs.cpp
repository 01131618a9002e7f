// SPDX-License-Identifier: Apache-2.0
/// Host jobs in queues: `queue::run`.
#include <mutex>
#include <thread>

#include "tests/conformance/promise.hpp"

namespace conformance {
namespace {

using jobs = promise<capability::runs_jobs, capability::values>;
using host_jobs = promise<capability::values>;
using job_calls = promise<>;

TEST_F(job_calls, HostQueuesTakeJobs) {
  job_log log;
  backend::queue& queue = queue_on(-1);
  ok(run_job(queue, log));
  finish(queue);
  EXPECT_EQ(log.runs + log.discards, 1);
}

TEST_F(job_calls, DeviceQueuesTakeJobsIfAndOnlyIfTheBitSaysSo) {
  job_log log;
  backend::queue& queue = queue_on(0);
  const backend::status answer = run_job(queue, log);
  finish(queue);
  EXPECT_EQ(answer.code(), has(capability::runs_jobs) ? errc::ok : errc::unsupported);
  EXPECT_EQ(log.runs + log.discards, has(capability::runs_jobs) ? 1 : 0);
}

TEST_F(host_jobs, RunOnceAndInOrder) {
  job_log log;
  std::vector<int> seen;
  backend::queue& queue = queue_on(-1);
  for (int i = 0; i < 100; ++i)
    ok(run_job(queue, log, [&seen, i] { seen.push_back(i); }));
  finish(queue);
  ASSERT_EQ(seen.size(), 100U);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(log.discards, 0);
}

TEST_F(host_jobs, RunBehindTheDevicesTheyWaitFor) {
  job_log log;
  backend::queue& device_queue = queue_on(0);
  backend::queue& host_queue = queue_on(-1);
  std::byte* block = take(0, 1000, device_queue);
  bytes got(1000);
  fill(device_queue, 0, block, 1000, 5);
  ok(device_queue.copy(copy_of(got.data(), -1, block, 0, 1000)));
  put_behind(device_queue, host_queue);
  bytes seen;
  ok(run_job(host_queue, log, [&] { seen = got; }));
  finish(host_queue);
  EXPECT_EQ(seen, bytes(1000, std::byte{5}));
}

TEST_F(host_jobs, HoldUpTheDevicesThatWaitForThem) {
  job_log log;
  backend::queue& device_queue = queue_on(0);
  backend::queue& host_queue = queue_on(-1);
  bytes sent(1000);
  ok(run_job(host_queue, log, [&] { sent.assign(1000, std::byte{6}); }));
  put_behind(host_queue, device_queue);
  std::byte* block = take(0, 1000, device_queue);
  ok(device_queue.copy(copy_of(block, 0, sent.data(), -1, 1000)));
  EXPECT_EQ(read(device_queue, 0, block, 1000), bytes(1000, std::byte{6}));
}

TEST_F(host_jobs, RunOnAThreadThatMayTakeLocks) {
  job_log log;
  std::mutex mutex;
  int sum = 0;
  std::vector<backend::queue*> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(&queue_on(-1));
    for (int n = 0; n < 50; ++n) {
      ok(run_job(*all.back(), log, [&] {
        const std::scoped_lock hold(mutex);
        ++sum;
      }));
    }
  }
  for (backend::queue* each : all)
    finish(*each);
  EXPECT_EQ(sum, 200);
}

TEST_F(host_jobs, DoNotRunOnTheThreadThatSubmits) {
  job_log log;
  backend::queue& queue = queue_on(-1);
  std::thread::id ran_on;
  ok(run_job(queue, log, [&] { ran_on = std::this_thread::get_id(); }));
  finish(queue);
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(host_jobs, MayQueueMoreWork) {
  job_log log;
  backend::queue& outer = queue_on(-1);
  backend::queue& inner = queue_on(-1);
  ok(run_job(outer, log, [&] {
    for (int i = 0; i < 10; ++i)
      ok(run_job(inner, log));
  }));
  finish(outer);
  finish(inner);
  EXPECT_EQ(log.runs, 11);
}

TEST_F(host_jobs, MayWaitForOtherQueues) {
  job_log log;
  backend::queue& outer = queue_on(-1);
  backend::queue& inner = queue_on(0);
  std::byte* block = take(0, 100, inner);
  bytes seen;
  ok(run_job(outer, log, [&] {
    fill(inner, 0, block, 100, 8);
    seen = read(inner, 0, block, 100);
  }));
  finish(outer);
  EXPECT_EQ(seen, bytes(100, std::byte{8}));
}

TEST_F(jobs, KeepTheirPlaceAmongCopies) {
  job_log log;
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  bytes buffer(100);
  std::vector<std::byte> seen;
  for (int i = 0; i < 20; ++i) {
    fill(queue, 0, block, 100, i);
    ok(queue.copy(copy_of(buffer.data(), -1, block, 0, 100)));
    ok(run_job(queue, log, [&] { seen.push_back(buffer[99]); }));
  }
  finish(queue);
  ASSERT_EQ(seen.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(seen[i], static_cast<std::byte>(i));
}

TEST_F(jobs, ReadAndWriteDeviceMemoryWhereItIsHostMemory) {
  if (!has(capability::host_memory)) GTEST_SKIP() << "needs host_memory";
  job_log log;
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  fill(queue, 0, block, 100, 1);
  ok(run_job(queue, log,
             [&] { block[0] = static_cast<std::byte>(std::to_integer<int>(block[1]) + 1); }));
  EXPECT_EQ(read(queue, 0, block, 2), (bytes{std::byte{2}, std::byte{1}}));
}

TEST_F(jobs, QueuesOverlap) {
  job_log log;
  std::latch met(2);
  backend::queue& one = queue_on(0);
  backend::queue& other = queue_on(machine().device_count() - 1);
  for (backend::queue* each : {&one, &other}) {
    ok(run_job(*each, log, [&] { met.arrive_and_wait(); }));  // ends only if both run at once
  }
  finish(one);
  finish(other);
  EXPECT_EQ(log.runs, 2);
}

}  // namespace
}  // namespace conformance
