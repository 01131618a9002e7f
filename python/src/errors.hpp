// SPDX-License-Identifier: Apache-2.0
/// Exceptions between the two languages: the engine's become subclasses of `millstream.Error`,
/// those of user code travel through the engine and come out as the same object.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <millstream/error.hpp>
#include <millstream/untyped.hpp>

#include "locks.hpp"

namespace millstream::python {

/// What is known about an error besides its text; "" and null = unknown.
struct error_details {
  std::string task;
  std::string data;
  source_site site;
};

/// An error whose Python class is chosen by name where the code alone does not say it, and that
/// carries its details as attributes.
class binding_error : public error {
 public:
  binding_error(errc code, const std::string& text, error_details known,
                const char* class_name = nullptr)
      : error(code, text), details(std::move(known)), python_class(class_name) {}

  error_details details;
  const char* python_class;
};

/// A Python exception on its way through the engine. Copies share the object; dropping the last
/// one is safe on any thread. `what()` needs no interpreter lock.
class python_exception final : public std::exception {
 public:
  class state {
   public:
    state(nb::object value, std::string shown) : text(std::move(shown)), value_(std::move(value)) {}

    const std::string text;  // "ValueError: boom"
    std::uint64_t list =
        0;  // of the borrowed context it came through, if any; set before it is kept

    /// The exception, or null once it has been dropped.
    [[nodiscard]] nb::object value() const noexcept;
    void drop() noexcept;
    /// For the garbage collector.
    [[nodiscard]] nb::handle kept() const noexcept { return value_.get(); }

   private:
    py_ref value_;
    [[no_unique_address]] mutable short_lock lock_;
  };

  /// Takes the pending exception; the lock is held.
  [[nodiscard]] static python_exception fetch();
  explicit python_exception(nb::object value);

  [[nodiscard]] const char* what() const noexcept override { return state_->text.c_str(); }
  [[nodiscard]] const std::shared_ptr<state>& shared() const noexcept { return state_; }

 private:
  std::shared_ptr<state> state_;
};

/// The Python exception for a C++ one. The lock is held.
[[nodiscard]] nb::object to_python(const std::exception_ptr& what, const error_details& details);

/// Runs `call`. An error of the engine leaves as the Python exception with what `details()` says;
/// nothing is spent on that otherwise.
template <class Details, class Call>
void with_details(Details&& details, Call&& call);

/// One exception for all failures: the user's own object with a note, or an ExceptionGroup.
/// Null for none. The lock is held.
[[nodiscard]] nb::object combine(const std::vector<failure>& failures);

/// The oldest failure nobody has seen of the functions with this `body_arguments::list`, which has
/// been seen now. Null for none. The lock is held.
[[nodiscard]] nb::object take_failure_of(untyped_context& in, std::uint64_t list);

/// Throws `text` instead of an exception of Python's or NumPy's, as our exception of the same
/// built-in type: ValueError, TypeError, OverflowError. Others go on as they are. Called while
/// `raised` is being handled.
[[noreturn]] void throw_instead_of(nb::python_error& raised, const std::string& text);

/// Leaves the Python exception for a C++ one pending, as nanobind does where it calls us.
void set_python_error(const std::exception_ptr& what) noexcept;

/// Throws `exception` as what it is, with the traceback it has.
[[noreturn]] void throw_python(const nb::object& exception);

template <class Details, class Call>
void with_details(Details&& details, Call&& call) {
  try {
    call();
  } catch (const error& failed) {
    if (failed.code() == errc::interrupted) throw;
    throw_python(to_python(std::current_exception(), details()));
  }
}

}  // namespace millstream::python
