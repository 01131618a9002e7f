// SPDX-License-Identifier: Apache-2.0
// Graphs that are made node by node, updated, and captured into by several streams.
#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/unit/fake_cuda/driver.hpp"

namespace fake_cuda_test {
namespace {

class Graph : public DriverTest {
 protected:
  graph make_graph() {
    graph made = nullptr;
    OK(call.cuGraphCreate(&made, 0));
    finally([this, made] {
      std::size_t count = 0;  // a capture that failed took it along
      if (call.cuGraphGetNodes(made, nullptr, &count) == result::success) call.cuGraphDestroy(made);
    });
    return made;
  }
  executable_graph instantiate(graph what) {
    executable_graph made = nullptr;
    graph_instantiate_parameters how{};
    OK(call.cuGraphInstantiateWithParams(&made, what, &how));
    EXPECT_EQ(how.result, graph_instantiate_result::success);
    finally([this, made] { call.cuGraphExecDestroy(made); });
    return made;
  }
  result add_kernel(graph_node* made, graph into, std::vector<graph_node> after,
                    const kernel_node& what) {
    return call.cuGraphAddKernelNode(made, into, after.data(), after.size(), &what);
  }
  /// A node that adds the second word to the first.
  graph_node add_sum(graph into, std::vector<graph_node> after, device_pointer to) {
    device_pointer second = to + 4;
    std::uint64_t count = 1;
    std::array<void*, 4> list{&to, &to, &second, &count};
    const kernel_node what = kernel_of("test_add_u32", list.data());
    graph_node made = nullptr;
    OK(add_kernel(&made, into, std::move(after), what));
    return made;
  }
  kernel_node kernel_of(const char* name, void** parameters) {
    kernel_node what{};
    what.entry = find_kernel(name);
    what.grid_x = what.grid_y = what.grid_z = 1;
    what.block_x = 32;
    what.block_y = what.block_z = 1;
    what.parameters = parameters;
    return what;
  }
  result add_fill(graph_node* made, graph into, std::vector<graph_node> after, device_pointer to,
                  std::uint32_t value) {
    const fill_node what{to, 0, value, 4, 1, 1};
    return call.cuGraphAddMemsetNode(made, into, after.data(), after.size(), &what, here);
  }
  void run(graph what) {
    const stream on = make_stream();
    OK(call.cuGraphLaunch(instantiate(what), on));
    OK(call.cuStreamSynchronize(on));
  }
  graph_update_result update(executable_graph target, graph from, result wanted) {
    graph_update_info info{};
    EXPECT_EQ(call.cuGraphExecUpdate(target, from, &info), wanted);
    return info.result;
  }
  std::size_t node_count(graph of) {
    std::size_t count = 0;
    OK(call.cuGraphGetNodes(of, nullptr, &count));
    return count;
  }
};

/// Nodes that copy four bytes between a device and memory of the host, and that write there.
class GraphCopy : public Graph {
 protected:
  struct written {
    std::uint32_t* to;
    std::uint32_t value;
    static void now(void* of) {
      const auto* const what = static_cast<const written*>(of);
      *what->to = what->value;
    }
  };

  graph_node add_copy(graph into, std::vector<graph_node> after, const copy_3d& what) {
    graph_node made = nullptr;
    OK(call.cuGraphAddMemcpyNode(&made, into, after.data(), after.size(), &what, here));
    return made;
  }
  graph_node to_host(graph into, std::vector<graph_node> after, std::uint32_t* to,
                     device_pointer from) {
    copy_3d what = word();
    what.to_type = memory_type::on_host;
    what.to_host = to;
    what.from_type = memory_type::on_device;
    what.from_device = from;
    return add_copy(into, std::move(after), what);
  }
  graph_node to_device(graph into, std::vector<graph_node> after, device_pointer to,
                       const std::uint32_t* from) {
    copy_3d what = word();
    what.to_type = memory_type::on_device;
    what.to_device = to;
    what.from_type = memory_type::on_host;
    what.from_host = from;
    return add_copy(into, std::move(after), what);
  }
  graph_node write(graph into, std::vector<graph_node> after, written& what) {
    const host_node by{&written::now, &what};
    graph_node made = nullptr;
    OK(call.cuGraphAddHostNode(&made, into, after.data(), after.size(), &by));
    return made;
  }
  graph_node fill(graph into, device_pointer to, std::uint32_t value) {
    graph_node made = nullptr;
    OK(add_fill(&made, into, {}, to, value));
    return made;
  }

