// SPDX-License-Identifier: Apache-2.0
/// Bodies that are recorded into a graph.
#include <algorithm>
#include <array>
#include <thread>

#include "tests/unit/cuda/graph_test.hpp"

namespace cuda_test {
namespace {

class GraphBody : public GraphTest {
 protected:
  static node_span span_of(const node_list& list) { return {list.begin(), list.size()}; }
  /// One launch on the queue's stream.
  void launch_fill(backend::queue& on, void* to, std::uint32_t with) {
    auto arguments = filling(to, with, 1);
    ok(on.launch(launch_of(fill_, arguments)));
  }
  void launch_add(backend::queue& on, void* to, void* first, void* second) {
    auto arguments = adding(to, first, second, 1);
    ok(on.launch(launch_of(add_, arguments)));
  }
  node_list end(backend::queue& on) {
    node_list last;
    ok(graph_->end_body(on, last));
    return last;
  }
  node_list body(backend::queue& on, node_span after, void* to, std::uint32_t with) {
    ok(graph_->begin_body(on, after));
    launch_fill(on, to, with);
    return end(on);
  }
  /// What a body with one launch calls, once there was one before.
  std::string calls_of_the_second_body() {
    call.cuCtxSetCurrent(own_);
    static_cast<void>(body(*queue_, {}, word(0), 1));
    std::string names;
    for (const std::string& name : fake_cuda_test::calls_of_this_thread(
             [&] { static_cast<void>(body(*queue_, {}, word(0), 1)); })) {
      if (name != "cuCtxGetCurrent") names += name + " ";
    }
    call.cuCtxSetCurrent(nullptr);
    return names;
  }
  unsigned word_now(std::size_t index) {
    return static_cast<unsigned>(read(*queue_, word(index), 4)[0]);
  }
  void expect_broken(const std::string& word) {
    auto arguments = filling(block_, 1, 1);
    const auto answer = graph_->add_kernel(launch_of(fill_, arguments), {});
    EXPECT_EQ(answer.why().code(), errc::usage);
    EXPECT_NE(answer.why().text().find(word), std::string::npos) << answer.why().text();
    EXPECT_EQ(graph_->instantiate().why().code(), errc::usage);
    EXPECT_EQ(graph_->begin_body(*queue_, {}).code(), errc::usage);
  }
  bool is_captured(backend::queue& which) {
    auto now = abi::capture_status::none;
    call.cuCtxSetCurrent(own_);
    call.cuStreamIsCapturing(stream_of(which), &now);
    call.cuCtxSetCurrent(nullptr);
    return now != abi::capture_status::none;
  }
};

TEST_F(GraphBody, OneLaunchIsOneNodeBehindItsPrerequisites) {
  auto arguments = filling(word(0), 1, 1);
  const graph_node first = value(graph_->add_kernel(launch_of(fill_, arguments), {}));
  ok(graph_->begin_body(*queue_, {&first, 1}));
  launch_add(*queue_, word(1), word(0), word(0));
  const node_list last = end(*queue_);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_NE(last[0], first);
  EXPECT_EQ(graph_->node_count(), 2U);
  run();
  EXPECT_EQ(word_now(1), 2U);
}

TEST_F(GraphBody, NothingIssuedMakesNoNodeAndEndsWhereItBegan) {
  const node_list first = body(*queue_, {}, word(0), 1);
  ok(graph_->begin_body(*queue_, span_of(first)));
  const node_list last = end(*queue_);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0], first[0]);
  ok(graph_->begin_body(*queue_, {}));
  EXPECT_TRUE(end(*queue_).empty());
  EXPECT_EQ(graph_->node_count(), 1U);
}

TEST_F(GraphBody, NoneTakesNoPart) {
  const node_list first = body(*queue_, {}, word(0), 1);
  const std::array<graph_node, 3> before{graph_node::none, first[0], graph_node::none};
  const node_list last = body(*queue_, before, word(0), 2);
  EXPECT_EQ(last.size(), 1U);
  run();
  EXPECT_EQ(word_now(0), 2U);
}

