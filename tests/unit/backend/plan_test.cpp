// SPDX-License-Identifier: Apache-2.0
#include "backend/host/plan.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace millstream::backend::host {
namespace {

const std::string who = "device 'x'";

class recorder {
 public:
  graph_node fill(std::vector<graph_node> after = {}) {
    made_->work.emplace_back(fill_request{});
    return made_->shape.add(node_kind::fill, 0, after, who).value();
  }
  graph_node child(const recorder& inner, std::vector<graph_node> after = {}) {
    const std::shared_ptr<const recording> what = inner.made_;
    made_->work.emplace_back(what);
    return made_->shape.add_child({what, &what->shape}, after, who).value();
  }
  [[nodiscard]] plan planned() const { return plan(*made_); }

 private:
  std::shared_ptr<recording> made_ = std::make_shared<recording>();
};

std::vector<plan::index> after(const plan& in, plan::index step) {
  const auto all = in.successors(step);
  return {all.begin(), all.end()};
}
using steps = std::vector<plan::index>;

TEST(Plan, TurnsEdgesRound) {
  recorder graph;
  const graph_node a = graph.fill();
  const graph_node b = graph.fill({a});
  const graph_node c = graph.fill({a});
  graph.fill({b, c});
  const plan made = graph.planned();
  ASSERT_EQ(made.size(), 4U);
  EXPECT_EQ(after(made, 0), (steps{1, 2}));
  EXPECT_EQ(after(made, 1), (steps{3}));
  EXPECT_EQ(after(made, 2), (steps{3}));
  EXPECT_EQ(after(made, 3), steps{});
  EXPECT_EQ(made.predecessors(0), 0U);
  EXPECT_EQ(made.predecessors(3), 2U);
}

TEST(Plan, PutsAChildBetweenTwoEmptySteps) {
  recorder child;
  child.fill();
  child.fill();
  recorder graph;
  const graph_node first = graph.fill();
  graph.fill({graph.child(child, {first})});
  const plan made = graph.planned();
  // The first node, the entry, two nodes, the exit, the last node.
  ASSERT_EQ(made.size(), 6U);
  EXPECT_TRUE(made.is_empty(1));
  EXPECT_TRUE(made.is_empty(4));
  EXPECT_EQ(after(made, 0), (steps{1}));
  EXPECT_EQ(after(made, 1), (steps{2, 3, 4}));
  EXPECT_EQ(after(made, 2), (steps{4}));
  EXPECT_EQ(after(made, 3), (steps{4}));
  EXPECT_EQ(after(made, 4), (steps{5}));
}

TEST(Plan, OnlyTheLastNodesOfAChildLeadOut) {
  recorder innermost;
  innermost.fill();
  recorder child;
  child.fill({child.child(innermost)});
  recorder graph;
  graph.child(child);
  const plan made = graph.planned();
  // Outer entry, inner entry, node, inner exit, node, outer exit.
  ASSERT_EQ(made.size(), 6U);
  EXPECT_EQ(after(made, 3), (steps{4}));
  EXPECT_EQ(after(made, 4), (steps{5}));
  EXPECT_EQ(made.predecessors(5), 2U);
}

TEST(Plan, AnEmptyChildStillOrders) {
  recorder graph;
  graph.fill({graph.child(recorder(), {graph.fill()})});
  const plan made = graph.planned();
  ASSERT_EQ(made.size(), 4U);
  EXPECT_EQ(after(made, 0), (steps{1}));
  EXPECT_EQ(after(made, 1), (steps{2}));
  EXPECT_EQ(after(made, 2), (steps{3}));
}

}  // namespace
}  // namespace millstream::backend::host
