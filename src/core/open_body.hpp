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
  /// `at_once`: the engine calls it itself and waits for it, so that it ends without the user.
  explicit open_body(const plan& of, bool at_once = false) noexcept : of_(of), at_once_(at_once) {}
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
  [[nodiscard]] bool is_at_once() const noexcept { return at_once_; }
  /// Whether one of the two has to come after the other.
  [[nodiscard]] bool conflicts_with(const access& wanted) const noexcept {
    return std::any_of(of_.accesses.begin(), of_.accesses.end(), [&](const access& each) {
      return each.what == wanted.what && (writes(each.mode) || writes(wanted.mode));
    });
  }
  /// The next one in `open_list`.
  [[nodiscard]] const open_body* next() const noexcept { return next_; }
  [[nodiscard]] std::string full_name() const { return of_.full_name(); }

 private:
  friend class open_list;
  const plan& of_;
  std::thread::id thread_;
  bool in_body_ = false;
  const bool at_once_;
  // Changed under the context's lock.
  open_body* next_ = nullptr;
  open_body* previous_ = nullptr;
};

/// The open bodies of a context, the newest first. Under the context's lock.
class open_list {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] const open_body* first() const noexcept { return first_; }
  void add(open_body& body) noexcept {
    body.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &body;
    first_ = &body;
    ++size_;
  }
  void remove(open_body& body) noexcept {
    (body.previous_ != nullptr ? body.previous_->next_ : first_) = body.next_;
    if (body.next_ != nullptr) body.next_->previous_ = body.previous_;
    --size_;
  }

 private:
  open_body* first_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace millstream::core