 private:
  static copy_3d word() {
    copy_3d what{};
    what.width_bytes = 4;
    what.height = what.depth = 1;
    return what;
  }
};

class FakeGraphCopy : public GraphCopy {
 protected:
  void SetUp() override {
    if (!the_driver().is_fake) GTEST_SKIP() << "a real driver need not do that";
    GraphCopy::SetUp();
  }
  void TearDown() override {
    if (the_driver().is_fake) GraphCopy::TearDown();
  }
};

TEST_F(GraphCopy, ToOrdinaryMemoryTheLaunchWaits) {
  const stream on = make_stream();
  const device_pointer block = make_block(4);
  std::uint32_t got = 0;
  const graph into = make_graph();
  to_host(into, {fill(into, block, 7)}, &got, block);
  OK(call.cuGraphLaunch(instantiate(into), on));
  EXPECT_EQ(got, 7U);
  OK(call.cuStreamSynchronize(on));
}

TEST_F(GraphCopy, WhatCopiesBringToOrdinaryMemoryIsSeen) {
  const stream on = make_stream();
  const device_pointer block = make_block(12);
  std::uint32_t between = 0;
  const graph into = make_graph();
  const graph_node home = to_host(into, {fill(into, block, 7)}, &between, block);
  to_device(into, {home}, block + 4, &between);
  const graph later = make_graph();
  to_device(later, {}, block + 8, &between);
  OK(call.cuGraphLaunch(instantiate(into), on));
  OK(call.cuGraphLaunch(instantiate(later), on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read_words(block, 3), (std::vector<std::uint32_t>{7, 7, 7}));
}

TEST_F(GraphCopy, WhatHostNodesWriteToPageLockedMemoryIsSeen) {
  const device_pointer block = make_block(4);
  auto* const between = make_pinned<std::uint32_t>(1);
  *between = 1;
  written node{between, 2};
  const graph into = make_graph();
  to_device(into, {write(into, {}, node)}, block, between);
  run(into);
  EXPECT_EQ(read_word(block), 2U);
}

TEST_F(FakeGraphCopy, WhatHostNodesWriteToOrdinaryMemoryIsNotSeen) {
  const stream on = make_stream();
  const device_pointer block = make_block(8);
  std::uint32_t between = 1;
  written node{&between, 2};
  const graph into = make_graph();
  to_device(into, {write(into, {}, node)}, block, &between);
  const graph later = make_graph();
  to_device(later, {}, block + 4, &between);
  OK(call.cuGraphLaunch(instantiate(into), on));
  OK(call.cuGraphLaunch(instantiate(later), on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read_words(block, 2), (std::vector<std::uint32_t>{1, 1}));
  EXPECT_EQ(between, 2U);
}

TEST_F(FakeGraphCopy, TheLaunchWaitsForHostNodesThatWereMadeBefore) {
  const stream on = make_stream();
  const device_pointer block = make_block(4);
  std::uint32_t got = 0;
  std::uint32_t beside = 0;
  std::uint32_t after = 0;
  written first{&beside, 1};
  written second{&after, 1};
  const graph into = make_graph();
  write(into, {}, first);
  to_host(into, {fill(into, block, 7)}, &got, block);
  write(into, {}, second);
  OK(call.cuGraphLaunch(instantiate(into), on));
  EXPECT_EQ(beside, 1U);
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(after, 1U);
}

struct end_count {
  std::atomic<int> ends{0};
  static void note(void* of) {
    auto* const self = static_cast<end_count*>(of);
    ++self->ends;
    self->ends.notify_all();
  }
};

TEST_F(Graph, AUserObjectEndsWithTheLastThatHoldsIt) {
  const stream on = make_stream();
  end_count seen;
  user_object object = nullptr;
  OK(call.cuUserObjectCreate(&object, &seen, &end_count::note, 2,
                             user_object_flags::no_destructor_sync));
  graph inner = nullptr;
  graph outer = nullptr;
  OK(call.cuGraphCreate(&inner, 0));
  OK(call.cuGraphCreate(&outer, 0));
  OK(call.cuGraphRetainUserObject(inner, object, 1, retain_user_object_flags::move));
  graph_node made = nullptr;
  OK(call.cuGraphAddChildGraphNode(&made, outer, nullptr, 0, inner));
  OK(call.cuGraphDestroy(inner));
  executable_graph whole = nullptr;
  graph_instantiate_parameters how{};
  OK(call.cuGraphInstantiateWithParams(&whole, outer, &how));
  OK(call.cuGraphDestroy(outer));
  OK(call.cuUserObjectRelease(object, 1));
  OK(call.cuGraphLaunch(whole, on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(seen.ends, 0);
  OK(call.cuGraphExecDestroy(whole));
  OK(call.cuStreamSynchronize(on));
  seen.ends.wait(0);
  EXPECT_EQ(seen.ends, 1);
}

TEST_F(Graph, AUserObjectOfAGraphThatIsRecordedIsKept) {
  const stream on = make_stream();
  end_count seen;
  user_object object = nullptr;
  OK(call.cuUserObjectCreate(&object, &seen, &end_count::note, 1,
                             user_object_flags::no_destructor_sync));
  OK(call.cuStreamBeginCapture(on, capture_mode::relaxed));
  auto now = capture_status::none;
  graph into = nullptr;
  OK(call.cuStreamGetCaptureInfo(on, &now, nullptr, &into, nullptr, nullptr, nullptr));
  OK(call.cuGraphRetainUserObject(into, object, 1, retain_user_object_flags::move));
  graph captured = nullptr;
  OK(call.cuStreamEndCapture(on, &captured));
  EXPECT_EQ(captured, into);
  EXPECT_EQ(seen.ends, 0);
  OK(call.cuGraphDestroy(captured));
  seen.ends.wait(0);
  EXPECT_EQ(seen.ends, 1);
}

TEST_F(Graph, AChildJoinsARecordingThatIsToldSo) {
  const device_pointer words = make_block(8);
  fill_words(words, 0, 2);
  const graph part = make_graph();
  graph_node one = nullptr;
  OK(add_fill(&one, part, {}, words + 4, 5));
  const stream on = make_stream();
  OK(call.cuStreamBeginCapture(on, capture_mode::relaxed));
  OK(call.cuMemsetD32Async(words, 2, 2, on));
  auto now = capture_status::none;
  graph into = nullptr;
  const graph_node* after = nullptr;
  const graph_edge* edges = nullptr;
  std::size_t count = 0;
  OK(call.cuStreamGetCaptureInfo(on, &now, nullptr, &into, &after, &edges, &count));
  graph_node child = nullptr;
  OK(call.cuGraphAddChildGraphNode(&child, into, after, count, part));
  OK(call.cuStreamUpdateCaptureDependencies(on, &child, nullptr, 1,
                                            capture_dependencies_flags::set));
  OK(launch(on, "test_add_u32", words, words, words + 4, std::uint64_t{1}));
  graph captured = nullptr;
  OK(call.cuStreamEndCapture(on, &captured));
  for (int turn = 0; turn < 3; ++turn) {
    fill_words(words, 9, 2);
    run(captured);
    EXPECT_EQ(read_words(words, 2), (std::vector<std::uint32_t>{7, 5}));
  }
  OK(call.cuGraphDestroy(captured));
}

TEST_F(Graph, NodesRunInTheOrderOfTheirEdges) {
  const device_pointer words = make_block(8);
  const graph into = make_graph();
  graph_node first = nullptr;
  graph_node second = nullptr;
  OK(add_fill(&first, into, {}, words, 3));
  OK(add_fill(&second, into, {}, words + 4, 4));
  const graph_node sum = add_sum(into, {first, second}, words);
  add_sum(into, {sum}, words);
  run(into);
  EXPECT_EQ(read_word(words), 11U);
}

TEST_F(Graph, APredecessorNamedTwiceIsRefused) {
  const graph into = make_graph();
  const device_pointer word = make_block(4);
  graph_node first = nullptr;
  graph_node none = nullptr;
  OK(add_fill(&first, into, {}, word, 1));
  EXPECT_EQ(add_fill(&none, into, {first, first}, word, 2), result::invalid_value);
  EXPECT_EQ(node_count(into), 1U);
}

constexpr graph_edge early{edge_port::programmatic, 0, edge_type::programmatic, {}};

class GraphEdges : public Graph {
 protected:
  void SetUp() override {
    Graph::SetUp();
    words_ = make_block(8);
  }
  /// A kernel that adds the second word to the first.
  result add(graph_node* made, graph into, std::vector<graph_node> after,
             std::vector<graph_edge> kinds) {
    device_pointer to = words_;
    device_pointer second = to + 4;
    std::uint64_t count = 1;
    std::array<void*, 4> list{&to, &to, &second, &count};
    any_node what{};
    what.type = node_type::launch;
    what.launch = kernel_of("test_add_u32", list.data());
    return call.cuGraphAddNode(made, into, after.data(), kinds.empty() ? nullptr : kinds.data(),
                               after.size(), &what);
  }
  /// Two kernels, one behind the other by an edge of that kind.
  graph two(const graph_edge& kind) {
    const graph into = make_graph();
    graph_node first = nullptr;
    graph_node second = nullptr;
    OK(add(&first, into, {}, {}));
    OK(add(&second, into, {first}, {kind}));
    return into;
  }
  device_pointer words_ = 0;
};

TEST_F(GraphEdges, AKernelMayBeginBeforeAnotherEnds) {
  const graph into = two(early);
  graph_node from = nullptr;
  graph_node to = nullptr;
  graph_edge kind{};
  std::size_t count = 1;
  EXPECT_EQ(call.cuGraphGetEdges(into, &from, &to, nullptr, &count), result::lossy_query);
  OK(call.cuGraphGetEdges(into, &from, &to, &kind, &count));
  EXPECT_EQ(count, 1U);
  EXPECT_NE(from, to);
  EXPECT_EQ(std::memcmp(&kind, &early, sizeof kind), 0);
  fill_words(words_, 3, 2);
  run(into);
  EXPECT_EQ(read_word(words_), 9U);
}

TEST_F(GraphEdges, OnlyKernelsHaveOthersThanOrdinaryOnes) {
  const graph into = make_graph();
  graph_node fill = nullptr;
  graph_node made = nullptr;
  OK(add_fill(&fill, into, {}, words_, 1));
  EXPECT_EQ(add(&made, into, {fill}, {early}), result::invalid_value);
  graph_edge wrong = early;
  wrong.to_port = 1;
  graph_node kernel = nullptr;
  OK(add(&kernel, into, {fill}, {graph_edge{}}));
  EXPECT_EQ(add(&made, into, {kernel}, {wrong}), result::invalid_value);
  wrong = {edge_port::end, 0, edge_type::programmatic, {}};
  EXPECT_EQ(add(&made, into, {kernel}, {wrong}), result::invalid_value);
  wrong = {edge_port::programmatic, 0, edge_type::ordinary, {}};
  EXPECT_EQ(add(&made, into, {kernel}, {wrong}), result::invalid_value);
  EXPECT_EQ(node_count(into), 2U);
  OK(add(&made, into, {fill, kernel}, {graph_edge{}, early}));
  OK(call.cuGraphDestroyNode(kernel));
  std::size_t edges = 0;
  OK(call.cuGraphGetEdges(into, nullptr, nullptr, nullptr, &edges));
  EXPECT_EQ(edges, 1U);
}

TEST_F(GraphEdges, AnUpdateComparesThem) {
  const executable_graph ready = instantiate(two(early));
  EXPECT_EQ(update(ready, two(early), result::success), graph_update_result::success);
  EXPECT_EQ(update(ready, two({}), result::graph_update_failure),
            graph_update_result::topology_changed);
}

TEST_F(Graph, ABlockIsCopiedByOneNode) {
  const graph into = make_graph();
  const device_pointer block = make_block(64);
  fill_words(block, 7, 16);
  std::array<std::uint32_t, 4> got{};
  copy_3d what{};
  what.from_type = memory_type::on_device;
  what.from_device = block;
  what.from_pitch = 16;
  what.to_type = memory_type::on_host;
  what.to_host = got.data();
  what.to_pitch = 8;
  what.width_bytes = 8;
  what.height = 2;
  what.depth = 1;
  graph_node made = nullptr;
  OK(call.cuGraphAddMemcpyNode(&made, into, nullptr, 0, &what, here));
  run(into);
  EXPECT_EQ(got, (std::array<std::uint32_t, 4>{7, 7, 7, 7}));
}

TEST_F(Graph, ARowNeedsNoPitch) {
  const graph into = make_graph();
  const device_pointer block = make_block(64);
  fill_words(block, 9, 16);
  std::array<std::uint32_t, 16> got{};
  copy_3d what{};
  what.from_type = memory_type::on_device;
  what.from_device = block;
  what.to_type = memory_type::on_host;
  what.to_host = got.data();
  what.width_bytes = 64;
  what.height = what.depth = 1;
  graph_node made = nullptr;
  OK(call.cuGraphAddMemcpyNode(&made, into, nullptr, 0, &what, here));
  run(into);
  EXPECT_EQ(got[15], 9U);
}

TEST_F(Graph, AKernelOfALibraryRunsInTheContextThatIsNamed) {
  library loaded = nullptr;
  kernel found = nullptr;
  OK(call.cuLibraryLoadData(&loaded, kernel_text().c_str(), nullptr, nullptr, 0, nullptr, nullptr,
                            0));
  finally([this, loaded] { call.cuLibraryUnload(loaded); });
  OK(call.cuLibraryGetKernel(&found, loaded, "test_fill_u32"));
  device_pointer block = make_block(40);
  std::uint32_t value = 5;
  std::uint64_t count = 10;
  std::array<void*, 3> list{&block, &value, &count};
  kernel_node what = kernel_of("test_fill_u32", list.data());
  what.entry = nullptr;
  what.of_library = found;
  what.in = here;
  graph_node made = nullptr;
  const graph into = make_graph();
  OK(add_kernel(&made, into, {}, what));
  run(into);
  EXPECT_EQ(read_word(block + 36), 5U);
}

TEST_F(Graph, AChildIsTakenAsItIs) {
  const device_pointer words = make_block(8);
  fill_words(words, 1, 2);
  const graph child = make_graph();
  const graph_node inner = add_sum(child, {}, words);
  const graph parent = make_graph();
  graph_node made = nullptr;
  OK(call.cuGraphAddChildGraphNode(&made, parent, nullptr, 0, child));
  add_sum(child, {inner}, words);
  add_sum(parent, {made}, words);
  EXPECT_EQ(node_count(parent), 2U);
  run(parent);
  EXPECT_EQ(read_word(words), 3U);
}

TEST_F(Graph, AGraphWithMemoryIsNoChild) {
  const stream on = make_stream();
  const graph child = make_graph();
  const graph parent = make_graph();
  graph captured = nullptr;
  device_pointer block = 0;
  OK(call.cuStreamBeginCaptureToGraph(on, child, nullptr, nullptr, 0, capture_mode::relaxed));
  OK(call.cuMemAllocAsync(&block, 4, on));
  OK(call.cuMemFreeAsync(block, on));
  OK(call.cuStreamEndCapture(on, &captured));
  graph_node made = nullptr;
  EXPECT_NE(call.cuGraphAddChildGraphNode(&made, parent, nullptr, 0, child), result::success);
  EXPECT_EQ(node_count(parent), 0U);
}

TEST_F(Graph, AnUpdateTakesParametersAndRefusesTheRest) {
  const device_pointer words = make_block(8);
  const auto fills = [&](std::uint32_t first, std::uint32_t second, bool with_edge) {
    const graph made = make_graph();
    graph_node a = nullptr;
    graph_node b = nullptr;
    OK(add_fill(&a, made, {}, words, first));
    OK(add_fill(&b, made, with_edge ? std::vector{a} : std::vector<graph_node>{}, words + 4,
                second));
    return made;
  };
  const executable_graph ready = instantiate(fills(1, 2, true));
  EXPECT_EQ(update(ready, fills(3, 4, true), result::success), graph_update_result::success);
  EXPECT_EQ(update(ready, fills(5, 6, false), result::graph_update_failure),
            graph_update_result::topology_changed);
  const graph kernels = make_graph();
  const graph_node first = add_sum(kernels, {}, words);
  add_sum(kernels, {first}, words);
  EXPECT_EQ(update(ready, kernels, result::graph_update_failure),
            graph_update_result::node_type_changed);
  const stream on = make_stream();
  OK(call.cuGraphLaunch(ready, on));
  OK(call.cuStreamSynchronize(on));
  EXPECT_EQ(read_words(words, 2), (std::vector<std::uint32_t>{3, 4}));
}

TEST_F(Graph, AttributesBelongToTheNode) {
  const graph into = make_graph();
  std::uint64_t turns = 0;
  void* list[] = {&turns};
  kernel_node what = kernel_of("test_spin", list);
  graph_node made = nullptr;
  OK(add_kernel(&made, into, {}, what));
  launch_attribute_value value{};
  const int yes = 1;
  std::memcpy(value.bytes, &yes, sizeof yes);
  OK(call.cuGraphKernelNodeSetAttribute(made, launch_attribute_id::cooperative, &value));
  OK(call.cuGraphDestroyNode(made));
  EXPECT_EQ(node_count(into), 0U);
}

TEST_F(Graph, SeveralStreamsShareACaptureAndAreToldWhatTheyComeAfter) {
  const stream origin = make_stream();
  const stream second = make_stream();
  const device_pointer words = make_block(16);
  const graph into = make_graph();
  graph_node before = nullptr;
  OK(add_fill(&before, into, {}, words + 8, 1));
  OK(call.cuStreamBeginCaptureToGraph(origin, into, nullptr, nullptr, 0, capture_mode::relaxed));
  OK(call.cuMemsetD32Async(words, 1, 1, origin));
  order(origin, second);
  OK(call.cuStreamUpdateCaptureDependencies(second, &before, nullptr, 1,
                                            capture_dependencies_flags::set));
  OK(call.cuMemsetD32Async(words + 4, 2, 1, second));
  capture_status now{};
  graph listed = nullptr;
  const graph_node* ends = nullptr;
  const graph_edge* edges = nullptr;
  std::size_t count = 0;
  std::uint64_t id = 0;
  OK(call.cuStreamGetCaptureInfo(second, &now, &id, &listed, &ends, &edges, &count));
  ASSERT_EQ(count, 1U);
  graph_node end = ends[0];
  OK(call.cuStreamUpdateCaptureDependencies(origin, &end, nullptr, 1,
                                            capture_dependencies_flags::add));
  graph captured = nullptr;
  OK(call.cuStreamEndCapture(origin, &captured));
  std::size_t edge_count = 0;
  OK(call.cuGraphGetEdges(into, nullptr, nullptr, nullptr, &edge_count));
  EXPECT_EQ(node_count(into), 3U);
  EXPECT_EQ(edge_count, 1U);  // the fork made none
  run(into);
  EXPECT_EQ(read_words(words, 3), (std::vector<std::uint32_t>{1, 2, 1}));
}

TEST_F(Graph, WhatAStreamWasMadeToForgetNeedNotJoin) {
  const stream origin = make_stream();
  const stream second = make_stream();
  const device_pointer words = make_block(8);
  const graph into = make_graph();
  OK(call.cuStreamBeginCaptureToGraph(origin, into, nullptr, nullptr, 0, capture_mode::relaxed));
  order(origin, second);
  OK(call.cuMemsetD32Async(words, 1, 1, second));
  OK(call.cuStreamUpdateCaptureDependencies(second, nullptr, nullptr, 0,
                                            capture_dependencies_flags::set));
  graph captured = nullptr;
  OK(call.cuStreamEndCapture(origin, &captured));
  EXPECT_EQ(node_count(into), 1U);
}

TEST_F(Graph, AStreamOutsideHasNoDependenciesToSet) {
  EXPECT_EQ(call.cuStreamUpdateCaptureDependencies(make_stream(), nullptr, nullptr, 0,
                                                   capture_dependencies_flags::set),
            result::illegal_state);
}

TEST_F(Graph, NodesAreAddedToAGraphThatIsCapturedInto) {
  const stream origin = make_stream();
  const device_pointer words = make_block(8);
  const graph into = make_graph();
  OK(call.cuStreamBeginCaptureToGraph(origin, into, nullptr, nullptr, 0, capture_mode::relaxed));
  OK(call.cuMemsetD32Async(words, 1, 1, origin));
  graph_node beside = nullptr;
  OK(add_fill(&beside, into, {}, words + 4, 2));
  graph captured = nullptr;
  OK(call.cuStreamEndCapture(origin, &captured));
  EXPECT_EQ(node_count(into), 2U);
}

TEST_F(Graph, AnotherThreadAddsNodesBetweenBodiesOnly) {
  if (!api.is_fake) GTEST_SKIP() << "drivers crash";
  const stream origin = make_stream();
  const device_pointer words = make_block(8);
  const graph into = make_graph();
  const auto add_elsewhere = [&] {
    auto answer = result::success;
    std::thread([&] {
      graph_node made = nullptr;
      answer = add_fill(&made, into, {}, words + 4, 3);
    }).join();
    return answer;
  };
  OK(call.cuStreamBeginCaptureToGraph(origin, into, nullptr, nullptr, 0, capture_mode::relaxed));
  OK(call.cuMemsetD32Async(words, 1, 1, origin));
  EXPECT_EQ(add_elsewhere(), result::illegal_state);
  auto now = capture_status::none;
  OK(call.cuStreamGetCaptureInfo(origin, &now, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(add_elsewhere(), result::success);
  OK(call.cuStreamUpdateCaptureDependencies(origin, nullptr, nullptr, 0,
                                            capture_dependencies_flags::set));
  EXPECT_EQ(add_elsewhere(), result::illegal_state);
  graph captured = nullptr;
  OK(call.cuStreamEndCapture(origin, &captured));
  EXPECT_EQ(add_elsewhere(), result::success);
  EXPECT_EQ(node_count(into), 3U);
}

TEST_F(Graph, ThreadsTakeTurnsInACapture) {
  const stream origin = make_stream();
  const stream second = make_stream();
  const device_pointer words = make_block(8);
  const graph into = make_graph();
  OK(call.cuStreamBeginCaptureToGraph(origin, into, nullptr, nullptr, 0, capture_mode::relaxed));
  order(origin, second);
  OK(call.cuMemsetD32Async(words, 1, 1, origin));
  std::thread([&] {
    OK(call.cuCtxSetCurrent(here));
    OK(call.cuStreamUpdateCaptureDependencies(second, nullptr, nullptr, 0,
                                              capture_dependencies_flags::set));
    OK(call.cuMemsetD32Async(words + 4, 2, 1, second));
  }).join();
  order(second, origin);
  graph captured = nullptr;
  OK(call.cuStreamEndCapture(origin, &captured));
  EXPECT_EQ(node_count(into), 2U);
}

TEST_F(Graph, WaitingForTheWholeDeviceSpoilsACaptureInRelaxedMode) {
  const stream origin = make_stream();
  const graph into = make_graph();
  OK(call.cuStreamBeginCaptureToGraph(origin, into, nullptr, nullptr, 0, capture_mode::relaxed));
  EXPECT_EQ(call.cuCtxSynchronize(), result::stream_capture_unsupported);
  graph captured = nullptr;
  EXPECT_EQ(call.cuStreamEndCapture(origin, &captured), result::stream_capture_invalidated);
  OK(call.cuCtxSynchronize());
}

TEST_F(Graph, ALaunchInACapturedStreamIsRefused) {
  const stream origin = make_stream();
  const device_pointer words = make_block(8);
  fill_words(words, 1, 2);
  const graph inner = make_graph();
  add_sum(inner, {}, words);
  const executable_graph ready = instantiate(inner);
  graph captured = nullptr;
  OK(call.cuStreamBeginCapture(origin, capture_mode::relaxed));
  EXPECT_EQ(call.cuGraphLaunch(ready, origin), result::stream_capture_unsupported);
  EXPECT_EQ(call.cuStreamEndCapture(origin, &captured), result::stream_capture_invalidated);
}

TEST_F(Graph, ADrawingIsWritten) {
  const graph into = make_graph();
  graph_node made = nullptr;
  OK(add_fill(&made, into, {}, make_block(4), 1));
  const std::string path = testing::TempDir() + "millstream_fake_cuda.dot";
  OK(call.cuGraphDebugDotPrint(into, path.c_str(), 0));
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("digraph"), std::string::npos);
  static_cast<void>(std::remove(path.c_str()));
}

}  // namespace
}  // namespace fake_cuda_test
