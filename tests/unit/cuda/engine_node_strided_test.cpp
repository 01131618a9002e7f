// SPDX-License-Identifier: Apache-2.0
/// Host functions that are declared not to use the device, on buffers that are not packed: each
/// element, and each byte between them.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/cuda/engine_node.hpp"

namespace millstream::test {
namespace {

using words = std::vector<std::uint32_t>;

/// Which words of a buffer are registered, in words.
struct layout {
  const char* name;
  std::vector<std::size_t> extents;
  std::vector<std::ptrdiff_t> strides;
  std::ptrdiff_t first = 0;  ///< of the element with all indices 0
  std::size_t whole = 0;     ///< words of the buffer
};

std::ostream& operator<<(std::ostream& to, const layout& of) {
  return to << of.name;
}

/// Where the elements lie in the buffer, in their order.
void list_places(const layout& of, std::size_t axis, std::ptrdiff_t at,
                 std::vector<std::size_t>& places) {
  if (axis == of.extents.size()) return places.push_back(static_cast<std::size_t>(at));
  for (std::size_t i = 0; i < of.extents[axis]; ++i)
    list_places(of, axis + 1, at + static_cast<std::ptrdiff_t>(i) * of.strides[axis], places);
}

std::span<std::uint32_t> all(const body_call& call, std::size_t index, std::size_t count) {
  return {static_cast<std::uint32_t*>(call.pointers[index]), count};
}

/// A body for a device: the first datum is twice the last one, which may be the same.
auto double_all(std::size_t count) {
  return [count](const body_call& call) {
    const on_device_0 here;
    const auto from = reinterpret_cast<abi::device_pointer>(call.pointers.back());
    launch(device_0().kernel("test_add_u32"), static_cast<abi::stream>(call.stream),
           reinterpret_cast<abi::device_pointer>(call.pointers[0]), from, from,
           std::uint64_t{count});
  };
}

/// A host function that notes what it sees.
auto look(words& seen, std::size_t count) {
  return [&seen, count](const body_call& call) {
    const std::span<const std::uint32_t> now = all(call, 0, count);
    seen.assign(now.begin(), now.end());
  };
}

/// A host function that adds `by + i` to element i.
auto add_all(std::size_t count, std::uint32_t by) {
  return [count, by](const body_call& call) {
    for (std::size_t i = 0; i < count; ++i)
      all(call, 0, count)[i] += by + static_cast<std::uint32_t>(i);
  };
}

class StridedNode : public testing::TestWithParam<layout> {
 protected:
  StridedNode() {
    list_places(GetParam(), 0, GetParam().first, places_);
    buffer_.resize(GetParam().whole);
    std::iota(buffer_.begin(), buffer_.end(), 1000U);
    before_ = buffer_;
    for (const std::size_t place : places_)
      packed_.push_back(buffer_[place]);
  }

  [[nodiscard]] std::size_t count() const { return places_.size(); }
  [[nodiscard]] std::size_t bytes() const { return count() * word; }

  /// The words of the layout, in the caller's buffer.
  [[nodiscard]] untyped_data register_in(untyped_context& on) {
    std::vector<std::ptrdiff_t> strides;
    for (const std::ptrdiff_t each : GetParam().strides)
      strides.push_back(each * static_cast<std::ptrdiff_t>(word));
    registration what;
    what.block = buffer_.data() + GetParam().first;
    what.bytes = bytes();
    what.extents = GetParam().extents;
    what.strides = strides;
    what.element_bytes = word;
    what.symbol = "x";
    return on.register_data(what);
  }

  /// What sequential execution does to the packed content.
  void expect_doubled() {
    for (std::uint32_t& each : packed_)
      each *= 2;
  }
  void expect_added(std::uint32_t by) {
    for (std::size_t i = 0; i < count(); ++i)
      packed_[i] += by + static_cast<std::uint32_t>(i);
  }
  /// The elements are what sequential execution gives, and nothing between them was touched.
  void expect_home() const {
    words wanted = before_;
    for (std::size_t i = 0; i < count(); ++i)
      wanted[places_[i]] = packed_[i];
    EXPECT_EQ(buffer_, wanted);
  }

