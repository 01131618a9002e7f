// SPDX-License-Identifier: Apache-2.0
/// What the tests of the typed API share.
#pragma once

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>

#include <millstream/millstream.hpp>

namespace ms = millstream;

/// A host machine of two devices, whatever the machine the tests run on.
inline ms::machine host_machine() {
  return ms::machine({.name = "host", .devices = 2, .seed = {}});
}

/// Holds tasks back until the test lets them go. Copies share the gate.
class gate {
 public:
  void wait() const { closed_->wait(); }
  void open() const { closed_->count_down(); }

 private:
  std::shared_ptr<std::latch> closed_ = std::make_shared<std::latch>(1);
};

/// Opens a gate at the end of a block, so that a failed assertion ends the test and not hangs it.
class open_at_exit {
 public:
  explicit open_at_exit(const gate& what) : gate_(what) {}
  open_at_exit(const open_at_exit&) = delete;
  open_at_exit& operator=(const open_at_exit&) = delete;
  ~open_at_exit() { open(); }
  void open() {
    if (!opened_) gate_.open();
    opened_ = true;
  }

 private:
  gate gate_;
  bool opened_ = false;
};

/// The error that `action` throws; fails the test if it throws none.
template <class Action>
ms::error error_of(Action&& action) {
  try {
    action();
  } catch (const ms::error& thrown) {
    return thrown;
  }
  ADD_FAILURE() << "no millstream::error was thrown";
  return {ms::errc::ok, ""};
}

#define EXPECT_ERROR(expected_code, part_of_text, ...)                                           \
  do {                                                                                           \
    const ms::error thrown_ = error_of([&] { __VA_ARGS__; });                                    \
    EXPECT_STREQ(ms::to_string(thrown_.code()), ms::to_string(expected_code)) << thrown_.what(); \
    EXPECT_NE(std::string(thrown_.what()).find(part_of_text), std::string::npos)                 \
        << thrown_.what();                                                                       \
  } while (false)

/// A context on the host machine of two devices. It outlives the buffers of a test, so a test that
/// registers some ends with `ctx.finalize()`.
class Api : public ::testing::Test {
 protected:
  ms::context ctx{host_machine()};
};
