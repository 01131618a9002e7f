// SPDX-License-Identifier: Apache-2.0
/// Kernels that may begin before those that they come after have ended.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <vector>

#include "tests/unit/cuda/graph_test.hpp"

namespace cuda_test {
namespace {

/// How many edges are of which kind.
struct edge_counts {
  std::size_t ordinary = 0;
  std::size_t programmatic = 0;
  friend bool operator==(const edge_counts&, const edge_counts&) = default;
};

class GraphEdges : public GraphTest {
 protected:
  graph_node add_fill_kernel(std::uint32_t with) {
    auto arguments = filling(block_, with, 1);
    return value(graph_->add_kernel(launch_of(fill_, arguments), {}));
  }
  /// Doubles the first word.
  graph_node add_sum(node_span after, bool programmatic) {
    auto arguments = adding(block_, block_, block_, 1);
    backend::launch_request request = launch_of(add_, arguments);
    request.programmatic = programmatic;
    return value(graph_->add_kernel(request, after));
  }
  /// As the driver tells. Nobody captures into the graph.
  edge_counts edges() {
    const auto raw =
        reinterpret_cast<abi::graph>(static_cast<std::uintptr_t>(value(graph_->hand_out())));
    std::size_t count = 0;
    EXPECT_EQ(call.cuGraphGetEdges(raw, nullptr, nullptr, nullptr, &count), abi::result::success);
    std::vector<abi::graph_node> from(count);
    std::vector<abi::graph_node> to(count);
    std::vector<abi::graph_edge> kinds(count);
    EXPECT_EQ(call.cuGraphGetEdges(raw, from.data(), to.data(), kinds.data(), &count),
              abi::result::success);
    const auto early = std::count_if(kinds.begin(), kinds.end(), [](const abi::graph_edge& each) {
      return each.type == abi::edge_type::programmatic &&
             each.from_port == abi::edge_port::programmatic && each.to_port == 0;
    });
    return {count - static_cast<std::size_t>(early), static_cast<std::size_t>(early)};
  }
  std::uint32_t first_word() {
    const bytes got = read(*queue_, block_, sizeof(std::uint32_t));
    std::uint32_t word = 0;
    std::memcpy(&word, got.data(), sizeof word);
    return word;
  }
};

TEST_F(GraphEdges, AProgrammaticKernelNeedNotWaitForTheEndsOfKernels) {
  if (fake().is_fake) control.clear_counts();
  const graph_node first = add_fill_kernel(3);
  const graph_node second = add_sum({&first, 1}, true);
  const graph_node words = value(graph_->add_fill(fill_of(word(8), 4, 4), {}));
  const std::array both{second, words};
  const graph_node third = add_sum(both, true);
  static_cast<void>(add_sum({&third, 1}, false));
  if (fake().is_fake) {
    EXPECT_EQ(control.count("cuGraphAddNode"), 2U);
    EXPECT_EQ(control.count("cuGraphAddKernelNode"), 2U);
    EXPECT_EQ(control.count("cuGraphKernelNodeSetAttribute"), 0U);
    EXPECT_EQ(control.count("cuGraphNodeGetType"), 0U);
  }
  EXPECT_EQ(edges(), (edge_counts{2, 2}));
  EXPECT_EQ(graph_->node_count(), 5U);
  run();
  EXPECT_EQ(first_word(), 24U);
}

// Neither kernel allows the next one anything before its end.
TEST_F(GraphEdges, ProgrammaticKernelsOfAChainSeeWhatWasWritten) {
  constexpr std::uint32_t length = 20;
  graph_node last = add_fill_kernel(1);
  for (std::uint32_t i = 1; i < length; ++i)
    last = add_sum({&last, 1}, true);
  EXPECT_EQ(edges(), (edge_counts{0, length - 1}));
  const auto ready = value(graph_->instantiate());
  for (int launch = 0; launch < 3; ++launch) {
    ok(ready->launch(*queue_));
    finish(*queue_);
    EXPECT_EQ(first_word(), 1U << (length - 1));
  }
}

TEST_F(GraphEdges, ManyKernelsMayBeBeforeOne) {
  constexpr std::size_t count = 40;
  std::vector<graph_node> before;
  for (std::size_t i = 0; i < count; ++i) {
    auto arguments = filling(word(i), 5, 1);
    before.push_back(value(graph_->add_kernel(launch_of(fill_, arguments), {})));
  }
  static_cast<void>(add_sum(before, true));
  EXPECT_EQ(edges(), (edge_counts{0, count}));
  run();
  EXPECT_EQ(first_word(), 10U);
}

TEST_F(GraphEdges, BehindABodyOrNothingThereAreNone) {
  if (fake().is_fake) control.clear_counts();
  const queue_ptr body = make_queue();
  node_list ends;
  ok(graph_->begin_body(*body, {}));
  fill(*body, block_, 4, 1);
  ok(graph_->end_body(*body, ends));
  static_cast<void>(add_sum({ends.begin(), ends.size()}, true));
  static_cast<void>(add_sum({}, true));
  EXPECT_EQ(edges(), (edge_counts{1, 0}));
  if (fake().is_fake) {
    EXPECT_EQ(control.count("cuGraphAddNode"), 0U);
    EXPECT_EQ(control.count("cuGraphCreate"), 0U);  // nothing is tried beside
  }
}

TEST_F(GraphEdges, AttributesAreSetBesides) {
  const graph_node first = add_fill_kernel(3);
  auto arguments = adding(block_, block_, block_, 1);
  backend::launch_request request = launch_of(add_, arguments);
  request.grid = {2, 1, 1};
  request.cluster = {2, 1, 1};
  request.programmatic = true;
  static_cast<void>(value(graph_->add_kernel(request, {&first, 1})));
  EXPECT_EQ(edges(), (edge_counts{0, 1}));
  run();
  EXPECT_EQ(first_word(), 6U);
}

TEST_F(GraphEdges, AnUpdateComparesThem) {
  const auto chain = [&](std::uint32_t first, bool programmatic) {
    graph_ = value(device().make_graph());
    const graph_node before = add_fill_kernel(first);
    static_cast<void>(add_sum({&before, 1}, programmatic));
  };
  chain(1, true);
  const auto ready = value(graph_->instantiate());
  chain(5, true);
  ok(graph_->update(*ready));
  chain(7, false);
  EXPECT_EQ(graph_->update(*ready).code(), errc::unsupported);
  ok(ready->launch(*queue_));
  finish(*queue_);
  EXPECT_EQ(first_word(), 10U);
}

class GraphEdgesOfOld : public GraphEdges {
 protected:
  void SetUp() override {
    setenv("MILLSTREAM_FAKE_CUDA_VERSION", "12020", 1);
    GraphEdges::SetUp();
  }
  void TearDown() override {
    unsetenv("MILLSTREAM_FAKE_CUDA_VERSION");
    GraphEdges::TearDown();
  }
};

TEST_F(GraphEdgesOfOld, AnOlderDriverHasOrdinaryOnesOnly) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  control.clear_counts();
  const graph_node first = add_fill_kernel(3);
  static_cast<void>(add_sum({&first, 1}, true));
  EXPECT_EQ(control.count("cuGraphAddKernelNode"), 2U);
  run();
  EXPECT_EQ(first_word(), 6U);
}

}  // namespace
}  // namespace cuda_test
