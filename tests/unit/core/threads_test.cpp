// SPDX-License-Identifier: Apache-2.0
/// Many threads, one context.
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/core/engine.hpp"

namespace millstream::test {
namespace {

void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back(work, i);
  for (std::thread& thread : threads)
    thread.join();
}

TEST(Threads, PrivateAndSharedCountersEndRight) {
  constexpr int submitters = 16;
  untyped_context on = open("host", 3);
  std::vector<int> shared(1);
  const untyped_data all = registered(on, shared, "shared");
  std::vector<std::vector<int>> own(submitters, std::vector<int>(1));
  const auto add_one = [](const body_call& call) { first<int>(call) += 1; };
  in_threads(submitters, [&](int index) {
    std::vector<int>& mine = own[static_cast<std::size_t>(index)];
    const untyped_data x = registered(on, mine);
    for (int i = 0; i < 500; ++i) {
      run(on, exec_place::device((index + i) % 3), {x.rw()}, add_one);
      if (i % 5 == 0) run(on, exec_place::device(i % 3), {all.rw()}, add_one);
    }
  });
  on.finalize();
  for (const std::vector<int>& one : own)
    EXPECT_EQ(one[0], 500);
  EXPECT_EQ(shared[0], 1600);
}

TEST(Threads, SharedReadOnlyDataIsCopiedOncePerDevice) {
  untyped_context on = open("host", 2);
  std::vector<int> buffer(256, 7);
  registration what;
  what.block = buffer.data();
  what.bytes = buffer.size() * sizeof(int);
  what.readonly = true;
  const untyped_data x = on.register_data(what);
  std::atomic<int> wrong{0};
  in_threads(8, [&](int index) {
    for (int i = 0; i < 50; ++i) {
      run(on, exec_place::device((index + i) % 2), {x.read()}, [&wrong](const body_call& call) {
        if (first<int>(call) != 7) ++wrong;
      });
    }
  });
  on.finalize();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(on.stats().copies, 2U);
}

TEST(Threads, DataComeAndGoEverywhere) {
  untyped_context on = open("host", 2);
  std::atomic<int> sum{0};
  in_threads(8, [&](int index) {
    for (int i = 0; i < 100; ++i) {
      const untyped_data fresh = on.make_data(64);
      run(on, exec_place::device(index % 2), {fresh.write()},
          [](const body_call& call) { first<int>(call) = 1; });
      run(on, exec_place::device((index + 1) % 2), {fresh.read()},
          [&sum](const body_call& call) { sum += first<int>(call); });
    }
  });
  on.finalize();
  EXPECT_EQ(sum, 800);
}

TEST(Threads, OneFinalizesWhileOthersSubmit) {
  untyped_context on = open("host", 2);
  const untyped_data t = on.make_token();
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> ran{0};
  in_threads(4, [&](int index) {
    for (int i = 0; i < 200; ++i) {
      if (index == 0 && i == 100) on.finalize();
      const errc answer = thrown([&] {
        run(on, exec_place::device(index % 2), {t.rw()}, [&ran](const body_call&) { ++ran; });
      });
      if (answer == errc::ok) {
        ++accepted;
      } else {
        EXPECT_EQ(answer, errc::usage);
      }
    }
  });
  on.finalize();
  EXPECT_EQ(ran, accepted);
}

TEST(Threads, EachHasAContextOfItsOwnOnOneMachine) {
  in_threads(6, [](int index) {
    for (int i = 0; i < 10; ++i) {
      untyped_context on = open("host", 2);
      std::vector<int> buffer(16, index);
      const untyped_data x = registered(on, buffer);
      for (int k = 0; k < 10; ++k) {
        run(on, exec_place::device(k % 2), {x.rw()},
            [](const body_call& call) { first<int>(call) += 1; });
      }
      on.finalize();
      EXPECT_EQ(buffer[0], index + 10);
    }
  });
}

// The content is let go of between the two, or stays for both.
TEST(Threads, ABufferIsRegisteredAgainWhileItsLastHandleIsDropped) {
  untyped_context on = open("host", 1);
  std::vector<std::uint32_t> buffer{0};
  constexpr std::uint32_t rounds = 500;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    untyped_data dropped = registered(on, buffer);
    run(on, exec_place::host(), {dropped.rw()},
        [](const body_call& call) { first<std::uint32_t>(call) += 1; });
    untyped_data again;
    std::atomic<int> ready{0};
    const auto together = [&ready] {
      for (++ready; ready < 2;)
        continue;
    };
    std::thread other([&] {
      together();
      dropped = {};
    });
    together();
    again = registered(on, buffer);
    other.join();
    EXPECT_EQ(content<std::uint32_t>(on, again), i + 1);
  }
  on.finalize();
  EXPECT_EQ(buffer[0], rounds);
}

}  // namespace
}  // namespace millstream::test
