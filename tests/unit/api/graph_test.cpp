// SPDX-License-Identifier: Apache-2.0
// Graphs that typed contexts give out and take in, on the host machine.
#include "support.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace {

ms::context_options recorded() {
  ms::context_options options;
  options.on = host_machine();
  options.use_graph = true;
  return options;
}

ms::recorded_graph doubling(std::vector<double>& x) {
  ms::context ctx(recorded());
  const auto lx = ctx.logical_data(x);
  ctx.parallel_for(lx.shape(), lx.rw(), [](std::size_t i, auto v) { v(i) *= 2; });
  return ctx.to_graph();
}

TEST(GraphApi, EachLaunchDoesAllOfIt) {
  std::vector<double> x{1.0, 3.0};
  ms::recorded_graph graph = doubling(x);
  EXPECT_EQ(x, (std::vector<double>{1.0, 3.0}));
  for (int i = 0; i < 3; ++i)
    ms::synchronize(graph.launch());
  EXPECT_EQ(x, (std::vector<double>{8.0, 24.0}));
  EXPECT_EQ(graph.where().name(), "host");
}

TEST(GraphApi, AGraphIsATaskOfAContext) {
  std::vector<double> x{1.0};
  const ms::recorded_graph graph = doubling(x);
  ms::context ctx(host_machine());
  const auto order = ctx.token();
  ctx.add_graph(graph, order.rw());
  ctx.add_graph({.symbol = "again"}, graph, order.rw());
  ctx.add_graph(ms::exec_place::device(1), graph, order.rw());
  ctx.finalize();
  EXPECT_EQ(x[0], 8.0);
}

TEST(GraphApi, AnEmptyGraphSaysSo) {
  ms::recorded_graph none;
  EXPECT_FALSE(none);
  EXPECT_THROW(static_cast<void>(none.launch()), ms::error);
  EXPECT_THROW(static_cast<void>(none.node_count()), ms::error);
  ms::context ctx(host_machine());
  EXPECT_THROW(ctx.add_graph(none, ctx.token().rw()), ms::error);
}

TEST(GraphApi, NativeGraphsAreNamedInTheError) {
  ms::context ctx(host_machine());
  try {
    ctx.add_graph({.symbol = "theirs"}, std::uint64_t{4096}, ctx.token().rw());
    FAIL() << "a host machine has no native graphs";
  } catch (const ms::error& refused) {
    EXPECT_EQ(refused.code(), ms::errc::unsupported);
    EXPECT_NE(std::string(refused.what()).find("task 'theirs'"), std::string::npos)
        << refused.what();
  }
}

}  // namespace