TEST_F(GraphBody, ThreeBodiesAreOpenAtOnceAndEachHasItsOwnPrerequisites) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    control.seed(seed);
    graph_ = value(device().make_graph());
    std::array<queue_ptr, 3> queues{make_queue(), make_queue(), make_queue()};
    const node_list zero = body(*queues[0], {}, word(0), 1);
    const node_list one = body(*queues[1], {}, word(1), 2);
    ok(graph_->begin_body(*queues[0], span_of(zero)));
    ok(graph_->begin_body(*queues[1], span_of(one)));
    ok(graph_->begin_body(*queues[2], {}));
    launch_add(*queues[1], word(1), word(1), word(1));  // 4
    launch_fill(*queues[2], word(2), 8);
    launch_add(*queues[0], word(0), word(0), word(0));  // 2
    launch_add(*queues[1], word(1), word(1), word(1));  // 8
    const node_list a = end(*queues[1]);
    const node_list b = end(*queues[0]);
    const node_list c = end(*queues[2]);
    ASSERT_EQ(a.size() + b.size() + c.size(), 3U);
    for (const queue_ptr& each : queues)
      EXPECT_FALSE(value(each->is_capturing()));
    const std::array<graph_node, 3> all{a[0], b[0], c[0]};
    ok(graph_->begin_body(*queues[1], all));
    launch_add(*queues[1], word(3), word(0), word(1));
    launch_add(*queues[1], word(3), word(3), word(2));
    static_cast<void>(end(*queues[1]));
    EXPECT_EQ(graph_->node_count(), 8U);
    run();
    EXPECT_EQ(word_now(3), 18U) << "seed " << seed;
  }
}

TEST_F(GraphBody, NodesOfABodyHaveNoEdgeToTheBodiesBesideIt) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr second = make_queue();
  ok(graph_->begin_body(*queue_, {}));
  launch_fill(*queue_, word(0), 1);
  ok(graph_->begin_body(*second, {}));
  launch_fill(*second, word(1), 1);
  static_cast<void>(end(*second));
  static_cast<void>(end(*queue_));
  const std::string drawn = value(graph_->dot());
  EXPECT_EQ(drawn.find("->"), std::string::npos) << drawn;
}

TEST_F(GraphBody, AQueueIsUsedAgainWhileAnotherBodyIsOpen) {
  const queue_ptr second = make_queue();
  ok(graph_->begin_body(*queue_, {}));
  const node_list first = body(*second, {}, word(1), 3);
  const node_list again = body(*second, span_of(first), word(1), 4);
  launch_fill(*queue_, word(0), 1);
  static_cast<void>(end(*queue_));
  EXPECT_EQ(again.size(), 1U);
  EXPECT_EQ(graph_->node_count(), 3U);
  run();
  EXPECT_EQ(word_now(0), 1U);
  EXPECT_EQ(word_now(1), 4U);
}

TEST_F(GraphBody, NodesAreAddedWhileABodyIsOpen) {
  ok(graph_->begin_body(*queue_, {}));
  launch_fill(*queue_, word(0), 1);
  auto arguments = filling(word(1), 2, 1);
  const graph_node beside = value(graph_->add_kernel(launch_of(fill_, arguments), {}));
  const node_list last = end(*queue_);
  const std::array<graph_node, 2> both{beside, last[0]};
  auto sum = adding(word(2), word(0), word(1), 1);
  static_cast<void>(value(graph_->add_kernel(launch_of(add_, sum), both)));
  run();
  EXPECT_EQ(word_now(2), 3U);
}

