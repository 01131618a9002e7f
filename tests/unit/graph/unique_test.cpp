// SPDX-License-Identifier: Apache-2.0
/// What a node comes after is named once each, in the order of the calls.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "graph/lane_queue.hpp"

namespace millstream::graph {
namespace {

std::vector<std::uintptr_t> unique(const std::vector<std::uintptr_t>& names) {
  backend::node_list nodes;
  for (const std::uintptr_t each : names)
    nodes.push_back(backend::graph_node{each});
  std::vector<placed_node> scratch;
  make_unique(nodes, scratch);
  std::vector<std::uintptr_t> left;
  for (const backend::graph_node each : nodes)
    left.push_back(static_cast<std::uintptr_t>(each));
  return left;
}

TEST(MakeUnique, FewKeepTheirOrder) {
  EXPECT_EQ(unique({}), std::vector<std::uintptr_t>{});
  EXPECT_EQ(unique({7}), std::vector<std::uintptr_t>{7});
  EXPECT_EQ(unique({9, 3, 9, 5, 3, 1}), (std::vector<std::uintptr_t>{9, 3, 5, 1}));
}

TEST(MakeUnique, ManyKeepTheirOrder) {
  std::vector<std::uintptr_t> names;
  std::vector<std::uintptr_t> right;
  for (std::uintptr_t i = 0; i < 1000; ++i) {
    const std::uintptr_t name = (i * 7919) % 1009 + 1;
    right.push_back(name);
    names.push_back(name);
    names.push_back(right[i / 2]);
  }
  EXPECT_EQ(unique(names), right);
}

}  // namespace
}  // namespace millstream::graph
