// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace millstream::base {
namespace {

using messages = std::vector<std::pair<log_level, std::string>>;

void keep(log_level level, std::string_view text, void* user) noexcept {
  static_cast<messages*>(user)->emplace_back(level, text);
}

class Log : public testing::Test {
 protected:
  void SetUp() override { set_log_sink(keep, &kept_); }
  void TearDown() override {
    set_log_sink(nullptr, nullptr);
    set_log_level(log_level::warning);
  }
  messages kept_;
};

TEST_F(Log, MessagesBelowTheLevelAreDropped) {
  set_log_level(log_level::warning);
  log(log_level::info, "a");
  log(log_level::warning, "b");
  log(log_level::error, "c");
  EXPECT_EQ(kept_, (messages{{log_level::warning, "b"}, {log_level::error, "c"}}));
}

TEST_F(Log, OffMeansNothingAtAll) {
  set_log_level(log_level::off);
  EXPECT_FALSE(log_enabled(log_level::error));
  EXPECT_FALSE(log_enabled(log_level::off));
  log(log_level::error, "a");
  EXPECT_TRUE(kept_.empty());
}

TEST_F(Log, ASinkMayReplaceItself) {
  set_log_level(log_level::debug);
  set_log_sink([](log_level, std::string_view, void*) noexcept { set_log_sink(nullptr, nullptr); },
               nullptr);
  log(log_level::debug, "does not hang");
}

TEST_F(Log, TheFirstSinkWritesLinesToStandardError) {
  set_log_sink(nullptr, nullptr);
  set_log_level(log_level::warning);
  testing::internal::CaptureStderr();
  log(log_level::warning, "look here");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "millstream: warning: look here\n");
}

}  // namespace
}  // namespace millstream::base
