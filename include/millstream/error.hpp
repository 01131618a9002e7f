// SPDX-License-Identifier: Apache-2.0
/// The one exception type of the library, its codes, and the place in the user's program it names.
#pragma once

#include <cstdint>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>

#include <millstream/export.hpp>

namespace millstream::inline v1 {

/// What went wrong, by kind. Python maps each code to the closest built-in exception type.
enum class errc : std::uint8_t {
  ok = 0,
  usage,            ///< a rule of the API was broken (RuntimeError)
  invalid_value,    ///< an argument has a value that is not allowed (ValueError)
  invalid_type,     ///< an argument has a type that is not allowed (TypeError)
  out_of_range,     ///< an index is past the end (IndexError)
  out_of_memory,    ///< a place has no room; not sticky (MemoryError)
  not_written,      ///< data was read that nothing has written (RuntimeError)
  poisoned,         ///< the data was to be written by a task that failed (RuntimeError)
  task_failed,      ///< a task or host function raised; the cause is nested (RuntimeError)
  deadlock,         ///< going on would wait for the caller itself (RuntimeError)
  device,           ///< a device operation failed; the context goes on (RuntimeError)
  device_lost,      ///< a device failed for good: every later call says the same (RuntimeError)
  unsupported,      ///< this machine cannot do that (RuntimeError)
  unavailable,      ///< the machine cannot be opened or used here, e.g. after fork (RuntimeError)
  not_implemented,  ///< named in the interface, comes with a later version (NotImplementedError)
  interrupted,      ///< a blocking call was interrupted by the user (KeyboardInterrupt)
  internal,         ///< a fault of the library (RuntimeError)
};

/// Name of a code as in the sources, e.g. "out_of_memory".
[[nodiscard]] MILLSTREAM_API const char* to_string(errc code) noexcept;

/// A line of the user's program. `file` must live as long as the process (string literals and
/// interned names do); null means unknown.
struct source_site {
  const char* file = nullptr;
  std::uint32_t line = 0;

  source_site() = default;
  constexpr source_site(const char* file_name, std::uint32_t line_number) noexcept
      : file(file_name), line(line_number) {}
  /// Implicit, so that an argument `std::source_location at = std::source_location::current()`
  /// can be handed on.
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr source_site(const std::source_location& at) noexcept
      : file(at.file_name()), line(at.line()) {}
};

/// Every exception the library throws. The text reads `<who> <failed how>; <way out>` and names
/// the task, the data and the user's line where these are known.
class error : public std::runtime_error {
 public:
  error(errc code, const std::string& text) : std::runtime_error(text), code_(code) {}
  /// `data` names the data that are meant.
  error(errc code, const std::string& text, const std::string& data) : error(code, text) {
    data_ = std::make_shared<const std::string>(data);
  }
  [[nodiscard]] errc code() const noexcept { return code_; }
  /// Names of the data that are meant, "'x', 'y'"; "" where that is not one datum or not known.
  [[nodiscard]] std::string data() const { return data_ == nullptr ? std::string() : *data_; }

 private:
  errc code_;
  std::shared_ptr<const std::string> data_;  // shared: copying an exception must not throw
};

}  // namespace millstream::inline v1
