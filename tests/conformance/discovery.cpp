// SPDX-License-Identifier: Apache-2.0
/// What a machine says about itself.
#include <set>

#include "tests/conformance/promise.hpp"

namespace conformance {
namespace {

using discovery = promise<>;

TEST_F(discovery, TheNameIsTheOneItWasAskedBy) {
  EXPECT_EQ(machine().name(), options().with->name);
}

TEST_F(discovery, TheBitsAreThoseOfTheJoinFile) {
  for (std::size_t i = 0; i < backend::capability_count; ++i) {
    const auto bit = static_cast<capability>(i);
    EXPECT_EQ(has(bit), options().with->bits.has(bit)) << backend::capability_names[i];
  }
}

TEST_F(discovery, TheDeviceCountIsStable) {
  EXPECT_GE(machine().device_count(), 1);
  EXPECT_EQ(machine().device_count(), open_machine()->device_count());
}

TEST_F(discovery, DevicesKnowTheirIndex) {
  for (const int place : places())
    EXPECT_EQ(device(place).index(), place);
}

TEST_F(discovery, DevicesHaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const int place : places())
    names.insert(device(place).name());
  EXPECT_EQ(names.size(), places().size());
  EXPECT_FALSE(names.contains(""));
}

TEST_F(discovery, EveryPlaceWantsAtLeastOneQueue) {
  for (const int place : places())
    EXPECT_GE(device(place).queue_hint(), 1);
}

TEST_F(discovery, TheCurrentDeviceIsOneOfThem) {
  EXPECT_GE(machine().current_device(), 0);
  EXPECT_LT(machine().current_device(), machine().device_count());
}

TEST_F(discovery, OpeningTwiceGivesSeparateMachines) {
  const auto other = open_machine();
  backend::queue& here = queue_on(0);
  const queue_ptr there = value(other->at(0).make_queue());
  EXPECT_NE(here.handle(), there->handle());
  EXPECT_EQ(other->live_objects(), 1);
}

TEST_F(discovery, AMachineThatWasNotUsedClosesQuietly) {
  const auto unused = open_machine();
  EXPECT_EQ(unused->live_objects(), 0);
}

TEST_F(discovery, ABadDeviceCountIsAnInvalidValue) {
  for (const int count : {-1, 65, 1 << 30}) {
    const auto opened = options().with->open({count, {}});
    ASSERT_FALSE(opened.ok()) << count;
    EXPECT_EQ(opened.why().code(), errc::invalid_value);
    EXPECT_NE(opened.why().text().find(std::to_string(count)), std::string::npos);
  }
}

TEST_F(discovery, RegisteringHostMemoryIsAllowed) {
  bytes users(10'000);
  ok(machine().register_memory(users.data(), users.size()));
  ok(machine().unregister_memory(users.data()));
}

}  // namespace
}  // namespace conformance
