// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "backend/graph_shape.hpp"

namespace millstream::backend {
namespace {

const std::string who = "device 'x'";

graph_node add(graph_shape& to, node_kind kind, std::vector<graph_node> after = {}, int place = 0) {
  auto added = to.add(kind, place, after, who);
  EXPECT_TRUE(added.ok()) << added.why().text();
  return added.value();
}
std::vector<graph_shape::index> before(const graph_shape& in, std::size_t at) {
  const auto all = in.predecessors(at);
  return {all.begin(), all.end()};
}
graph_shape pair(node_kind first, node_kind second, bool joined, int place = 0) {
  graph_shape made;
  const graph_node one = add(made, first);
  add(made, second, joined ? std::vector{one} : std::vector<graph_node>{}, place);
  return made;
}

TEST(GraphShape, KeepsKindsPlacesAndEdges) {
  graph_shape shape;
  const graph_node a = add(shape, node_kind::kernel, {}, 1);
  const graph_node b = add(shape, node_kind::copy, {a});
  add(shape, node_kind::host, {b, a}, -1);
  EXPECT_EQ(shape.size(), 3U);
  EXPECT_LT(a, b);
  EXPECT_EQ(shape.kind(2), node_kind::host);
  EXPECT_EQ(shape.place(0), 1);
  EXPECT_EQ(shape.place(2), -1);
  EXPECT_TRUE(before(shape, 0).empty());
  EXPECT_EQ(before(shape, 2), (std::vector<graph_shape::index>{0, 1}));
}

TEST(GraphShape, RefusesStrangersAndRepetitionsAndStaysAsItWas) {
  graph_shape shape;
  graph_shape other;
  const graph_node own = add(shape, node_kind::fill);
  const graph_node foreign = add(other, node_kind::fill);
  const auto twice = shape.add(node_kind::fill, 0, std::array{own, own}, who);
  EXPECT_EQ(twice.why().code(), errc::invalid_value);
  EXPECT_EQ(twice.why().text(),
            "device 'x' cannot put a node behind node 0 twice; name each predecessor once");
  EXPECT_EQ(shape.add(node_kind::fill, 0, std::array{own, foreign}, who).why().code(),
            errc::invalid_value);
  EXPECT_EQ(shape.size(), 1U);
  add(shape, node_kind::fill, {own});
  EXPECT_EQ(before(shape, 1), (std::vector<graph_shape::index>{0}));
}

TEST(GraphShape, NodesOfTheLifeBeforeAreStrangers) {
  graph_shape shape;
  const graph_node old = add(shape, node_kind::fill);
  shape.clear();
  EXPECT_EQ(shape.size(), 0U);
  add(shape, node_kind::fill);
  EXPECT_FALSE(shape.add(node_kind::fill, 0, std::array{old}, who).ok());
}

TEST(GraphShape, NoneIsNoPredecessor) {
  graph_shape shape;
  const graph_node first = add(shape, node_kind::fill, {graph_node::none, graph_node::none});
  add(shape, node_kind::fill, {graph_node::none, first});
  EXPECT_EQ(before(shape, 1).size(), 1U);
}

TEST(GraphShape, SaysWhereTwoDiffer) {
  const graph_shape same = pair(node_kind::copy, node_kind::fill, true);
  EXPECT_TRUE(same.check_same(pair(node_kind::copy, node_kind::fill, true), who).ok());
  const auto difference = [&](const graph_shape& from) {
    const status answer = same.check_same(from, who);
    EXPECT_EQ(answer.code(), errc::unsupported);
    return answer.text();
  };
  const auto says = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(says(difference(graph_shape()), "it has 2 nodes and not 0"));
  EXPECT_TRUE(says(difference(pair(node_kind::copy, node_kind::host, true)),
                   "node 1 is of the kind fill and not host"));
  EXPECT_TRUE(says(difference(pair(node_kind::copy, node_kind::fill, true, 1)),
                   "node 1 runs at device 0 and not 1"));
  EXPECT_TRUE(says(difference(pair(node_kind::copy, node_kind::fill, false)),
                   "node 1 comes after other nodes"));
}

TEST(GraphShape, ChildrenAreComparedToo) {
  const auto with_child = [](const graph_shape& child) {
    graph_shape made;
    EXPECT_TRUE(made.add_child(std::make_shared<const graph_shape>(child), {}, who).ok());
    return made;
  };
  const graph_shape one = with_child(pair(node_kind::copy, node_kind::fill, true));
  EXPECT_TRUE(one.check_same(with_child(pair(node_kind::copy, node_kind::fill, true)), who).ok());
  const status differs =
      one.check_same(with_child(pair(node_kind::copy, node_kind::fill, false)), who);
  EXPECT_NE(differs.text().find("in the child node 0 node 1 comes after other nodes"),
            std::string::npos);
}

TEST(GraphShape, IsDrawnWithKindsAndEdges) {
  EXPECT_EQ(pair(node_kind::copy, node_kind::fill, true).dot(),
            "digraph millstream {\n  n0 [label=\"copy\"];\n  n1 [label=\"fill\"];\n"
            "  n0 -> n1;\n}\n");
}

}  // namespace
}  // namespace millstream::backend