TEST_F(GraphBody, AKernelWhoseAttributesAreRefusedLeavesTheGraphAsItWas) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  for (const bool is_cluster : {true, false}) {
    for (const bool is_open : {true, false}) {
      graph_ = value(device().make_graph());
      graph_->keep_queues();
      ok(graph_->begin_body(*queue_, {}));
      launch_fill(*queue_, word(0), 1);
      node_list last;
      if (!is_open) last = end(*queue_);
      const std::size_t before = graph_->node_count();
      auto refused = filling(word(0), 7, 1);
      backend::launch_request request = launch_of(fill_, refused);
      request.grid = {is_cluster ? 16U : 100'000U, 1, 1};
      if (is_cluster) request.cluster = {16, 1, 1};
      request.cooperative = !is_cluster;
      EXPECT_FALSE(graph_->add_kernel(request, span_of(last)).ok());
      EXPECT_EQ(graph_->node_count(), before);
      if (is_open) last = end(*queue_);
      auto sum = adding(word(1), word(0), word(0), 1);
      static_cast<void>(value(graph_->add_kernel(launch_of(add_, sum), span_of(last))));
      ok(graph_->release_queues());
      run();
      EXPECT_EQ(word_now(1), 2U);
    }
  }
}

TEST_F(GraphBody, BodiesOfTwoDevicesAreOpenTogether) {
  MILLSTREAM_NEEDS_DEVICES(2);
  const queue_ptr other = make_queue(1);
  void* theirs = value(device(1).allocate(4, *other));
  finish(*other);
  ok(graph_->begin_body(*queue_, {}));
  ok(graph_->begin_body(*other, {}));
  fill(*other, theirs, 4, 9, 1);
  launch_fill(*queue_, word(0), 1);
  static_cast<void>(end(*queue_));
  static_cast<void>(end(*other));
  run();
  EXPECT_EQ(read(*other, theirs, 4, 1), bytes(4, std::byte{9}));
  EXPECT_EQ(word_now(0), 1U);
  ok(device(1).release(theirs, 4, *other));
}

TEST_F(GraphBody, ABodyCostsTheSameNumberOfCallsHoweverManyThereAre) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr second = make_queue();
  const auto calls_of_two = [&] {
    control.clear_counts();
    ok(graph_->begin_body(*queue_, {}));
    ok(graph_->begin_body(*second, {}));
    launch_fill(*queue_, word(0), 1);
    launch_fill(*second, word(1), 1);
    static_cast<void>(end(*queue_));
    static_cast<void>(end(*second));
    return control.count(nullptr);
  };
  static_cast<void>(calls_of_two());  // makes the event
  const std::uint64_t at_first = calls_of_two();
  // A queue that was recorded beside others is asked once whether it still is.
  for (int i = 0; i < 2000; ++i)
    static_cast<void>(body(*queue_, {}, word(0), 1));
  static_cast<void>(calls_of_two());
  EXPECT_EQ(calls_of_two(), at_first);
}

TEST_F(GraphBody, ABodyAloneIsThreeCallsAndItsLaunch) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  EXPECT_EQ(calls_of_the_second_body(),
            "cuStreamBeginCaptureToGraph cuStreamIsCapturing cuLaunchKernel "
            "cuStreamGetCaptureInfo cuStreamEndCapture ");
}

TEST_F(GraphBody, OnAQueueThatIsKeptItIsTwoCallsAndItsLaunch) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  graph_->keep_queues();
  EXPECT_EQ(calls_of_the_second_body(),
            "cuStreamUpdateCaptureDependencies cuStreamIsCapturing cuLaunchKernel "
            "cuStreamGetCaptureInfo ");
  ok(graph_->release_queues());
}

TEST_F(GraphBody, QueuesThatAreKeptAreNamedUntilTheyAreReleased) {
  const auto parent = value(device().make_graph());
  const auto other = value(device().make_graph());
  graph_->keep_queues();
  static_cast<void>(body(*queue_, {}, word(0), 1));
  EXPECT_EQ(graph_->instantiate().why().code(), errc::usage);
  EXPECT_EQ(parent->add_child(*graph_, {}).why().code(), errc::usage);
  EXPECT_EQ(other->begin_body(*queue_, {}).code(), errc::usage);
  ok(graph_->release_queues());
  static_cast<void>(value(parent->add_child(*graph_, {})));
  run();
  EXPECT_EQ(word_now(0), 1U);
}

