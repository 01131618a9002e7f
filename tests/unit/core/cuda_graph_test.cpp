// SPDX-License-Identifier: Apache-2.0
/// Graphs that go from contexts to others and back, by the driver's own handles. Holds for the
/// look-alike driver and for a real one.
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/core/cuda_caller.hpp"

namespace millstream::test {
namespace {

class CudaGraph : public CudaCaller, public testing::WithParamInterface<bool> {
 protected:
  [[nodiscard]] untyped_context open_one(bool use_graph,
                                         std::optional<shared_resources> with = {}) {
    context_options options;
    options.on = machine({.name = "cuda", .devices = 0, .seed = {}});
    options.use_graph = use_graph;
    options.resources = std::move(with);
    return untyped_context(std::move(options));
  }
  [[nodiscard]] bool use_graph() const { return GetParam(); }
  /// What `body` issues to the caller's stream.
  template <class Body>
  [[nodiscard]] abi::graph capture(Body&& body) {
    CALL(cuStreamSynchronize, stream_);
    CALL(cuStreamBeginCapture, stream_, abi::capture_mode::relaxed);
    body();
    abi::graph captured = nullptr;
    CALL(cuStreamEndCapture, stream_, &captured);
    return captured;
  }
  void add_graph(untyped_context& on, abi::graph what, std::initializer_list<task_dep> deps,
                 std::string_view name = {}) {
    task_spec spec;
    spec.symbol = name;
    spec.deps = {deps.begin(), deps.size()};
    on.add_graph(spec, reinterpret_cast<std::uint64_t>(what));
  }
  /// x = 2 x by the caller's own means.
  [[nodiscard]] abi::graph capture_doubling(int block) {
    return capture(
        [&] { launch(add_, stream_, blocks_[block], blocks_[block], blocks_[block], count); });
  }
};
INSTANTIATE_TEST_SUITE_P(Both, CudaGraph, testing::Bool(), [](const auto& chosen) {
  return chosen.param ? "recorded" : "immediate";
});

TEST_P(CudaGraph, ANativeOneIsATaskAmongOthers) {
  abi::graph doubling = capture_doubling(0);
  untyped_context on = open_one(use_graph());
  const untyped_data a = in_device(on, 0);
  const untyped_data b = in_device(on, 1);
  submit_fill(on, a, 3);
  add_graph(on, doubling, {a.rw()}, "doubling");
  submit_sum(on, a, a, b);
  add_graph(on, doubling, {a.rw()}, "doubling");
  CALL(cuGraphDestroy, doubling);
  on.finish();
  EXPECT_EQ(value_of(0), 12U);
  EXPECT_EQ(value_of(1), 12U);
  EXPECT_EQ(on.stats().recording.instantiations, 1U);
  if (use_graph()) {
    EXPECT_EQ(on.stats().recording.nodes, 4U);
  } else {
    EXPECT_EQ(on.stats().recording.updates, 1U);
  }
}

TEST_P(CudaGraph, ExecutablesOfNativeOnesAreUpdated) {
  const shared_resources shared;
  for (std::uint32_t turn = 1; turn <= 3; ++turn) {
    abi::graph filling = capture([&] { launch(fill_, stream_, blocks_[0], turn, count); });
    untyped_context on = open_one(use_graph(), shared);
    const untyped_data a = in_device(on, 0);
    add_graph(on, filling, {a.write()});
    CALL(cuGraphDestroy, filling);
    on.finish();
    EXPECT_EQ(value_of(0), turn);
    EXPECT_EQ(on.stats().recording.instantiations, turn == 1 ? 1U : 0U);
    EXPECT_EQ(on.stats().recording.updates, turn == 1 ? 0U : 1U);
  }
}

// No recording takes a part that allocates; launched by itself it is as good as any.
TEST_P(CudaGraph, OneThatAllocatesIsRefusedWhereItWouldBeAPart) {
  abi::graph scratch = capture([&] {
    abi::device_pointer block = 0;
    CALL(cuMemAllocAsync, &block, block_bytes, stream_);
    launch(fill_, stream_, block, std::uint32_t{4}, count);
    launch(add_, stream_, blocks_[0], blocks_[0], block, count);
    CALL(cuMemFreeAsync, block, stream_);
  });
  untyped_context on = open_one(use_graph());
  const untyped_data a = in_device(on, 0);
  submit_fill(on, a, 3);
  std::string text;
  const errc answer = thrown([&] { add_graph(on, scratch, {a.rw()}, "scratch"); }, &text);
  if (use_graph()) {
    EXPECT_EQ(answer, errc::unsupported);
    EXPECT_TRUE(contains(text, "task 'scratch'") && contains(text, "memory allocation")) << text;
  } else {
    EXPECT_EQ(answer, errc::ok) << text;
  }
  submit_sum(on, a, a, a);
  on.finish();
  EXPECT_EQ(value_of(0), use_graph() ? 6U : 14U);
  CALL(cuGraphDestroy, scratch);
}

TEST_P(CudaGraph, WhatIsNoGraphIsRefused) {
  untyped_context on = open_one(use_graph());
  const untyped_data a = in_device(on, 0);
  std::string text;
  EXPECT_EQ(thrown([&] { add_graph(on, nullptr, {a.rw()}, "nothing"); }, &text),
            errc::invalid_value);
  EXPECT_TRUE(contains(text, "task 'nothing'")) << text;
  on.finish();
}

TEST_P(CudaGraph, OfOursIsLaunchedByUs) {
  untyped_context on = open_one(true);
  std::vector<std::uint32_t> values(count, 1);
  registration what;
  what.block = values.data();
  what.bytes = block_bytes;
  const untyped_data x = on.register_data(what);
  const untyped_data a = in_device(on, 0);
  submit_sum(on, x, x, a);
  submit_sum(on, a, x, x);
  recorded_graph graph = on.to_graph();
  for (const std::uint32_t wanted : {3U, 9U, 27U}) {
    EXPECT_EQ(graph.launch(stream()), stream());
    EXPECT_EQ(value_of(0), 2 * wanted / 3);
    EXPECT_EQ(values, std::vector<std::uint32_t>(count, wanted));
  }
}

// By the driver's means and by a context's, after our object is gone.
TEST_P(CudaGraph, OfOursIsCopiedByOthersAndKeepsWhatItUses) {
  auto values = std::make_shared<std::vector<std::uint32_t>>(count, 5);
  const std::weak_ptr<std::vector<std::uint32_t>> watched = values;
  abi::graph outer = nullptr;
  CALL(cuGraphCreate, &outer, 0);
  {
    untyped_context on = open_one(true);
    registration what;
    what.block = values->data();
    what.bytes = block_bytes;
    what.owner = std::exchange(values, nullptr);
    const untyped_data x = on.register_data(what);
    const untyped_data scratch = on.make_data(block_bytes);
    const untyped_data a = in_device(on, 0);
    submit_sum(on, x, x, scratch);
    submit_sum(on, scratch, x, a);
    const recorded_graph graph = on.to_graph();
    abi::graph_node child = nullptr;
    CALL(cuGraphAddChildGraphNode, &child, outer, nullptr, 0,
         reinterpret_cast<abi::graph>(graph.handle()));
    EXPECT_EQ(graph.node_count(), 3U);
  }
  fake_cuda::executable_graph ready = nullptr;
  CALL(cuGraphInstantiateWithFlags, &ready, outer, 0);
  for (int turn = 0; turn < 3; ++turn) {
    overwrite_all();
    CALL(cuGraphLaunch, ready, stream_);
    EXPECT_EQ(value_of(0), 15U);
  }
  {
    untyped_context inner = open_one(use_graph());
    const untyped_data a = in_device(inner, 0);
    add_graph(inner, outer, {a.write()});
    CALL(cuGraphDestroy, outer);
    submit_sum(inner, a, a, a);
    inner.finish();
  }
  EXPECT_EQ(value_of(0), 30U);
  EXPECT_FALSE(watched.expired());
  CALL(cuGraphExecDestroy, ready);
  CALL(cuStreamSynchronize, stream_);
  while (!watched.expired())  // on a thread of the library's, soon
    std::this_thread::yield();
}

TEST_P(CudaGraph, OfOursBecomesAPartOfWhatIsCaptured) {
  recorded_graph graph;
  {
    untyped_context on = open_one(true);
    const untyped_data a = in_device(on, 0);
    const untyped_data b = in_device(on, 1);
    submit_sum(on, a, a, b);
    graph = on.to_graph();
  }
  const abi::graph captured = capture([&] {
    launch(fill_, stream_, blocks_[0], std::uint32_t{4}, count);
    if (use_graph()) {
      static_cast<void>(graph.launch(stream()));
    } else {
      untyped_context on = open_here();
      const untyped_data b = in_device(on, 1);
      task_spec spec;
      const std::vector<task_dep> deps{b.write()};
      spec.deps = deps;
      on.add_graph(spec, graph);
      on.finish();
    }
    launch(add_, stream_, blocks_[2], blocks_[0], blocks_[1], count);
  });
  graph = {};
  fake_cuda::executable_graph ready = nullptr;
  CALL(cuGraphInstantiateWithFlags, &ready, captured, 0);
  CALL(cuGraphDestroy, captured);
  for (int turn = 0; turn < 3; ++turn) {
    overwrite_all();
    CALL(cuGraphLaunch, ready, stream_);
    EXPECT_EQ(value_of(2), 12U);
  }
  CALL(cuGraphExecDestroy, ready);
}

TEST_P(CudaGraph, HostFunctionsAndStreamsAreNoPartOfIt) {
  untyped_context on = open_one(true);
  const untyped_data x = on.make_data(8, "x");
  run(on, exec_place::host(), {x.write()}, nothing, "by the host", task_kind::host_launch);
  std::string text;
  EXPECT_EQ(thrown([&] { static_cast<void>(on.to_graph()); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "by the host")) << text;
  on.finish();
  untyped_context here = open_here(true);
  EXPECT_EQ(thrown([&] { static_cast<void>(here.to_graph()); }, &text), errc::usage);
  EXPECT_TRUE(contains(text, "stream")) << text;
  here.finish();
}

}  // namespace
}  // namespace millstream::test
