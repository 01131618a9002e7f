// SPDX-License-Identifier: Apache-2.0
#include "trace/stamps.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace ms = millstream;
using millstream::trace::stamp_table;

TEST(Stamps, UnknownIdHasNoTimes) {
  const stamp_table table;
  EXPECT_EQ(table.at(0).began_ns, 0U);
  EXPECT_EQ(table.at(123456789).ended_ns, 0U);
  EXPECT_EQ(table.at(1).how, ms::outcome::done);
}

TEST(Stamps, KeepsTimesAndOutcomeOfEachId) {
  stamp_table table;
  table.began(7, 100);
  table.ended(7, 150, ms::outcome::failed);
  table.ended(8, 160, ms::outcome::skipped);
  EXPECT_EQ(table.at(7).began_ns, 100U);
  EXPECT_EQ(table.at(7).ended_ns, 150U);
  EXPECT_EQ(table.at(7).how, ms::outcome::failed);
  EXPECT_EQ(table.at(8).began_ns, 0U);
  EXPECT_EQ(table.at(8).how, ms::outcome::skipped);
}

TEST(Stamps, SlotsAcrossSegmentBordersAreDistinct) {
  stamp_table table;
  for (std::uint64_t id = 0; id < 5000; ++id)
    table.began(id, id + 1);
  for (std::uint64_t id = 0; id < 5000; ++id)
    ASSERT_EQ(table.at(id).began_ns, id + 1);
}

TEST(Stamps, IdsBeyondTheTableAreDropped) {
  stamp_table table;
  for (const std::uint64_t id : {std::uint64_t{1} << 40U, std::numeric_limits<std::uint64_t>::max(),
                                 std::numeric_limits<std::uint64_t>::max() - 1023}) {
    table.began(id, 5);
    table.ended(id, 6, ms::outcome::done);
    EXPECT_EQ(table.at(id).ended_ns, 0U);
  }
}

TEST(Stamps, ThreadsThatMeetInOneSegmentLoseNothing) {
  stamp_table table;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (std::uint64_t part = 0; part < 4; ++part) {
    threads.emplace_back([&table, part] {
      for (std::uint64_t id = part; id < 4000; id += 4) {
        table.began(id, id + 1);
        table.ended(id, id + 2, ms::outcome::done);
      }
    });
  }
  for (std::thread& each : threads)
    each.join();
  for (std::uint64_t id = 0; id < 4000; ++id)
    ASSERT_EQ(table.at(id).ended_ns, id + 2);
}
