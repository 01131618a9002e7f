// SPDX-License-Identifier: Apache-2.0
/// A shared library that is looked for at run time.
#pragma once

#include <string>
#include <utility>

namespace millstream::base {

/// Owns one opening of the library; unloads it at destruction unless `keep_loaded` was called.
/// Movable. Any thread may look names up.
class dynamic_library {
 public:
  dynamic_library() noexcept = default;
  dynamic_library(dynamic_library&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)) {}
  dynamic_library& operator=(dynamic_library&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  dynamic_library(const dynamic_library&) = delete;
  dynamic_library& operator=(const dynamic_library&) = delete;
  ~dynamic_library();

  /// By path or by the loader's search order. Its names stay local to the handle, and unresolved
  /// names are found here and not at their first use. On failure the result is empty and `why`
  /// holds the loader's reason.
  [[nodiscard]] static dynamic_library open(const std::string& path, std::string& why);

  explicit operator bool() const noexcept { return handle_ != nullptr; }

  /// Address of an exported name, or null; null for an empty handle.
  [[nodiscard]] void* find(const char* name) const noexcept;

  /// Lets go of the library without unloading it: it stays until the process ends, for those whose
  /// threads or exit handlers may run at any time. `find` answers null afterwards, so look
  /// everything up first.
  void keep_loaded() noexcept { handle_ = nullptr; }

 private:
  explicit dynamic_library(void* handle) noexcept : handle_(handle) {}

  void* handle_ = nullptr;
};

}  // namespace millstream::base
