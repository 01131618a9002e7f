// SPDX-License-Identifier: Apache-2.0
/// Layouts of users' buffers: normal form, bytes in common; compared with looking at every byte.
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/strided.hpp"
#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

using core::strided;

struct layout_case {
  std::vector<std::size_t> extents;
  std::vector<std::ptrdiff_t> strides;
  std::size_t element_bytes = 1;
  std::ptrdiff_t offset = 0;
};

// Nothing is read there.
std::byte* memory_at(std::ptrdiff_t offset) {
  constexpr std::uintptr_t base = std::uintptr_t{1} << 40U;
  return reinterpret_cast<std::byte*>(base + static_cast<std::uintptr_t>(offset));
}

strided make(const layout_case& from) {
  registration what;
  what.block = memory_at(from.offset);
  what.bytes = from.element_bytes;
  for (const std::size_t extent : from.extents)
    what.bytes *= extent;
  what.extents = from.extents;
  what.strides = from.strides;
  what.element_bytes = from.element_bytes;
  return core::strided_of(what);
}

// Offsets of all bytes in the order of the elements.
void list_bytes(const layout_case& of, std::size_t axis, std::ptrdiff_t at,
                std::vector<std::ptrdiff_t>& bytes) {
  if (axis == of.extents.size()) {
    for (std::size_t i = 0; i < of.element_bytes; ++i)
      bytes.push_back(at + static_cast<std::ptrdiff_t>(i));
    return;
  }
  for (std::size_t i = 0; i < of.extents[axis]; ++i)
    list_bytes(of, axis + 1, at + static_cast<std::ptrdiff_t>(i) * of.strides[axis], bytes);
}
std::vector<std::ptrdiff_t> bytes_of(const layout_case& of) {
  std::vector<std::ptrdiff_t> bytes;
  list_bytes(of, 0, of.offset, bytes);
  return bytes;
}
std::set<std::ptrdiff_t> byte_set(const layout_case& of) {
  const std::vector<std::ptrdiff_t> bytes = bytes_of(of);
  return {bytes.begin(), bytes.end()};
}

layout_case random_case(std::mt19937& random) {
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  layout_case made;
  made.element_bytes = static_cast<std::size_t>(1 + below(4));
  made.offset = below(60) + 200;
  for (int rank = below(4); rank > 0; --rank) {
    made.extents.push_back(static_cast<std::size_t>(1 + below(4)));
    made.strides.push_back(below(25) - 12);
  }
  return made;
}

bool have_common(const std::set<std::ptrdiff_t>& a, const std::set<std::ptrdiff_t>& b) {
  for (const std::ptrdiff_t each : a) {
    if (b.contains(each)) return true;
  }
  return false;
}

TEST(Strided, BytesInCommonAreFoundExactly) {
  std::mt19937 random(1);
  int common = 0;
  for (int i = 0; i < 20000; ++i) {
    const layout_case a = random_case(random);
    const layout_case b = random_case(random);
    const bool expected = have_common(byte_set(a), byte_set(b));
    ASSERT_EQ(core::share_a_byte(make(a), make(b)), expected) << i;
    common += expected ? 1 : 0;
  }
  EXPECT_GT(common, 1000);
  EXPECT_LT(common, 19000);
}

TEST(Strided, RepeatedBytesAreFoundExactly) {
  std::mt19937 random(2);
  int repeated = 0;
  for (int i = 0; i < 20000; ++i) {
    const layout_case of = random_case(random);
    const bool expected = byte_set(of).size() != bytes_of(of).size();
    ASSERT_EQ(core::repeats_a_byte(make(of)), expected) << i;
    repeated += expected ? 1 : 0;
  }
  EXPECT_GT(repeated, 1000);
  EXPECT_LT(repeated, 19000);
}

TEST(Strided, BoundsAreThoseOfTheBytes) {
  std::mt19937 random(3);
  for (int i = 0; i < 5000; ++i) {
    const layout_case of = random_case(random);
    const std::set<std::ptrdiff_t> bytes = byte_set(of);
    const strided made = make(of);
    ASSERT_EQ(made.low(), memory_at(*bytes.begin()));
    ASSERT_EQ(made.span(), static_cast<std::size_t>(*bytes.rbegin() - *bytes.begin() + 1));
  }
}

