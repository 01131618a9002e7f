// SPDX-License-Identifier: Apache-2.0
#include "backend/registry.hpp"

#include <gtest/gtest.h>

#include "backend/device_limit.hpp"
#include "backend/null/machine.hpp"

namespace millstream::backend {
namespace {

machine_result not_here(const open_options& /*options*/) {
  return status(errc::unavailable, "no such thing");
}
machine_result refuses(const open_options& /*options*/) {
  return status(errc::invalid_value, "bad option");
}

constexpr backend_entry absent{"absent", not_here, true};
constexpr backend_entry strict{"strict", refuses, true};
constexpr backend_entry hidden{"hidden", null::open, false};
constexpr backend_entry usual{"usual", null::open, true};

machine_result open(std::vector<backend_entry> entries, std::string_view name,
                    std::string_view preferred = "") {
  return open_among(entries, name, preferred, {});
}

TEST(Registry, ANameFindsItsBackend) {
  EXPECT_TRUE(open({absent, hidden}, "hidden").ok());
  EXPECT_EQ(open({absent, hidden}, "absent").why().code(), errc::unavailable);
}

TEST(Registry, AnUnknownNameGetsTheListOfKnownOnes) {
  const auto answer = open({absent, hidden, usual}, "x");
  EXPECT_EQ(answer.why().code(), errc::invalid_value);
  EXPECT_EQ(answer.why().text(), "unknown machine 'x'; choose one of absent, hidden, usual");
}

TEST(Registry, AnUnknownNameInTheVariableNamesTheVariable) {
  EXPECT_EQ(open({usual}, "", "x").why().text(),
            "variable 'MILLSTREAM_MACHINE' names the unknown machine 'x'; choose one of usual");
}

TEST(Registry, ANameCountsMoreThanTheVariable) {
  EXPECT_TRUE(open({absent, usual}, "usual", "absent").ok());
  EXPECT_TRUE(open({absent, usual}, "", "usual").ok());
}

TEST(Registry, TheDefaultIsTheFirstThatIsAvailable) {
  EXPECT_TRUE(open({absent, usual, strict}, "").ok());
}

TEST(Registry, ADefaultThatRefusesItsOptionsIsNotPassedOver) {
  EXPECT_EQ(open({absent, strict, usual}, "").why().code(), errc::invalid_value);
}

TEST(Registry, WithoutAnyTheTextSaysWhatWasTried) {
  const auto answer = open({absent, hidden}, "");
  EXPECT_EQ(answer.why().code(), errc::unavailable);
  EXPECT_EQ(answer.why().text(),
            "no machine can be opened; choose one of absent, hidden by name (tried 'absent': no "
            "such thing)");
}

TEST(Registry, DeviceCountsHaveLimits) {
  for (const int right : {0, 1, 64})
    EXPECT_TRUE(check_device_count(right, "x").ok());
  EXPECT_EQ(check_device_count(65, "machine 'x'").text(),
            "machine 'x' cannot have 65 devices; choose 1 to 64, or leave the number out for the "
            "default");
  EXPECT_EQ(check_device_count(-1, "x").code(), errc::invalid_value);
}

}  // namespace
}  // namespace millstream::backend