  untyped_context on_ = open_cuda(nullptr, /*recorded=*/true);
  std::vector<std::size_t> places_;
  words buffer_;
  words before_;
  words packed_;  ///< what the elements have to be
};

INSTANTIATE_TEST_SUITE_P(
    Layouts, StridedNode,
    testing::Values(layout{"EverySecond", {5}, {2}, 1, 12}, layout{"Backwards", {6}, {-1}, 5, 6},
                    layout{"BackwardsByThree", {4}, {-3}, 11, 13},
                    layout{"PartOfAMatrix", {3, 4}, {7, 1}, 9, 30},
                    layout{"Columns", {4, 3}, {1, 7}, 2, 28},
                    layout{"RowsBackwards", {3, 4}, {-6, 1}, 13, 20},
                    layout{"ThreeAxes", {2, 3, 2}, {20, 5, 2}, 3, 45},
                    layout{"FourAxes", {2, 2, 2, 3}, {60, 21, -8, 2}, 9, 100},
                    layout{"FiveAxes", {2, 2, 2, 2, 3}, {150, 60, 21, -8, 2}, 9, 280},
                    layout{"SixAxes", {2, 3, 2, 2, 2, 2}, {500, 150, 60, 21, -8, 2}, 9, 1000}),
    [](const testing::TestParamInfo<layout>& of) { return of.param.name; });

TEST_P(StridedNode, ReadsWhatTheDeviceWrote) {
  words seen;
  const untyped_data x = register_in(on_);
  run(on_, device, {x.rw()}, double_all(count()));
  run_declared(on_, {x.read()}, look(seen, count()));
  on_.finalize();
  expect_doubled();
  EXPECT_EQ(seen, packed_);
  expect_home();
  EXPECT_EQ(counts(on_).stages, 1U);
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
  EXPECT_EQ(on_.stats().copies, 3U);  // to the device, to the host, home
}

TEST_P(StridedNode, WritesWhatTheDeviceReads) {
  words seen;
  const untyped_data x = register_in(on_);
  const untyped_data y = on_.make_data(bytes());
  run_declared(on_, {x.rw()}, add_all(count(), 50));
  run(on_, device, {y.write(), x.read()}, double_all(count()));
  run_declared(on_, {y.read()}, look(seen, count()));
  on_.finalize();
  expect_added(50);
  expect_home();
  expect_doubled();
  EXPECT_EQ(seen, packed_);
  EXPECT_EQ(counts(on_).stages, 1U);
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
}

TEST_P(StridedNode, WhatItOverwritesComesHome) {
  const untyped_data x = register_in(on_);
  run(on_, device, {x.rw()}, double_all(count()));
  run_declared(on_, {x.write()}, [count = count()](const body_call& call) {
    for (std::size_t i = 0; i < count; ++i)
      all(call, 0, count)[i] = static_cast<std::uint32_t>(i) + 7;
  });
  on_.finalize();
  std::iota(packed_.begin(), packed_.end(), 7U);
  expect_home();
}

TEST_P(StridedNode, TakesTurnsWithTheDeviceOverManyStages) {
  words seen;
  const untyped_data x = register_in(on_);
  std::vector<words> all_seen;
  std::vector<words> wanted;
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    run_declared(on_, {x.rw()}, add_all(count(), stage));
    run(on_, device, {x.rw()}, double_all(count()));
    run_declared(on_, {x.rw()}, [&, count = count(), stage](const body_call& call) {
      look(seen, count)(call);
      all_seen.push_back(seen);
      add_all(count, 3 * stage)(call);
    });
    run(on_, device, {x.rw()}, double_all(count()));
    static_cast<void>(on_.fence());
    expect_added(stage);
    expect_doubled();
    wanted.push_back(packed_);
    expect_added(3 * stage);
    expect_doubled();
  }
  on_.finalize();
  EXPECT_EQ(all_seen, wanted);
  expect_home();
  EXPECT_EQ(counts(on_).stages, 4U);
  EXPECT_EQ(counts(on_).stage_breaks, 0U);
}

TEST_P(StridedNode, ComesHomeWhenItIsDropped) {
  untyped_data x = register_in(on_);
  run(on_, device, {x.rw()}, double_all(count()));
  run_declared(on_, {x.rw()}, add_all(count(), 9));
  x = {};
  on_.finalize();
  expect_doubled();
  expect_added(9);
  expect_home();
}

// Then a node of the stage brings it home.
TEST_P(StridedNode, ComesHomeInAStageWithOtherHostNodes) {
  words seen;
  const untyped_data other = on_.make_data(word);
  untyped_data x = register_in(on_);
  run_declared(on_, {other.write()}, nothing);
  run(on_, device, {x.rw()}, double_all(count()));
  run_declared(on_, {x.read()}, look(seen, count()));
  x = {};
  on_.finalize();
  expect_doubled();
  EXPECT_EQ(seen, packed_);
  expect_home();
  EXPECT_EQ(counts(on_).stages, 1U);
}

// Registered again, it is another datum, which begins with what the one before leaves there.
TEST_P(StridedNode, IsRegisteredAgainBehindAHostNode) {
  words seen;
  untyped_data x = register_in(on_);
  run_declared(on_, {x.rw()}, add_all(count(), 2));
  x = {};
  x = register_in(on_);
  run(on_, device, {x.rw()}, double_all(count()));
  run_declared(on_, {x.read()}, look(seen, count()));
  on_.finalize();
  expect_added(2);
  expect_doubled();
  EXPECT_EQ(seen, packed_);
  expect_home();
}

// A function gets a packed copy, so whatever it left there is not seen.
TEST_P(StridedNode, AFailureLeavesTheBufferAlone) {
  const untyped_data x = register_in(on_);
  const untyped_data y = on_.make_data(bytes());
  run(on_, device, {x.rw()}, double_all(count()));
  run_declared(
      on_, {x.rw()},
      [count = count()](const body_call& call) {
        add_all(count, 1)(call);
        throw std::runtime_error("boom");
      },
      "bad");
  run(on_, device, {y.write(), x.read()}, double_all(count()));
  run(on_, device, {x.rw()}, double_all(count()));
  on_.finish();
  ASSERT_EQ(on_.take_failures().size(), 1U);
  EXPECT_EQ(buffer_, before_);
}

TEST_P(StridedNode, AFailureLeavesTheBufferOfWhatIsDroppedAlone) {
  untyped_data x = register_in(on_);
  run_declared(on_, {x.rw()}, [count = count()](const body_call& call) {
    add_all(count, 1)(call);
    throw std::runtime_error("boom");
  });
  x = {};
  on_.finish();
  ASSERT_EQ(on_.take_failures().size(), 1U);
  EXPECT_EQ(buffer_, before_);
}

TEST_P(StridedNode, AGraphThatIsGivenOutDoesItAtEachLaunch) {
  recorded_graph graph;
  words seen;
  {
    untyped_context on = open_cuda(nullptr, /*recorded=*/true);
    const untyped_data x = register_in(on);
    run(on, device, {x.rw()}, double_all(count()));
    run_declared(on, {x.rw()}, add_all(count(), 4));
    run(on, device, {x.rw()}, double_all(count()));
    run_declared(on, {x.read()}, look(seen, count()));
    graph = on.to_graph();
  }
  for (int launch = 0; launch < 3; ++launch) {
    synchronize(graph.launch());
    expect_doubled();
    expect_added(4);
    expect_doubled();
    EXPECT_EQ(seen, packed_);
    expect_home();
  }
  graph.check_errors();
  graph = {};
  on_.finalize();
}

}  // namespace
}  // namespace millstream::test
