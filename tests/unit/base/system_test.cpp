// SPDX-License-Identifier: Apache-2.0
/// Threads, forks, shared libraries, the clock.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <latch>

#include "base/clock.hpp"
#include "base/dynamic_library.hpp"
#include "base/fork_guard.hpp"
#include "base/thread.hpp"

namespace millstream::base {
namespace {

TEST(Thread, ADetachedThreadRunsUnderItsName) {
  std::latch done(1);
  std::string name(16, '\0');
  std::string why;
  ASSERT_TRUE(start_detached(
      "a-name-that-is-too-long",
      [&] {
        pthread_getname_np(pthread_self(), name.data(), name.size());
        done.count_down();
      },
      why));
  done.wait();
  EXPECT_STREQ(name.c_str(), "a-name-that-is-");
}

TEST(Thread, ADetachedThreadTakesNoSignalsOfTheProcess) {
  std::latch done(1);
  sigset_t blocked;
  sigset_t before;
  sigset_t after;
  std::string why;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  ASSERT_TRUE(start_detached(
      "masked",
      [&] {
        pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
        done.count_down();
      },
      why));
  done.wait();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
  EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0);
  EXPECT_EQ(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
}

TEST(ForkGuard, OnlyTheChildOfAProcessWithAMachineIsMarked) {
  note_machine_opened();
  note_machine_opened();
  const pid_t child = fork();
  if (child == 0) _exit(forked_child() ? 0 : 1);
  int ended = -1;
  waitpid(child, &ended, 0);
  EXPECT_EQ(ended, 0);
  EXPECT_FALSE(forked_child());
}

TEST(DynamicLibrary, NamesAreFound) {
  std::string why;
  const dynamic_library maths = dynamic_library::open("libm.so.6", why);
  ASSERT_TRUE(maths) << why;
  EXPECT_NE(maths.find("cos"), nullptr);
  EXPECT_EQ(maths.find("no_such_function"), nullptr);
}

TEST(DynamicLibrary, AMissingOneGivesTheReason) {
  std::string why;
  const dynamic_library missing = dynamic_library::open("libno-such-library.so.1", why);
  EXPECT_FALSE(missing);
  EXPECT_NE(why.find("libno-such-library.so.1"), std::string::npos) << why;
  EXPECT_EQ(missing.find("cos"), nullptr);
}

TEST(DynamicLibrary, MovingHandsTheHandleOn) {
  std::string why;
  dynamic_library first = dynamic_library::open("libm.so.6", why);
  dynamic_library second = std::move(first);
  EXPECT_TRUE(second);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): it promises to be empty
  second.keep_loaded();
  EXPECT_FALSE(second);
}

TEST(Clock, NeverGoesBack) {
  std::uint64_t before = now_ns();
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t now = now_ns();
    ASSERT_GE(now, before);
    before = now;
  }
}

}  // namespace
}  // namespace millstream::base