TEST_F(GraphBody, ABranchThatWasNotJoinedIsFoundWhenKeptQueuesAreReleased) {
  const queue_ptr branch = make_queue();
  graph_->keep_queues();
  ok(graph_->begin_body(*queue_, {}));
  ok(branch->wait(*mark(*queue_)));
  launch_fill(*branch, word(0), 1);
  static_cast<void>(end(*queue_));
  static_cast<void>(body(*queue_, {}, word(1), 1));
  const backend::status answer = graph_->release_queues();
  EXPECT_EQ(answer.code(), errc::usage);
  EXPECT_NE(answer.text().find("was not joined"), std::string::npos) << answer.text();
  EXPECT_FALSE(is_captured(*queue_));
  EXPECT_FALSE(is_captured(*branch));
  expect_broken("was not joined");
}

TEST_F(GraphBody, AGraphThatAFailedCaptureTookAlongIsNotTouchedAgain) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  const queue_ptr branch = make_queue();
  ok(graph_->begin_body(*queue_, {}));
  ok(branch->wait(*mark(*queue_)));
  launch_fill(*branch, word(0), 1);
  node_list last;
  EXPECT_EQ(graph_->end_body(*queue_, last).code(), errc::usage);
  control.clear_counts();
  EXPECT_EQ(graph_->node_count(), 0U);
  EXPECT_EQ(graph_->dot().why().code(), errc::usage);
  graph_.reset();
  EXPECT_EQ(control.count("cuGraphDestroy") + control.count("cuGraphGetNodes"), 0U);
}

TEST_F(GraphBody, ABranchThatWasJoinedIsFineThoughItsQueueIsKept) {
  const queue_ptr branch = make_queue();
  graph_->keep_queues();
  ok(graph_->begin_body(*queue_, {}));
  ok(branch->wait(*mark(*queue_)));
  launch_fill(*branch, word(0), 1);
  ok(queue_->wait(*mark(*branch)));
  EXPECT_EQ(end(*queue_).size(), 1U);
  static_cast<void>(body(*queue_, {}, word(1), 2));
  ok(graph_->release_queues());
  EXPECT_FALSE(is_captured(*branch));
  run();
  EXPECT_EQ(word_now(0), 1U);
}

// An H200 compares the order in which the ends of the queues were joined.
TEST_F(GraphBody, BodiesOfManyQueuesAreUpdatedEachTime) {
  std::vector<queue_ptr> queues;
  for (int i = 0; i < 6; ++i)
    queues.push_back(make_queue());
  const auto record = [&](std::uint32_t with) {
    graph_ = value(device().make_graph());
    graph_->keep_queues();
    for (std::size_t i = 0; i < queues.size(); ++i)
      static_cast<void>(body(*queues[i], {}, word(i), with));
    ok(graph_->release_queues());
  };
  record(1);
  const auto ready = value(graph_->instantiate());
  for (std::uint32_t with = 2; with < 12; ++with) {
    record(with);
    ok(graph_->update(*ready));
  }
  ok(ready->launch(*queue_));
  for (std::size_t i = 0; i < queues.size(); ++i)
    EXPECT_EQ(word_now(i), 11U);
}

TEST_F(GraphBody, WhatSpoilsTheRecordingBetweenBodiesIsNamedByTheNextOne) {
  graph_->keep_queues();
  static_cast<void>(body(*queue_, {}, word(0), 1));
  call.cuCtxSetCurrent(own_);
  EXPECT_EQ(call.cuCtxSynchronize(), abi::result::stream_capture_unsupported);
  call.cuCtxSetCurrent(nullptr);
  const backend::status answer = graph_->begin_body(*queue_, {});
  EXPECT_EQ(answer.code(), errc::usage);
  EXPECT_NE(answer.text().find("waiting for the whole device"), std::string::npos);
  EXPECT_EQ(graph_->release_queues().code(), errc::usage);
  EXPECT_FALSE(is_captured(*queue_));
  expect_broken("spoilt it");
}

