// SPDX-License-Identifier: Apache-2.0
/// A task between its start and its end, as other tasks see it.
#pragma once

#include <algorithm>
#include <string>
#include <thread>

#include "core/plan.hpp"

namespace millstream::core {

/// Part of an open task, or on the stack around a body that the engine calls at once. Fixed while
/// it is open, and read under the context's lock. The plan outlives it.
class open_body {
 public:
  explicit open_body(const plan& of) noexcept : of_(of) {}
  open_body(const open_body&) = delete;
  open_body& operator=(const open_body&) = delete;

  /// It is this thread's from now on. `inside`: a body of the same context, which has to end first,
  /// started it.
  void begin(bool inside) noexcept {
    thread_ = std::this_thread::get_id();
    in_body_ = inside;
  }
  [[nodiscard]] const plan& started() const noexcept { return of_; }
  [[nodiscard]] std::thread::id thread() const noexcept { return thread_; }
  [[nodiscard]] bool is_in_body() const noexcept { return in_body_; }
  [[nodiscard]] bool writes(const data& what) const noexcept {
    return std::any_of(of_.accesses.begin(), of_.accesses.end(), [&](const access& each) {
      return each.what == &what && millstream::writes(each.mode);
    });
  }
  [[nodiscard]] std::string full_name() const { return of_.full_name(); }

 private:
  const plan& of_;
  std::thread::id thread_;
  bool in_body_ = false;
};

}  // namespace millstream::core