TEST(Strided, SameBytesInTheSameOrderAreTheSame) {
  std::mt19937 random(4);
  for (int i = 0; i < 20000; ++i) {
    layout_case a = random_case(random);
    layout_case b = random_case(random);
    b.offset = a.offset;
    if (!make(a).is_same(make(b))) continue;
    ASSERT_EQ(bytes_of(a), bytes_of(b)) << i;
  }
  EXPECT_TRUE(make({{2, 3}, {12, 4}, 4, 0}).is_packed());
  EXPECT_TRUE(make({{2, 3}, {12, 4}, 4, 0}).is_same(make({{6}, {4}, 4, 0})));
  EXPECT_TRUE(make({{2, 1, 3}, {24, 7, 8}, 4, 0}).is_same(make({{6}, {8}, 4, 0})));
  EXPECT_FALSE(make({{6}, {8}, 4, 0}).is_same(make({{6}, {8}, 4, 4})));
  EXPECT_FALSE(make({{6}, {-8}, 4, 40}).is_same(make({{6}, {8}, 4, 0})));
}

// Sizes at which a search without thought would not end.
TEST(Strided, LargeLayoutsAreDecidedAtOnce) {
  constexpr std::size_t many = std::size_t{1} << 30U;
  EXPECT_FALSE(core::share_a_byte(make({{many}, {16}, 8, 0}), make({{many}, {16}, 8, 8})));
  EXPECT_TRUE(core::share_a_byte(make({{many}, {16}, 8, 0}), make({{many}, {24}, 8, 8})));
  EXPECT_FALSE(core::share_a_byte(make({{many, 7}, {64, 8}, 8, 0}), make({{many}, {64}, 8, 56})));
  EXPECT_FALSE(core::repeats_a_byte(make({{many, 3}, {64, 16}, 8, 0})));
  EXPECT_TRUE(core::repeats_a_byte(make({{many, 3}, {8, 8}, 8, 0})));
}

TEST(Strided, LayoutsThatDoNotFitAreRefused) {
  registration what;
  what.block = memory_at(0);
  what.bytes = 24;
  const std::vector<std::size_t> extents{3};
  const std::vector<std::ptrdiff_t> strides{16};
  const std::vector<std::ptrdiff_t> far{std::ptrdiff_t{1} << 62U};
  what.extents = extents;
  what.element_bytes = 8;
  std::string text;
  EXPECT_EQ(thrown([&] { (void)core::strided_of(what); }, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text, "strides as extents")) << text;
  what.strides = strides;
  EXPECT_EQ(core::strided_of(what).span(), 40U);
  what.bytes = 23;
  EXPECT_EQ(thrown([&] { (void)core::strided_of(what); }, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text, "bytes")) << text;
  what.bytes = 24;
  what.strides = far;
  EXPECT_EQ(thrown([&] { (void)core::strided_of(what); }, &text), errc::invalid_value);
  EXPECT_TRUE(contains(text, "leaves the memory")) << text;
}

TEST(Strided, BufferOfAMachineWithManyDevicesKeepsItsPlaces) {
  untyped_context on = open("host", most_devices);
  std::vector<int> buffer(8, 1);
  const std::vector<std::size_t> extents{4};
  const std::vector<std::ptrdiff_t> strides{-8};
  registration what;
  what.block = buffer.data() + 6;
  what.bytes = 16;
  what.extents = extents;
  what.strides = strides;
  what.element_bytes = 4;
  const untyped_data x = on.register_data(what);
  for (const int device : {most_devices - 1, 0, most_devices - 2}) {
    run(on, exec_place::device(device), {x.rw()}, [](const body_call& call) {
      auto* const values = static_cast<int*>(call.pointers[0]);
      for (int i = 0; i < 4; ++i)
        values[i] += 10 * (i + 1);
    });
  }
  on.finalize();
  EXPECT_EQ(buffer, (std::vector<int>{121, 1, 91, 1, 61, 1, 31, 1}));
}

}  // namespace
}  // namespace millstream::test
