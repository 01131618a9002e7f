// SPDX-License-Identifier: Apache-2.0
/// Copies and fills: exact bytes, everywhere.
#include <algorithm>
#include <numeric>

#include "base/random.hpp"
#include "tests/conformance/promise.hpp"

namespace conformance {
namespace {

using transfer = promise<capability::values>;
using transfer_calls = promise<>;
using managed = promise<capability::values, capability::managed>;
using peers = promise<capability::values, capability::peer>;

backend::fill_request fill_of(void* to, int home, std::size_t count, const bytes& pattern) {
  backend::fill_request request;
  request.to = to;
  request.home = static_cast<memory_home>(home);
  request.bytes = count;
  request.pattern_bytes = static_cast<std::uint32_t>(pattern.size());
  std::copy(pattern.begin(), pattern.end(), request.pattern.begin());
  return request;
}

/// A block inside a larger piece of memory: rows, planes, ... with gaps.
struct layout {
  std::array<std::ptrdiff_t, backend::max_block_rank> strides{};
  std::size_t span = 0;
};
layout spread(const backend::copy_request& shape, millstream::base::random_source& random) {
  layout made;
  std::size_t inner = shape.extents[shape.rank - 1];
  for (std::uint32_t axis = shape.rank - 1; axis-- > 0;) {
    inner += random.uniform(5);
    made.strides[axis] = static_cast<std::ptrdiff_t>(inner);
    inner *= shape.extents[axis];
  }
  made.span = inner;
  return made;
}

/// The slow and plain way: byte by byte.
void copy_plainly(const backend::copy_request& shape, std::byte* to, const std::byte* from) {
  std::array<std::size_t, backend::max_block_rank> at{};
  const std::size_t total = shape.bytes();
  for (std::size_t n = 0; n < total; ++n) {
    std::size_t rest = n;
    for (std::uint32_t axis = shape.rank; axis-- > 0; rest /= shape.extents[axis]) {
      at[axis] = rest % shape.extents[axis];
    }
    auto to_offset = static_cast<std::ptrdiff_t>(at[shape.rank - 1]);
    auto from_offset = to_offset;
    for (std::uint32_t axis = 0; axis + 1 < shape.rank; ++axis) {
      to_offset += static_cast<std::ptrdiff_t>(at[axis]) * shape.to_strides[axis];
      from_offset += static_cast<std::ptrdiff_t>(at[axis]) * shape.from_strides[axis];
    }
    to[to_offset] = from[from_offset];
  }
}

TEST_F(transfer, BytesAreExactBetweenAllPlaces) {
  const bytes sent = random_bytes(12'345, 1);
  for (const int from : places()) {
    for (const int to : places()) {
      backend::queue& queue = queue_on(to);
      std::byte* source = take(from, sent.size(), queue);
      std::byte* target = take(to, sent.size(), queue);
      write(queue, from, source, sent);
      ok(queue.copy(copy_of(target, to, source, from, sent.size())));
      EXPECT_EQ(read(queue, to, target, sent.size()), sent) << from << " to " << to;
    }
  }
}

TEST_F(transfer, EveryQueueCopiesBetweenAnyTwoPlaces) {
  const bytes sent = random_bytes(1000, 2);
  for (const int runner : places()) {
    backend::queue& queue = queue_on(runner);
    std::byte* first = take(0, sent.size(), queue);
    std::byte* last = take(machine().device_count() - 1, sent.size(), queue);
    write(queue, 0, first, sent);
    ok(queue.copy(copy_of(last, machine().device_count() - 1, first, 0, sent.size())));
    EXPECT_EQ(read(queue, machine().device_count() - 1, last, sent.size()), sent);
  }
}

TEST_F(transfer, AnyAddressAndCountIsAllowed) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 600, queue);
  for (std::size_t offset = 0; offset < 9; ++offset) {
    for (const std::size_t count : {1U, 2U, 3U, 7U, 8U, 9U, 255U, 513U}) {
      const bytes sent = random_bytes(count, offset * 1000 + count);
      fill(queue, 0, block, 600, 0xee);
      write(queue, 0, block + offset, sent);
      bytes expected(600, std::byte{0xee});
      std::copy(sent.begin(), sent.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
      ASSERT_EQ(read(queue, 0, block, 600), expected) << offset << ", " << count;
    }
  }
}

TEST_F(transfer, LargeBlocksArriveWhole) {
  backend::queue& queue = queue_on(0);
  const bytes sent = random_bytes(std::size_t{9} << 20U, 3);
  std::byte* block = take(0, sent.size(), queue);
  write(queue, 0, block, sent);
  EXPECT_EQ(read(queue, 0, block, sent.size()), sent);
}

TEST_F(transfer, BlocksOfEveryRankKeepTheirGaps) {
  millstream::base::random_source random(options().seed.value_or(4));
  backend::queue& queue = queue_on(0);
  for (int round = 0; round < 60; ++round) {
    backend::copy_request shape;
    shape.rank = static_cast<std::uint32_t>(1 + round % 4);
    for (std::uint32_t axis = 0; axis < shape.rank; ++axis) {
      shape.extents[axis] = 1 + random.uniform(7);
    }
    const layout from = spread(shape, random);
    const layout to = spread(shape, random);
    shape.from_strides = from.strides;
    shape.to_strides = to.strides;
    const bytes source = random_bytes(from.span, random.next());
    bytes expected = random_bytes(to.span, random.next());
    std::byte* block = take(0, expected.size(), queue);
    write(queue, 0, block, expected);
    copy_plainly(shape, expected.data(), source.data());
    shape.to = block;
    shape.to_home = backend::device_memory(0);
    shape.from = source.data();
    ok(queue.copy(shape));
    ASSERT_EQ(read(queue, 0, block, expected.size()), expected) << "round " << round;
  }
}

TEST_F(transfer, BlocksComeBackPackedFromEveryRank) {
  millstream::base::random_source random(options().seed.value_or(5));
  backend::queue& queue = queue_on(0);
  for (std::uint32_t rank = 1; rank <= backend::max_block_rank; ++rank) {
    backend::copy_request shape;
    shape.rank = rank;
    for (std::uint32_t axis = 0; axis < rank; ++axis)
      shape.extents[axis] = 2 + axis;
    const layout from = spread(shape, random);
    shape.from_strides = from.strides;
    std::size_t packed = shape.extents[rank - 1];
    for (std::uint32_t axis = rank - 1; axis-- > 0; packed *= shape.extents[axis]) {
      shape.to_strides[axis] = static_cast<std::ptrdiff_t>(packed);
    }
    const bytes source = random_bytes(from.span, rank);
    std::byte* block = take(0, source.size(), queue);
    write(queue, 0, block, source);
    bytes expected(packed);
    copy_plainly(shape, expected.data(), source.data());
    bytes got(packed);
    shape.to = got.data();
    shape.from = block;
    shape.from_home = backend::device_memory(0);
    ok(queue.copy(shape));
    finish(queue);
    EXPECT_EQ(got, expected) << "rank " << rank;
  }
}

TEST_F(transfer_calls, ZeroBytesAreAllowedEvenAtNull) {
  backend::queue& queue = queue_on(0);
  ok(queue.copy(copy_of(nullptr, 0, nullptr, -1, 0)));
  backend::copy_request flat;
  flat.rank = 3;
  flat.extents = {4, 0, 8, 0};
  ok(queue.copy(flat));
  ok(queue.fill(fill_of(nullptr, 0, 0, bytes(4))));
}

TEST_F(transfer, AnUnknownRankIsRefused) {
  backend::queue& queue = queue_on(0);
  bytes source(8);
  for (const std::uint32_t rank : {0U, 5U, 1000U}) {
    backend::copy_request wrong = copy_of(take(0, 8, queue), 0, source.data(), -1, 8);
    wrong.rank = rank;
    EXPECT_EQ(queue.copy(wrong).code(), errc::invalid_value) << rank;
  }
}

TEST_F(transfer, NullWithBytesToMoveIsRefused) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 8, queue);
  EXPECT_EQ(queue.copy(copy_of(nullptr, -1, block, 0, 8)).code(), errc::invalid_value);
  EXPECT_EQ(queue.copy(copy_of(block, 0, nullptr, -1, 8)).code(), errc::invalid_value);
  EXPECT_EQ(queue.fill(fill_of(nullptr, 0, 8, bytes(1))).code(), errc::invalid_value);
}

