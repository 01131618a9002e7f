// SPDX-License-Identifier: Apache-2.0
/// Sizes above 2^31. A program of its own, because it needs several GiB of memory.
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

/// Whether that much can be had: free pages, and those of the file cache.
bool has_memory(std::size_t bytes) {
  std::ifstream lines("/proc/meminfo");
  std::string name;
  std::string rest;
  for (std::size_t kib = 0; lines >> name >> kib && std::getline(lines, rest);) {
    if (name == "MemAvailable:") return kib * 1024 > bytes;
  }
  return false;
}

constexpr std::size_t gib = std::size_t{1} << 30U;

TEST(Large, BytesAbove31BitsAreAllThere) {
  constexpr std::size_t bytes = (std::size_t{1} << 31U) + 16;
  // Two instances.
  if (!has_memory(2 * bytes + gib)) GTEST_SKIP() << "needs 5 GiB of free memory";
  untyped_context on = open("host", 1);
  const untyped_data x = on.make_data(bytes, "x");
  const std::uint8_t zero = 0;
  on.fill(x.write(), std::as_bytes(std::span(&zero, 1)));
  run(on, {}, {x.rw()}, [](const body_call& call) {
    auto* const all = static_cast<std::uint8_t*>(call.pointers[0]);
    all[(std::size_t{1} << 31U) + 7] = 1;
    all[bytes - 1] = 1;
  });
  // The host instance is a copy of the device's.
  std::vector<std::uint64_t> seen(2);
  const untyped_data sums = registered(on, seen);
  run(on, exec_place::host(), {x.read(), sums.write()}, [](const body_call& call) {
    const auto* const all = static_cast<const std::uint8_t*>(call.pointers[0]);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < bytes; ++i)
      sum += all[i];
    (&first<std::uint64_t>(call, 1))[0] = sum;
    (&first<std::uint64_t>(call, 1))[1] = all[bytes - 1];
  });
  on.finalize();
  EXPECT_EQ(seen[0], 2U);
  EXPECT_EQ(seen[1], 1U);
  EXPECT_EQ(on.stats().copied_bytes, bytes);  // the sums are written where the user has them
}

TEST(Large, FourByteValuesAbove32BitsOfBytesAreAllThere) {
  constexpr std::size_t count = gib + 8;
  constexpr std::size_t bytes = count * sizeof(float);
  // One instance: everything happens on one device.
  if (!has_memory(bytes + gib)) GTEST_SKIP() << "needs 5 GiB of free memory";
  untyped_context on = open("host", 1);
  const untyped_data x = on.make_data(bytes, "x");
  const float half = 0.5F;
  on.fill(x.write(), std::as_bytes(std::span(&half, 1)));
  run(on, {}, {x.rw()}, [](const body_call& call) {
    auto* const all = static_cast<float*>(call.pointers[0]);
    all[gib + 1] = 2;
    all[count - 1] = 4;
  });
  std::vector<double> seen(1);
  const untyped_data sum = registered(on, seen);
  run(on, {}, {x.read(), sum.write()}, [](const body_call& call) {
    const auto* const all = static_cast<const float*>(call.pointers[0]);
    double total = 0;
    for (std::size_t i = 0; i < count; ++i)
      total += all[i];
    first<double>(call, 1) = total;
  });
  on.finalize();
  EXPECT_EQ(seen[0], 0.5 * static_cast<double>(count - 2) + 6);
}

TEST(Large, SizesAbove32BitsAreCountedOnTheNullMachine) {
  constexpr std::size_t bytes = (std::size_t{1} << 34U) + 8;
  untyped_context on = open("null", 2);
  const untyped_data x = on.make_data(bytes);
  const float one = 1.0F;
  on.fill(x.write(), std::as_bytes(std::span(&one, 1)));
  run(on, exec_place::device(1), {x.read()}, nothing);
  EXPECT_EQ(on.stats().copied_bytes, bytes);
  EXPECT_EQ(x.bytes(), bytes);
}

TEST(Large, TooLargeForThePlaceIsAnErrorThatNamesTheData) {
  untyped_context on = open("host", 1);
  const untyped_data x = on.make_data(std::size_t{1} << 50U, "huge");
  std::string text;
  EXPECT_EQ(thrown([&] { run(on, {}, {x.write()}, nothing, "t"); }, &text), errc::out_of_memory);
  EXPECT_TRUE(contains(text, "'t'")) << text;
  const untyped_data y = on.make_data(64, "small");
  run(on, {}, {y.write()}, [](const body_call& call) { first<int>(call) = 4; });
  EXPECT_EQ(content<int>(on, y), 4);
  EXPECT_EQ(thrown([&] { on.read_back(x, nullptr); }), errc::poisoned);
  on.finalize();
}

}  // namespace
}  // namespace millstream::test
