// SPDX-License-Identifier: Apache-2.0
/// Memory of a machine outside of contexts, and such memory as data.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

constexpr std::size_t bytes = 4 * sizeof(int);

class RawMemory : public ::testing::Test {
 protected:
  void copy_to(void* memory, data_place place, const std::vector<int>& from) {
    std::vector<int> kept = from;
    on_.copy({memory, place}, {kept.data(), data_place::host()}, bytes, stream_);
    synchronize(stream_);
  }
  [[nodiscard]] std::vector<int> copy_of(void* memory, data_place place) {
    std::vector<int> found(4);
    on_.copy({found.data(), data_place::host()}, {memory, place}, bytes, stream_);
    synchronize(stream_);
    return found;
  }

  machine on_{machine_options{.name = "host", .devices = 2}};
  std::uint64_t stream_ = on_.hand_over_stream(0);
};

TEST_F(RawMemory, ContentGoesThereAndBack) {
  const std::vector<int> values{1, 2, 3, 4};
  for (const data_place place :
       {data_place::device(1), data_place::host(), data_place::managed()}) {
    void* const memory = on_.allocate(place, bytes, stream_);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
    copy_to(memory, place, values);
    EXPECT_EQ(copy_of(memory, place), values) << to_string(place);
    on_.deallocate(place, memory, bytes, stream_);
  }
}

TEST_F(RawMemory, NoBytesAreNoMemory) {
  EXPECT_EQ(on_.allocate(data_place::device(0), 0, stream_), nullptr);
  on_.deallocate(data_place::device(0), nullptr, 0, stream_);
}

TEST_F(RawMemory, PlacesWithoutMemoryAreRefused) {
  std::string text;
  EXPECT_EQ(thrown([&] { (void)on_.allocate(data_place{}, 8, stream_); }, &text),
            errc::out_of_memory);
  EXPECT_TRUE(contains(text, "affine")) << text;
  EXPECT_EQ(thrown([&] { (void)on_.allocate(data_place::device(2), 8, stream_); }),
            errc::invalid_value);
  EXPECT_EQ(thrown([&] { (void)on_.allocate(data_place::device(0), 8, 999'999); }),
            errc::invalid_value);
}

TEST_F(RawMemory, HomeIsKnown) {
  void* const memory = on_.allocate(data_place::device(1), bytes, stream_);
  EXPECT_EQ(on_.home_of(memory), data_place::device(1));
  EXPECT_EQ(on_.home_of(&bytes), data_place::host());
  on_.deallocate(data_place::device(1), memory, bytes, stream_);
}

TEST_F(RawMemory, MemoryOfADeviceIsDataThere) {
  void* const memory = on_.allocate(data_place::device(1), bytes, stream_);
  copy_to(memory, data_place::device(1), {1, 2, 3, 4});
  {
    untyped_context in = open("host", 2);
    registration what;
    what.block = memory;
    what.bytes = bytes;
    const untyped_data x = in.register_data(what);
    run(in, exec_place::device(1), {x.rw()}, [memory](const body_call& call) {
      EXPECT_EQ(call.pointers[0], memory);
      first<int>(call) = 10;
    });
    run(in, exec_place::device(0), {x.rw()}, [memory](const body_call& call) {
      EXPECT_NE(call.pointers[0], memory);
      first<int>(call) += 1;
    });
    in.finalize();
    EXPECT_EQ(in.stats().copies, 2U);
  }
  EXPECT_EQ(copy_of(memory, data_place::device(1)), (std::vector<int>{11, 2, 3, 4}));
  on_.deallocate(data_place::device(1), memory, bytes, stream_);
}

TEST_F(RawMemory, OrderBetweenStreams) {
  const std::uint64_t later = on_.hand_over_stream(1);
  void* const memory = on_.allocate(data_place::device(0), bytes, stream_);
  std::vector<int> from{5, 6, 7, 8};
  std::vector<int> to(4);
  on_.copy({memory, data_place::device(0)}, {from.data(), data_place::host()}, bytes, stream_);
  on_.order(later, stream_);
  on_.copy({to.data(), data_place::host()}, {memory, data_place::device(0)}, bytes, later);
  on_.order(later, later);
  synchronize(later);
  EXPECT_EQ(to, from);
  on_.deallocate(data_place::device(0), memory, bytes, later);
}

}  // namespace
}  // namespace millstream::test