TEST_F(transfer, OverlapIsRefusedAndNothingIsMoved) {
  backend::queue& queue = queue_on(0);
  const bytes sent = random_bytes(100, 6);
  std::byte* block = take(0, 100, queue);
  write(queue, 0, block, sent);
  for (const std::size_t shift : {0U, 1U, 49U}) {
    EXPECT_EQ(queue.copy(copy_of(block + shift, 0, block, 0, 50)).code(), errc::invalid_value);
    EXPECT_EQ(queue.copy(copy_of(block, 0, block + shift, 0, 50)).code(), errc::invalid_value);
  }
  EXPECT_EQ(read(queue, 0, block, 100), sent);
}

TEST_F(transfer, NeighboursAndInterleavedColumnsAreNoOverlap) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 100, queue);
  write(queue, 0, block, random_bytes(100, 7));
  ok(queue.copy(copy_of(block + 50, 0, block, 0, 50)));
  backend::copy_request column = copy_of(block + 1, 0, block, 0, 0);  // column 0 of 10 x 10 to 1
  column.rank = 2;
  column.extents = {10, 1, 0, 0};
  column.to_strides = column.from_strides = {10, 0, 0, 0};
  ok(queue.copy(column));
  const bytes got = read(queue, 0, block, 100);
  for (std::size_t row = 0; row < 10; ++row)
    EXPECT_EQ(got[row * 10], got[row * 10 + 1]);
}

