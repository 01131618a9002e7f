// SPDX-License-Identifier: Apache-2.0
/// Host functions beside a device: they use it themselves, devices wait for them, and their
/// failures become known late. Every test holds on a real driver, too.
#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>

#include <millstream/hooks.hpp>

#include "tests/unit/cuda/engine_test.hpp"

namespace millstream::test {
namespace {

const exec_place device = exec_place::device(0);

std::atomic<gate*> g_blocks{nullptr};

void* open_blocks() noexcept {
  if (gate* const waited_for = g_blocks.exchange(nullptr)) waited_for->open();
  return nullptr;
}

std::atomic<int> g_blocked{0};

void* count_block() noexcept {
  ++g_blocked;
  return nullptr;
}

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

/// Launches a kernel that writes there, on a stream of its own, and waits for it.
void run_a_kernel(std::uint32_t* to, std::uint32_t value) {
  const on_device_0 here;
  const fake_cuda_test::entry_points& call = cuda_driver().call;
  abi::stream own = nullptr;
  must(call.cuStreamCreate(&own, abi::stream_flags::non_blocking));
  launch(device_0().kernel("test_fill_u32"), own, reinterpret_cast<abi::device_pointer>(to), value,
         std::uint64_t{1});
  must(call.cuStreamSynchronize(own));
  must(call.cuStreamDestroy(own));
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

/// A body for a device: twice the word.
void doubled(const body_call& call) {
  const on_device_0 here;
  const auto word = reinterpret_cast<abi::device_pointer>(call.pointers[0]);
  launch(device_0().kernel("test_add_u32"), static_cast<abi::stream>(call.stream), word, word, word,
         std::uint64_t{1});
}

/// Streams that were told to wait for a host function while the log was on.
std::size_t streams_told_to_wait() {
  std::set<std::uint64_t> streams;
  fake_cuda_call entry{};
  for (std::size_t i = 0; cuda_driver().control.log_entry(i, &entry) != 0; ++i) {
    if (std::string(entry.name) == "cuStreamWaitValue64") streams.insert(entry.argument[0]);
  }
  return streams.size();
}

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
    run(
        on_, exec_place::host(), {to.write()},
        [wait = hold.waiter(), value](const body_call& call) {
          wait();
          first<std::uint32_t>(call) = value;
        },
        {}, task_kind::host_launch);
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

// Neither the memory for a small copy to the host nor that of a device task is what a host function
// still uses that has nothing to do with them.
TEST_F(EngineHost, MemoryThatAHostFunctionUsesIsNotTakenForOthers) {
  gate hold;
  const untyped_data x = on_.make_data(sizeof(std::uint32_t), "x");
  run(on_, device, {x.write()}, fill_words(4));
  write_behind(hold, on_.make_data(sizeof(std::uint32_t)), 5);
  {
    const untyped_data dropped = on_.make_data(sizeof(std::uint32_t));
    run(on_, device, {dropped.write()}, fill_words(5));
    run(
        on_, exec_place::host(), {dropped.read(data_place::device(0))},
        [wait = hold.waiter()](const body_call&) { wait(); }, {}, task_kind::host_launch);
  }
  if (cuda_driver().is_fake) cuda_driver().control.log(1);
  EXPECT_EQ(content<std::uint32_t>(on_, x), 4U);
  const untyped_data y = on_.make_data(sizeof(std::uint32_t), "y");
  run(on_, device, {y.write()}, fill_words(6));
  EXPECT_EQ(content<std::uint32_t>(on_, y), 6U);
  if (cuda_driver().is_fake) {
    cuda_driver().control.log(0);
    EXPECT_EQ(streams_told_to_wait(), 0U);
  }
  hold.open();
  on_.finalize();
}

TEST_F(EngineHost, MemoryIsTakenInARecordingBesideAHostFunction) {
  gate hold;
  context_options options;
  options.on = machine({.name = "cuda", .devices = 1, .seed = {}});
  options.use_graph = true;
  untyped_context recorded(std::move(options));
  const untyped_data x = recorded.make_data(sizeof(std::uint32_t));
  run(
      recorded, exec_place::host(), {x.write()},
      [wait = hold.waiter()](const body_call&) { wait(); }, {}, task_kind::host_launch);
  {
    const untyped_data dropped = recorded.make_data(sizeof(std::uint32_t));
    run(recorded, device, {dropped.write()}, fill_words(5));
  }
  const untyped_data y = recorded.make_data(sizeof(std::uint32_t));
  run(recorded, device, {y.write()}, fill_words(6));
  EXPECT_EQ(content<std::uint32_t>(recorded, y), 6U);
  hold.open();
  recorded.finalize();
}

// The thread of a host queue waits there for the device, whose streams might then wait for that
// thread.
TEST_F(EngineHost, AFenceIsHeldBackWhileAnOpenTaskWaitsForADevice) {
  const word_block words(1);
  std::atomic_ref<std::uint32_t> is_set(*words.at(0));
  is_set = 0;
  const untyped_data y = on_.make_data(sizeof(std::uint32_t));
  run(on_, device, {y.write()}, [&](const body_call& call) {
    const on_device_0 here;
    launch(device_0().kernel("test_spin_until_set"), static_cast<abi::stream>(call.stream),
           reinterpret_cast<abi::device_pointer>(words.at(0)));
  });
  g_blocked = 0;
  set_blocking_hooks({.enter = count_block, .leave = nullptr, .interrupted = nullptr});
  if (cuda_driver().is_fake) cuda_driver().control.log(1);
  std::thread opening([&] {
    untyped_task task(on_);
    task.set_place(exec_place::host());
    task.add_dep(y.write());
    task.start();
    task.end();
  });
  const auto await_blocked = [](int threads, const std::atomic<bool>& or_this) {
    while (g_blocked < threads && !or_this)
      std::this_thread::yield();
  };
  std::atomic<bool> fenced{false};
  await_blocked(1, fenced);
  std::thread fencing([&] {
    (void)on_.fence();
    fenced = true;
  });
  await_blocked(2, fenced);
  EXPECT_FALSE(fenced);
  is_set = 1;
  opening.join();
  fencing.join();
  set_blocking_hooks({});
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
