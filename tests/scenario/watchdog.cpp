// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/watchdog.hpp"

#include <csignal>
#include <cstring>

#include <unistd.h>

namespace millstream::scenario {
namespace {

char doing[1024];

void give_up(int /*signal*/) {
  // Only calls that a signal handler may make.
  constexpr char head[] = "\nno progress, the test hangs: ";
  (void)!write(STDERR_FILENO, head, sizeof(head) - 1);
  (void)!write(STDERR_FILENO, doing, strnlen(doing, sizeof(doing)));
  (void)!write(STDERR_FILENO, "\n", 1);
  _exit(3);
}

}  // namespace

void watchdog::guard(const std::string& what) noexcept {
  alarm(0);
  const std::size_t length = what.copy(doing, sizeof(doing) - 1);
  doing[length] = '\0';
  std::signal(SIGALRM, give_up);
  alarm(seconds_);
}

watchdog::~watchdog() {
  alarm(0);
  std::signal(SIGALRM, SIG_DFL);
}

}  // namespace millstream::scenario
