// SPDX-License-Identifier: Apache-2.0
// Streams, events, and the order in which queued work runs.
#include <set>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

class Order : public DriverTest {};
class FakeOrder : public FakeDriverTest {
 protected:
  /// The values of two words that two unordered streams write, after one of the streams has been
  /// waited for: what a program sees that forgot the other wait.
  std::uint32_t see_without_waiting(std::uint64_t seed) {
    control.seed(seed);
    const stream producer = make_stream();
    const stream consumer = make_stream();
    const device_pointer words = make_block(8);
    fill_words(words, 0, 2);
    OK(call.cuMemsetD32Async(words, 1, 1, producer));
    OK(call.cuMemcpyDtoDAsync(words + 4, words, 4, consumer));
    OK(call.cuStreamSynchronize(consumer));
    OK(call.cuStreamSynchronize(producer));
    return read_word(words + 4);
  }
};

TEST_F(Order, WorkOfOneStreamRunsInOrder) {
  const stream on = make_stream();
  const device_pointer words = make_block(16);
  for (std::uint32_t value = 1; value <= 20; ++value)
    OK(call.cuMemsetD32Async(words, value, 4, on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read_words(words, 4), std::vector<std::uint32_t>(4, 20));
}

TEST_F(Order, AWaitOrdersTwoStreams) {
  const stream first = make_stream();
  const stream second = make_stream();
  const event mark = make_event();
  const device_pointer words = make_block(8);
  OK(call.cuMemsetD32Async(words, 7, 1, first));
  OK(call.cuEventRecord(mark, first));
  OK(call.cuStreamWaitEvent(second, mark, event_wait_flags::none));
  OK(call.cuMemcpyDtoDAsync(words + 4, words, 4, second));
  OK(call.cuStreamSynchronize(second));
  EXPECT_EQ(read_word(words + 4), 7U);
}

TEST_F(Order, AWaitRefersToThePositionRecordedLastBeforeIt) {
  const stream first = make_stream();
  const stream second = make_stream();
  const event mark = make_event();
  auto* const word = make_pinned<std::uint32_t>(1);
  OK(call.cuEventRecord(mark, first));
  OK(call.cuStreamWaitEvent(second, mark, event_wait_flags::none));
  OK(launch(first, "test_spin_until_set", word));
  OK(call.cuEventRecord(mark, first));
  OK(call.cuStreamSynchronize(second));
  EXPECT_EQ(call.cuEventQuery(mark), result::not_ready);
  OK(call.cuStreamWriteValue32(second, reinterpret_cast<device_pointer>(word), 1,
                               write_value_flags::none));
  OK(call.cuEventSynchronize(mark));
}

TEST_F(Order, AnEventThatWasNeverRecordedHasPassed) {
  const event mark = make_event();
  OK(call.cuEventQuery(mark));
  OK(call.cuEventSynchronize(mark));
  OK(call.cuStreamWaitEvent(make_stream(), mark, event_wait_flags::none));
}

TEST_F(Order, AnEventMayGoWhileItIsWaitedFor) {
  const stream first = make_stream();
  const stream second = make_stream();
  event mark = nullptr;
  OK(call.cuEventCreate(&mark, event_flags::disable_timing));
  const device_pointer words = make_block(8);
  OK(call.cuMemsetD32Async(words, 3, 1, first));
  OK(call.cuEventRecord(mark, first));
  OK(call.cuStreamWaitEvent(second, mark, event_wait_flags::none));
  OK(call.cuEventDestroy(mark));
  OK(call.cuMemcpyDtoDAsync(words + 4, words, 4, second));
  OK(call.cuStreamSynchronize(second));
  EXPECT_EQ(read_word(words + 4), 3U);
}

TEST_F(Order, WorkOfADestroyedStreamGoesOn) {
  stream gone = nullptr;
  OK(call.cuStreamCreate(&gone, stream_flags::non_blocking));
  const device_pointer word = make_block(4);
  OK(call.cuMemsetD32Async(word, 5, 1, gone));
  OK(call.cuStreamDestroy(gone));
  OK(call.cuCtxSynchronize());
  EXPECT_EQ(read_word(word), 5U);
}

TEST_F(Order, TheLegacyStreamIsOrderedWithBlockingStreams) {
  const stream blocking = make_stream(stream_flags::default_stream);
  const device_pointer words = make_block(12);
  OK(call.cuMemsetD32Async(words, 1, 1, blocking));
  OK(call.cuMemcpyDtoDAsync(words + 4, words, 4, nullptr));
  OK(call.cuMemcpyDtoDAsync(words + 8, words + 4, 4, blocking));
  OK(call.cuStreamSynchronize(blocking));
  EXPECT_EQ(read_words(words, 3), std::vector<std::uint32_t>(3, 1));
}

TEST_F(Order, PollingEnds) {
  const stream on = make_stream();
  const device_pointer word = make_block(4);
  for (std::uint32_t value = 0; value < 1000; ++value)
    OK(call.cuMemsetD32Async(word, value, 1, on));
  while (call.cuStreamQuery(on) == result::not_ready)
    continue;
  EXPECT_EQ(read_word(word), 999U);
}

TEST_F(Order, AnEventBelongsToTheContextItWasMadeIn) {
  context other = nullptr;
  OK(call.cuCtxCreate(&other, 0, 0));
  const event mark = make_event();
  OK(call.cuCtxSetCurrent(here));
  EXPECT_EQ(call.cuEventRecord(mark, make_stream()), result::invalid_handle);
  OK(call.cuCtxDestroy(other));
}

TEST_F(FakeOrder, NothingRunsBeforeSomebodyWaits) {
  const stream on = make_stream();
  const device_pointer word = make_block(4);
  OK(call.cuMemsetD32Async(word, 5, 1, on));
  EXPECT_EQ(control.pending(), 1U);
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(control.pending(), 0U);
}

TEST_F(FakeOrder, WaitingForOneStreamMayLeaveAnotherBehind) {
  std::set<std::uint32_t> seen;
  for (std::uint64_t seed = 1; seed <= 32; ++seed)
    seen.insert(see_without_waiting(seed));
  EXPECT_EQ(seen, (std::set<std::uint32_t>{0, 1}));
}

TEST_F(FakeOrder, ASeedAlwaysGivesTheSameOrder) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed)
    EXPECT_EQ(see_without_waiting(seed), see_without_waiting(seed)) << "seed " << seed;
}

TEST_F(FakeOrder, AQueryRunsOneOperation) {
  const stream on = make_stream();
  const device_pointer word = make_block(4);
  OK(call.cuMemsetD32Async(word, 1, 1, on));
  OK(call.cuMemsetD32Async(word, 2, 1, on));
  EXPECT_EQ(call.cuStreamQuery(on), result::not_ready);
  EXPECT_EQ(control.executed(), 1U);
}

TEST_F(FakeOrder, HandlesAreNotUsedAgain) {
  std::set<stream> seen;
  for (int i = 0; i < 10; ++i) {
    stream made = nullptr;
    OK(call.cuStreamCreate(&made, stream_flags::non_blocking));
    EXPECT_TRUE(seen.insert(made).second);
    OK(call.cuStreamDestroy(made));
    EXPECT_EQ(call.cuStreamQuery(made), result::invalid_handle);
  }
}

}  // namespace
}  // namespace fake_cuda_test
