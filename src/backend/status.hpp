// SPDX-License-Identifier: Apache-2.0
/// What a backend call answers: a code and, on failure, a text. Backends never throw.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <millstream/error.hpp>

namespace millstream::backend {

/// Success costs one comparison and no allocation. The text names the operation, the device and
/// the native error; `core` adds the task and the data.
class [[nodiscard]] status {
 public:
  status() noexcept = default;
  status(errc code, std::string text)
      : text_(std::make_unique<std::string>(std::move(text))), code_(code) {}
  /// A failure without a text, for where there is no memory to hold one.
  explicit status(errc code) noexcept : code_(code) {}

  [[nodiscard]] bool ok() const noexcept { return code_ == errc::ok; }
  [[nodiscard]] errc code() const noexcept { return code_; }
  [[nodiscard]] const std::string& text() const noexcept {
    static const std::string none;
    return text_ ? *text_ : none;
  }
  explicit operator bool() const noexcept { return ok(); }

 private:
  std::unique_ptr<std::string> text_;
  errc code_ = errc::ok;
};

/// A value, or why there is none.
template <class T>
class [[nodiscard]] result {
 public:
  result(T value) : value_(std::move(value)) {}    // NOLINT(google-explicit-constructor)
  result(status why) : status_(std::move(why)) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool ok() const noexcept { return status_.ok(); }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] T& value() noexcept { return value_; }
  [[nodiscard]] const status& why() const noexcept { return status_; }
  [[nodiscard]] status take_status() noexcept { return std::move(status_); }

 private:
  T value_{};
  status status_;
};

}  // namespace millstream::backend
