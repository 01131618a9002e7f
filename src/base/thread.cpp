// SPDX-License-Identifier: Apache-2.0
#include "base/thread.hpp"

#include <pthread.h>

#include <csignal>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

namespace millstream::base {
namespace {

/// While it lives, threads that this thread starts inherit a mask that keeps signals of the process
/// away. Signals that a thread raises by its own faults stay as they are, because a blocked one
/// kills the process without the handler that would print a trace.
class signals_kept_away {
 public:
  signals_kept_away() noexcept {
    sigset_t away;
    sigfillset(&away);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
      sigdelset(&away, own);
    }
    pthread_sigmask(SIG_SETMASK, &away, &before_);
  }
  ~signals_kept_away() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_kept_away(const signals_kept_away&) = delete;
  signals_kept_away& operator=(const signals_kept_away&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

void name_this_thread(const std::string& name) noexcept {
  char kept[16] = {};  // 15 characters and the end mark: the limit of the kernel
  std::strncpy(kept, name.c_str(), sizeof kept - 1);
  pthread_setname_np(pthread_self(), kept);
}

bool start_detached(const std::string& name, std::function<void()> body, std::string& why) {
  const signals_kept_away inherited;
  try {
    std::thread([name, body = std::move(body)] {
      name_this_thread(name);
      body();
    }).detach();
    return true;
  } catch (const std::system_error& failure) {
    why = failure.what();
    return false;
  }
}

}  // namespace millstream::base