TEST_F(GraphBody, ManyBodiesOnFewQueuesWhileOneStaysOpen) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  std::array<queue_ptr, 3> queues{make_queue(), make_queue(), make_queue()};
  ok(graph_->begin_body(*queue_, {}));
  for (const queue_ptr& each : queues)
    static_cast<void>(body(*each, {}, word(1), 1));
  node_list last;
  control.clear_counts();
  constexpr std::uint64_t many = 50'000;
  for (std::uint64_t i = 0; i < many; ++i)
    last = body(*queues[i % 3], span_of(last), word(i % 3), 1);
  EXPECT_EQ(control.count("cuStreamUpdateCaptureDependencies"), many);
  EXPECT_EQ(control.count("cuStreamGetCaptureInfo"), many);
  EXPECT_EQ(control.count("cuEventRecord") + control.count("cuStreamWaitEvent"), 0U);
  EXPECT_EQ(control.count("cuStreamBeginCaptureToGraph") + control.count("cuStreamEndCapture"), 0U);
  launch_fill(*queue_, word(3), 1);
  static_cast<void>(end(*queue_));
  EXPECT_EQ(graph_->node_count(), many + 4);
}

TEST_F(GraphBody, AnotherThreadIsToldToUseAGraphOfItsOwn) {
  const queue_ptr second = make_queue();
  ok(graph_->begin_body(*queue_, {}));
  std::thread([&] {
    const backend::status answer = graph_->begin_body(*second, {});
    EXPECT_EQ(answer.code(), errc::usage);
    EXPECT_NE(answer.text().find("another thread"), std::string::npos) << answer.text();
  }).join();
  EXPECT_FALSE(value(second->is_capturing()));
  launch_fill(*queue_, word(0), 1);
  static_cast<void>(end(*queue_));
  std::thread([&] { static_cast<void>(body(*second, {}, word(1), 2)); }).join();
  run();
  EXPECT_EQ(word_now(1), 2U);
}

TEST_F(GraphBody, AQueueHasOneBodyAtATime) {
  ok(graph_->begin_body(*queue_, {}));
  EXPECT_EQ(graph_->begin_body(*queue_, {}).code(), errc::usage);
  const auto other = value(device().make_graph());
  EXPECT_EQ(other->begin_body(*queue_, {}).code(), errc::usage);
  static_cast<void>(end(*queue_));
}

TEST_F(GraphBody, AnOpenBodyKeepsTheGraphFromBeingUsed) {
  const auto parent = value(device().make_graph());
  ok(graph_->begin_body(*queue_, {}));
  EXPECT_EQ(graph_->instantiate().why().code(), errc::usage);
  EXPECT_EQ(parent->add_child(*graph_, {}).why().code(), errc::usage);
  static_cast<void>(end(*queue_));
  static_cast<void>(value(parent->add_child(*graph_, {})));
}

TEST_F(GraphBody, EndingWhatWasNotBegunIsRefused) {
  node_list last;
  EXPECT_EQ(graph_->end_body(*queue_, last).code(), errc::usage);
  EXPECT_EQ(graph_->end_body(*make_queue(-1), last).code(), errc::usage);
}

