// SPDX-License-Identifier: Apache-2.0
#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <map>

namespace millstream::base {
namespace {

std::map<std::string, std::string>& variables() {
  static std::map<std::string, std::string> set;
  return set;
}
const char* look_up(const char* variable) {
  const auto found = variables().find(variable);
  return found == variables().end() ? nullptr : found->second.c_str();
}
settings read(std::map<std::string, std::string> set) {
  variables() = std::move(set);
  return read_settings(look_up);
}

TEST(Settings, WithoutVariablesTheDefaultsHold) {
  const settings set = read({});
  EXPECT_EQ(set.machine, "");
  EXPECT_EQ(set.host_devices, 0);
  EXPECT_EQ(set.host_memory_bytes, 0U);
  EXPECT_EQ(set.log_level, "warning");
  EXPECT_EQ(set.check_bodies, 0);
  EXPECT_TRUE(set.problems.empty());
}

TEST(Settings, VariablesAreRead) {
  const settings set = read({{"MILLSTREAM_MACHINE", "host"},
                             {"MILLSTREAM_HOST_DEVICES", "4"},
                             {"MILLSTREAM_HOST_MEMORY", "1.5G"},
                             {"MILLSTREAM_LOG", "debug"},
                             {"MILLSTREAM_CHECK_BODIES", "1"}});
  EXPECT_EQ(set.machine, "host");
  EXPECT_EQ(set.host_devices, 4);
  EXPECT_EQ(set.host_memory_bytes, std::size_t{3} << 29U);
  EXPECT_EQ(set.log_level, "debug");
  EXPECT_EQ(set.check_bodies, 1);
  EXPECT_TRUE(set.problems.empty());
}

TEST(Settings, AnEmptyVariableIsAsGoodAsNone) {
  EXPECT_TRUE(read({{"MILLSTREAM_HOST_DEVICES", ""}, {"MILLSTREAM_LOG", ""}}).problems.empty());
}

TEST(Settings, AWrongValueLeavesTheDefaultAndATextThatSaysWhatIsAllowed) {
  for (const char* wrong : {"0", "65", "-1", "two", "3x", "99999999999999999999"}) {
    const settings set = read({{"MILLSTREAM_HOST_DEVICES", wrong}});
    EXPECT_EQ(set.host_devices, 0) << wrong;
    EXPECT_EQ(set.problem_with("MILLSTREAM_HOST_DEVICES"),
              std::string("variable 'MILLSTREAM_HOST_DEVICES' is '") + wrong +
                  "'; set a whole number from 1 to 64");
  }
}

TEST(Settings, ProblemsConcernTheirVariableOnly) {
  const settings set = read({{"MILLSTREAM_LOG", "loud"}, {"MILLSTREAM_HOST_MEMORY", "much"}});
  EXPECT_EQ(set.problem_with("MILLSTREAM_LOG"),
            "variable 'MILLSTREAM_LOG' is 'loud'; set debug, info, warning, error or off");
  EXPECT_EQ(set.problem_with("MILLSTREAM_HOST_MEMORY"),
            "variable 'MILLSTREAM_HOST_MEMORY' is 'much'; set a number of bytes above 0, such as "
            "268435456, 256M or 1.5G");
  EXPECT_EQ(set.problem_with("MILLSTREAM_HOST_DEVICES"), "");
}

TEST(Settings, ByteCountsTakeSuffixes) {
  const std::map<std::string, std::size_t> right{
      {"1", 1}, {"64", 64}, {"2K", 2048}, {"0.5M", 1U << 19U}, {"3T", std::size_t{3} << 40U}};
  for (const auto& [text, expected] : right) {
    std::size_t bytes = 0;
    EXPECT_TRUE(parse_bytes(text, bytes)) << text;
    EXPECT_EQ(bytes, expected) << text;
  }
}

TEST(Settings, OtherByteCountsAreRefused) {
  for (const char* wrong : {"", "K", "0", "-1", "1KB", "1 G", "nan", "inf", "1e300T", "0.1"}) {
    std::size_t bytes = 7;
    EXPECT_FALSE(parse_bytes(wrong, bytes)) << wrong;
    EXPECT_EQ(bytes, 7U);
  }
}

}  // namespace
}  // namespace millstream::base
