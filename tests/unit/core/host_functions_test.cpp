// SPDX-License-Identifier: Apache-2.0
/// Host functions that are independent of each other and wait for each other all the same. In the
/// tests of the CUDA machine the file is built for that.
#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"
#include "tests/unit/core/gate.hpp"

namespace millstream::test {
namespace {

constexpr int many = 40;

/// Submits a host function.
template <class Body>
void launch(untyped_context& on, std::initializer_list<task_dep> deps, Body&& body) {
  run(on, exec_place::host(), deps, std::forward<Body>(body), "host function",
      task_kind::host_launch);
}

constexpr auto set_to_seven = [](const body_call& call) { first<int>(call) = 7; };
constexpr auto add_one = [](const body_call& call) { first<int>(call) += 1; };

class HostFunctions : public testing::Test {
 protected:
#ifdef MILLSTREAM_ON_CUDA
  static untyped_context open_here() { return test::open("cuda", 0); }
#else
  static untyped_context open_here() { return test::open("host", 2); }
#endif
  static void SetUpTestSuite() {
    try {
      open_here().finalize();
    } catch (const error& none) {
      GTEST_SKIP() << none.what();
    }
  }
  /// One for each of `many`.
  std::vector<untyped_data> make_many() {
    std::vector<untyped_data> made;
    for (int i = 0; i < many; ++i)
      made.push_back(on.make_data(sizeof(int)));
    return made;
  }

  untyped_context on = open_here();
  gate closed;
};

TEST_F(HostFunctions, OneThatNothingHoldsUpRunsWhileManyBlock) {
  for (int i = 0; i < many; ++i)
    launch(on, {}, [&](const body_call&) { closed.pass(); });
  launch(on, {}, [&](const body_call&) { closed.open(); });
  on.finalize();
}

TEST_F(HostFunctions, TheyWaitForWhatOthersWrite) {
  const std::vector<untyped_data> all = make_many();
  std::atomic<int> sum{0};
  for (const untyped_data& each : all) {
    launch(on, {}, [&](const body_call&) {
      closed.pass();
      sum += content<int>(on, each);
    });
  }
  for (const untyped_data& each : all)
    launch(on, {each.write()}, set_to_seven);
  closed.open();
  on.finalize();
  EXPECT_EQ(sum, 7 * many);
}

TEST_F(HostFunctions, TheyOpenTasksOfWhatOthersWrite) {
  const std::vector<untyped_data> all = make_many();
  std::atomic<int> sum{0};
  for (const untyped_data& each : all) {
    launch(on, {}, [&](const body_call&) {
      closed.pass();
      untyped_task task(on);
      task.set_place(exec_place::host());
      task.add_dep(each.rw());
      task.start();
      sum += *static_cast<int*>(task.pointer(0));
      task.end();
    });
  }
  for (const untyped_data& each : all)
    launch(on, {each.write()}, set_to_seven);
  closed.open();
  on.finalize();
  EXPECT_EQ(sum, 7 * many);
}

TEST_F(HostFunctions, TheySubmitBehindATaskThatAnotherThreadOpens) {
  std::vector<int> buffer{0};
  const untyped_data x = registered(on, buffer);
  gate starts;
  for (int i = 0; i < many; ++i) {
    launch(on, {}, [&](const body_call&) {
      closed.pass();
      launch(on, {x.rw()}, add_one);
    });
  }
  launch(on, {x.rw()}, [&](const body_call& call) {
    starts.pass();
    add_one(call);
  });
  untyped_task task(on);
  task.set_place(exec_place::host());
  task.add_dep(x.rw());
  // Started while the functions wait for their turn behind it, or before: both have to end.
  std::thread opener([&] {
    closed.open();
    starts.open();
  });
  task.start();
  *static_cast<int*>(task.pointer(0)) += 1;
  task.end();
  opener.join();
  on.finalize();
  EXPECT_EQ(buffer[0], many + 2);
}

TEST_F(HostFunctions, AnotherContextsDoNotHoldThemUp) {
  std::atomic<int> ran{0};
  {
    untyped_context other = open_here();
    for (int i = 0; i < many; ++i) {
      launch(other, {}, [&](const body_call&) {
        closed.pass();
        ++ran;
      });
    }
  }
  for (int i = 0; i < many; ++i)
    launch(on, {}, [](const body_call&) {});
  on.finalize();
  closed.open();
  while (ran < many)
    std::this_thread::yield();
}

TEST_F(HostFunctions, AChainStaysInOneQueue) {
  const untyped_data x = on.make_data(sizeof(int));
  std::set<std::uint64_t> queues;
  launch(on, {x.write()}, [&](const body_call&) { closed.pass(); });
  for (int i = 0; i < many; ++i)
    launch(on, {x.rw()}, [&](const body_call& call) { queues.insert(call.queue); });
  closed.open();
  on.finalize();
  EXPECT_EQ(queues.size(), 1U);
  EXPECT_EQ(on.stats().waits, 0U);
}

TEST_F(HostFunctions, QueuesAreUsedAgainWhenTheirsHaveEnded) {
  std::set<std::uint64_t> queues;
  for (int i = 0; i < many; ++i) {
    const untyped_data x = on.make_data(sizeof(int));
    launch(on, {x.write()}, [&](const body_call& call) {
      queues.insert(call.queue);
      first<int>(call) = 1;
    });
    EXPECT_EQ(content<int>(on, x), 1);
  }
  on.finalize();
  EXPECT_EQ(queues.size(), 8U);
}

}  // namespace
}  // namespace millstream::test