TEST_F(GraphBody, ABranchThatWasNotJoinedIsNamedAndTheQueueIsFree) {
  const queue_ptr branch = make_queue();
  ok(graph_->begin_body(*queue_, {}));
  ok(branch->wait(*mark(*queue_)));
  launch_fill(*branch, word(0), 1);
  node_list last;
  const backend::status answer = graph_->end_body(*queue_, last);
  EXPECT_EQ(answer.code(), errc::usage);
  EXPECT_NE(answer.text().find("was not joined"), std::string::npos) << answer.text();
  EXPECT_TRUE(last.empty());
  EXPECT_FALSE(is_captured(*queue_));
  EXPECT_FALSE(is_captured(*branch));
  expect_broken("was not joined");
}

TEST_F(GraphBody, BranchesThatAreJoinedAreFineBesideOtherBodies) {
  const queue_ptr second = make_queue();
  const queue_ptr branch = make_queue();
  ok(graph_->begin_body(*queue_, {}));
  ok(graph_->begin_body(*second, {}));
  launch_fill(*second, word(0), 1);
  ok(branch->wait(*mark(*second)));
  launch_fill(*branch, word(1), 2);
  launch_fill(*second, word(2), 3);
  ok(second->wait(*mark(*branch)));
  EXPECT_EQ(end(*second).size(), 2U);
  launch_fill(*queue_, word(3), 4);
  static_cast<void>(end(*queue_));
  run();
  EXPECT_EQ(word_now(1), 2U);
  EXPECT_EQ(word_now(3), 4U);
}

TEST_F(GraphBody, ASpoiltRecordingIsToldToAllOpenBodiesAndNobodyIsCapturedAfterwards) {
  std::array<queue_ptr, 3> queues{make_queue(), make_queue(), make_queue()};
  for (const queue_ptr& each : queues)
    ok(graph_->begin_body(*each, {}));
  call.cuStreamSynchronize(stream_of(*queues[1]));  // not allowed
  for (const std::size_t i : {2U, 0U, 1U}) {
    node_list last;
    const backend::status answer = graph_->end_body(*queues[i], last);
    EXPECT_EQ(answer.code(), errc::usage);
    EXPECT_NE(answer.text().find("spoilt it"), std::string::npos) << answer.text();
    EXPECT_TRUE(last.empty());
  }
  for (const queue_ptr& each : queues) {
    EXPECT_FALSE(is_captured(*each));
    launch_fill(*each, word(0), 5);
    finish(*each);
  }
  expect_broken("spoilt it");
  EXPECT_EQ(word_now(0), 5U);
}

TEST_F(GraphBody, AGraphThatGoesTakesItsOpenBodiesAlong) {
  const queue_ptr second = make_queue();
  ok(graph_->begin_body(*queue_, {}));
  ok(graph_->begin_body(*second, {}));
  launch_fill(*second, word(0), 1);
  graph_.reset();
  EXPECT_FALSE(is_captured(*queue_));
  EXPECT_FALSE(is_captured(*second));
  launch_fill(*second, word(0), 6);
  finish(*second);
  EXPECT_EQ(word_now(0), 6U);
}

TEST_F(GraphBody, EveryFailureOfTheDriverLeavesTheQueuesFree) {
  MILLSTREAM_LOOK_ALIKE_ONLY();
  for (const char* row : {"cuStreamBeginCaptureToGraph", "cuStreamGetCaptureInfo",
                          "cuStreamUpdateCaptureDependencies", "cuStreamEndCapture",
                          "cuEventRecord", "cuStreamWaitEvent"}) {
    SCOPED_TRACE(row);
    const queue_ptr first = make_queue();
    const queue_ptr second = make_queue();
    graph_ = value(device().make_graph());
    control.fail(row, 1, static_cast<int>(abi::result::out_of_memory), 0);
    int failures = 0;
    node_list last;
    const bool one = graph_->begin_body(*first, {}).ok();
    const bool two = graph_->begin_body(*second, {}).ok();
    failures += one && two ? 0 : 1;
    if (two && !graph_->end_body(*second, last)) ++failures;
    if (one && !graph_->end_body(*first, last)) ++failures;
    EXPECT_GE(failures, 1);
    graph_.reset();
    control.fail(nullptr, 0, 0, 0);
    EXPECT_FALSE(is_captured(*first));
    EXPECT_FALSE(is_captured(*second));
  }
}

