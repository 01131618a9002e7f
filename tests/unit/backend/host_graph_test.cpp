// SPDX-License-Identifier: Apache-2.0
/// What graphs of the host machine promise beyond the contract.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <latch>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/host/machine.hpp"

namespace millstream::backend::host {
namespace {

constexpr std::chrono::milliseconds long_time{120'000};

class node_job final : public job {
 public:
  explicit node_job(std::function<void()> body = {}) : body_(std::move(body)) {}
  void run() noexcept override {
    if (body_) body_();
    runs.fetch_add(1);
  }
  void discard() noexcept override { discards.fetch_add(1); }
  std::atomic<int> runs{0};
  std::atomic<int> discards{0};

 private:
  std::function<void()> body_;
};

class HostGraphs : public testing::Test {
 protected:
  void open(std::optional<std::uint64_t> seed = {}) {
    queues_.clear();
    auto opened = open_with({.devices = 2, .seed = seed}, {.memory_bytes = 1U << 20U});
    ASSERT_TRUE(opened.ok()) << opened.why().text();
    machine_ = std::move(opened.value());
  }
  void SetUp() override { open(); }

  queue& new_queue(int device = 0) {
    queues_.push_back(std::move(machine_->at(device).make_queue().value()));
    return *queues_.back();
  }
  std::unique_ptr<graph> new_graph() { return std::move(machine_->at(0).make_graph().value()); }
  static graph_node add(graph& to, job& what, std::vector<graph_node> after = {}, int place = 0) {
    auto added = to.add_host(what, place, after);
    EXPECT_TRUE(added.ok()) << added.why().text();
    return added.value();
  }
  static std::unique_ptr<executable_graph> whole(graph& of) {
    return std::move(of.instantiate().value());
  }
  std::unique_ptr<event> mark(queue& tail) {
    auto made = std::move(machine_->host().make_event().value());
    EXPECT_TRUE(tail.record(*made).ok());
    return made;
  }
  void finish(queue& tail) { EXPECT_TRUE(mark(tail)->wait_for(long_time).value()); }

  std::unique_ptr<machine> machine_;
  std::vector<std::unique_ptr<queue>> queues_;
};

TEST_F(HostGraphs, IndependentNodesOverlap) {
  std::latch met(2);
  node_job meet([&] { met.arrive_and_wait(); });  // ends only if both run at once
  const auto graph = new_graph();
  add(*graph, meet);
  add(*graph, meet);
  queue& on = new_queue();
  EXPECT_TRUE(whole(*graph)->launch(on).ok());
  finish(on);
  EXPECT_EQ(meet.runs, 2);
}

TEST_F(HostGraphs, NodesThatBlockHoldUpNoOtherLaunchAndNoOtherDevice) {
  std::latch go_on(1);
  std::latch other_device(1);
  node_job block([&] { go_on.wait(); });
  node_job elsewhere([&] { other_device.count_down(); });
  node_job quick;
  const auto blocked = new_graph();
  for (int i = 0; i < 20; ++i)  // more than a launch has threads
    add(*blocked, block);
  add(*blocked, elsewhere, {}, 1);
  const auto free = new_graph();
  for (int i = 0; i < 20; ++i)
    add(*free, quick);
  queue& held = new_queue();
  queue& on = new_queue();
  EXPECT_TRUE(whole(*blocked)->launch(held).ok());
  EXPECT_TRUE(whole(*free)->launch(on).ok());
  finish(on);
  other_device.wait();
  EXPECT_EQ(quick.runs, 20);
  EXPECT_EQ(block.runs, 0);
  go_on.count_down();
  finish(held);
  EXPECT_EQ(block.runs, 20);
}

TEST_F(HostGraphs, ThreadsAreUsedAgain) {
  std::atomic<int> running{0};
  node_job each([&] { running.fetch_add(1); });
  const auto graph = new_graph();
  for (int i = 0; i < 10; ++i)
    add(*graph, each);
  const auto made = whole(*graph);
  queue& on = new_queue();
  for (int i = 0; i < 200; ++i)
    EXPECT_TRUE(made->launch(on).ok());
  finish(on);
  EXPECT_EQ(running, 2000);
}

TEST_F(HostGraphs, AClosedQueueDiscardsTheJobsOfItsLaunches) {
  for (const bool seeded : {false, true}) {
    open(seeded ? std::optional<std::uint64_t>(1) : std::nullopt);
    std::latch go_on(1);
    node_job hold([&] { go_on.wait(); });
    node_job job;
    const auto graph = new_graph();
    const graph_node first = add(*graph, job);
    add(*graph, job, {first});
    auto on = std::move(machine_->at(0).make_queue().value());
    EXPECT_TRUE(on->run(hold).ok());
    EXPECT_TRUE(whole(*graph)->launch(*on).ok());
    const auto behind = mark(*on);
    on.reset();
    go_on.count_down();
    EXPECT_TRUE(behind->wait_for(long_time).value());
    EXPECT_EQ(job.runs, 0);
    EXPECT_EQ(job.discards, 2);
  }
}

TEST_F(HostGraphs, StrangersAreRefused) {
  node_job job;
  const auto graph = new_graph();
  const auto other = new_graph();
  const graph_node own = add(*graph, job);
  const graph_node foreign = add(*other, job);
  EXPECT_EQ(graph->add_host(job, 0, std::array{foreign}).why().code(), errc::invalid_value);
  EXPECT_EQ(graph->add_host(job, 0, std::array{own, own}).why().code(), errc::invalid_value);
  EXPECT_EQ(graph->add_child(*other, std::array{foreign}).why().code(), errc::invalid_value);
  EXPECT_EQ(graph->add_host(job, 2, {}).why().code(), errc::invalid_value);
  EXPECT_EQ(graph->add_host(job, -2, {}).why().code(), errc::invalid_value);
  std::array<std::byte, 8> users{};
  fill_request misplaced;
  misplaced.to = users.data();
  misplaced.home = device_memory(0);
  misplaced.bytes = users.size();
  EXPECT_EQ(graph->add_fill(misplaced, {}).why().code(), errc::device);
  EXPECT_EQ(graph->node_count(), 1U);
}

TEST_F(HostGraphs, ARefusedUpdateSaysWhatDiffers) {
  node_job job;
  const auto graph = new_graph();
  const graph_node first = add(*graph, job);
  add(*graph, job, {first});
  const auto target = whole(*graph);
  const auto other = new_graph();
  add(*other, job);
  add(*other, job);
  EXPECT_EQ(
      other->update(*target).text(),
      "device 'host:0' cannot update an executable graph to another shape: node 1 comes after "
      "other nodes; instantiate a new one");
  const auto elsewhere = new_graph();
  add(*elsewhere, job, {add(*elsewhere, job)}, 1);
  EXPECT_EQ(elsewhere->update(*target).code(), errc::unsupported);
}

class HostGraphSeeds : public HostGraphs {
 protected:
  /// The order in which four nodes that know nothing of one another run, then one behind them.
  std::string order_of(std::uint64_t seed) {
    open(seed);
    std::string seen;
    std::deque<node_job> jobs;
    const auto graph = new_graph();
    std::vector<graph_node> all;
    for (const char name : {'a', 'b', 'c', 'd'}) {
      jobs.emplace_back([&seen, name] { seen += name; });
      all.push_back(add(*graph, jobs.back()));
    }
    jobs.emplace_back([&seen] { seen += 'z'; });
    add(*graph, jobs.back(), all);
    queue& on = new_queue();
    EXPECT_TRUE(whole(*graph)->launch(on).ok());
    finish(on);
    return seen;
  }
};

TEST_F(HostGraphSeeds, ChooseAmongAllLegalOrders) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    orders.insert(order_of(seed));
    ASSERT_EQ(orders.rbegin()->size(), 5U);
    ASSERT_TRUE(orders.rbegin()->ends_with('z'));
  }
  EXPECT_EQ(orders.size(), 24U);
}

TEST_F(HostGraphSeeds, GiveTheSameOrderAgain) {
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(order_of(seed), order_of(seed));
}

TEST_F(HostGraphSeeds, NothingRunsWhileNobodyWaits) {
  open(3);
  node_job job;
  const auto graph = new_graph();
  add(*graph, job);
  queue& on = new_queue();
  EXPECT_TRUE(whole(*graph)->launch(on).ok());
  EXPECT_EQ(job.runs, 0);
  finish(on);
  EXPECT_EQ(job.runs, 1);
}

/// Wherever a launch is when the machine goes, each job is called once.
TEST_F(HostGraphSeeds, AMachineThatClosesCallsEachJobOnce) {
  for (int steps = 0; steps < 25; ++steps) {
    open(static_cast<std::uint64_t>(steps));
    std::deque<node_job> jobs;
    const auto graph = new_graph();
    std::vector<graph_node> last;
    for (int i = 0; i < 6; ++i) {
      jobs.emplace_back();
      last = {add(*graph, jobs.back(), i % 3 == 0 ? std::vector<graph_node>{} : last, i % 2)};
    }
    const auto made = whole(*graph);
    queue& on = new_queue();
    EXPECT_TRUE(made->launch(on).ok());
    const auto end = mark(on);
    for (int i = 0; i < steps; ++i)
      static_cast<void>(end->is_done());
    machine_.reset();
    for (const node_job& each : jobs) {
      while (each.runs + each.discards == 0)
        std::this_thread::yield();  // one may be running on the machine's thread
      EXPECT_EQ(each.runs + each.discards, 1);
    }
  }
}

}  // namespace
}  // namespace millstream::backend::host