TEST_F(transfer, ACopyIsLeftOutWhenItsWordIsSet) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 8, queue);
  fill(queue, 0, block, 8, 1);
  std::atomic<void*> set{&queue};
  std::atomic<void*> unset{nullptr};
  const bytes source(8, std::byte{2});
  backend::copy_request copy = copy_of(block, 0, source.data(), -1, 8);
  copy.skip_when = &set;
  ok(queue.copy(copy));
  EXPECT_EQ(read(queue, 0, block, 8), bytes(8, std::byte{1}));
  copy.skip_when = &unset;
  ok(queue.copy(copy));
  EXPECT_EQ(read(queue, 0, block, 8), bytes(8, std::byte{2}));
}

TEST_F(transfer, AQueueThatRunsJobsLooksAtTheWordWhenTheTurnComes) {
  if (!has(capability::runs_jobs)) GTEST_SKIP() << "needs runs_jobs";
  job_log log;
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 8, queue);
  fill(queue, 0, block, 8, 1);
  std::atomic<void*> word{nullptr};
  gate hold(*this, queue);
  ok(run_job(queue, log, [&] { word = &log; }));
  const bytes source(8, std::byte{2});
  backend::copy_request copy = copy_of(block, 0, source.data(), -1, 8);
  copy.skip_when = &word;
  ok(queue.copy(copy));
  hold.open();
  EXPECT_EQ(read(queue, 0, block, 8), bytes(8, std::byte{1}));
}

TEST_F(transfer, FillsRepeatPatternsOfEverySize) {
  backend::queue& queue = queue_on(0);
  for (std::size_t size = 1; size <= 16; ++size) {
    const bytes pattern = random_bytes(size, size);
    for (const std::size_t times : {1U, 2U, 7U, 1000U}) {
      std::byte* block = take(0, size * times + 1, queue);
      fill(queue, 0, block, size * times + 1, 0xaa);
      ok(queue.fill(fill_of(block, 0, size * times, pattern)));
      const bytes got = read(queue, 0, block, size * times + 1);
      for (std::size_t i = 0; i < size * times; ++i)
        ASSERT_EQ(got[i], pattern[i % size]);
      EXPECT_EQ(got.back(), std::byte{0xaa});
    }
  }
}

TEST_F(transfer, WrongPatternsAreRefused) {
  backend::queue& queue = queue_on(0);
  std::byte* block = take(0, 64, queue);
  backend::fill_request request = fill_of(block, 0, 64, bytes(4));
  for (const std::uint32_t size : {0U, 17U, 3U}) {  // none, too long, no divisor of 64
    request.pattern_bytes = size;
    EXPECT_EQ(queue.fill(request).code(), errc::invalid_value) << size;
  }
}

TEST_F(transfer, RegisteredMemoryIsCopiedTheSame) {
  backend::queue& queue = queue_on(0);
  bytes sent = random_bytes(50'000, 8);
  bytes got(sent.size());
  ok(machine().register_memory(sent.data(), sent.size()));
  std::byte* block = take(0, sent.size(), queue);
  ok(queue.copy(copy_of(block, 0, sent.data(), -1, sent.size())));
  ok(queue.copy(copy_of(got.data(), -1, block, 0, sent.size())));
  finish(queue);
  ok(machine().unregister_memory(sent.data()));
  EXPECT_EQ(got, sent);
}

TEST_F(managed, HostMemoryServesAsManagedMemory) {
  backend::queue& queue = queue_on(0);
  std::byte* shared = take(-1, 100, queue);
  std::byte* block = take(0, 100, queue);
  std::fill_n(shared, 100, std::byte{4});
  ok(queue.copy(copy_of(block, 0, shared, static_cast<int>(memory_home::managed), 100)));
  EXPECT_EQ(read(queue, 0, block, 100), bytes(100, std::byte{4}));
}

TEST_F(peers, DevicesCopyRoundTheRing) {
  const int count = machine().device_count();
  const bytes sent = random_bytes(10'000, 9);
  backend::queue* queue = &queue_on(0);
  std::byte* at = take(0, sent.size(), *queue);
  write(*queue, 0, at, sent);
  for (int hop = 0; hop < 2 * count; ++hop) {
    backend::queue& next = queue_on((hop + 1) % count);
    put_behind(*queue, next);
    std::byte* to = take((hop + 1) % count, sent.size(), next);
    ok(next.copy(copy_of(to, (hop + 1) % count, at, hop % count, sent.size())));
    at = to;
    queue = &next;
  }
  EXPECT_EQ(read(*queue, 0, at, sent.size()), sent);
}

}  // namespace
}  // namespace conformance