TEST_F(GraphBody, MemoryOfABodyIsFineInItsGraphAndRefusedInAnother) {
  call.cuCtxSetCurrent(own_);
  const abi::stream on = stream_of(*queue_);
  ok(graph_->begin_body(*queue_, {}));
  abi::device_pointer scratch = 0;
  ASSERT_EQ(call.cuMemAllocAsync(&scratch, 4, on), abi::result::success);
  launch_fill(*queue_, reinterpret_cast<void*>(scratch), 5);
  launch_add(*queue_, word(0), word(0), reinterpret_cast<void*>(scratch));
  ASSERT_EQ(call.cuMemFreeAsync(scratch, on), abi::result::success);
  call.cuCtxSetCurrent(nullptr);
  static_cast<void>(end(*queue_));
  const auto parent = value(device().make_graph());
  const auto answer = parent->add_child(*graph_, {});
  EXPECT_EQ(answer.why().code(), errc::unsupported);
  EXPECT_NE(answer.why().text().find("allocate before the recording"), std::string::npos)
      << answer.why().text();
  EXPECT_EQ(parent->node_count(), 0U);
  fill(*queue_, word(0), 4, 0);
  const auto ready = value(graph_->instantiate());
  ok(ready->launch(*queue_));
  EXPECT_EQ(word_now(0), 5U);
  ok(ready->launch(*queue_));
  EXPECT_EQ(word_now(0), 10U);
}

TEST_F(GraphBody, AnotherThreadAllocatesAndLoadsMeanwhile) {
  ok(graph_->begin_body(*queue_, {}));
  std::thread([&] {
    call.cuCtxSetCurrent(own_);
    abi::device_pointer theirs = 0;
    EXPECT_EQ(call.cuMemAlloc(&theirs, 64), abi::result::success);
    abi::module module = nullptr;
    EXPECT_EQ(call.cuModuleLoadData(&module, kernel_text().c_str()), abi::result::success);
    abi::stream stream = nullptr;
    EXPECT_EQ(call.cuStreamCreate(&stream, abi::stream_flags::non_blocking), abi::result::success);
    call.cuStreamDestroy(stream);
    call.cuModuleUnload(module);
    call.cuMemFree(theirs);
    call.cuCtxSetCurrent(nullptr);
  }).join();
  launch_fill(*queue_, word(0), 7);
  static_cast<void>(end(*queue_));
  run();
  EXPECT_EQ(word_now(0), 7U);
}

TEST_F(GraphBody, ADeadGraphMayGoWhileAnotherIsRecorded) {
  auto dead = value(device().make_graph());
  auto arguments = filling(block_, 1, 1);
  static_cast<void>(value(dead->add_kernel(launch_of(fill_, arguments), {})));
  auto ready = value(dead->instantiate());
  call.cuCtxSetCurrent(own_);
  abi::stream callers = nullptr;
  abi::graph theirs = nullptr;
  call.cuStreamCreate(&callers, abi::stream_flags::non_blocking);
  ASSERT_EQ(call.cuStreamBeginCapture(callers, abi::capture_mode::global), abi::result::success);
  call.cuCtxSetCurrent(nullptr);
  ok(graph_->begin_body(*queue_, {}));
  ready.reset();
  dead.reset();
  launch_fill(*queue_, word(0), 8);
  static_cast<void>(end(*queue_));
  run();
  call.cuCtxSetCurrent(own_);
  EXPECT_EQ(call.cuStreamEndCapture(callers, &theirs), abi::result::success);
  call.cuGraphDestroy(theirs);
  call.cuStreamDestroy(callers);
  call.cuCtxSetCurrent(nullptr);
  EXPECT_EQ(word_now(0), 8U);
}

}  // namespace
}  // namespace cuda_test
