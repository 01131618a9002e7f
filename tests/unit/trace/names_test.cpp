// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <millstream/trace.hpp>

namespace ms = millstream;

TEST(Names, TaskKindsReadAsInTheSources) {
  EXPECT_STREQ(ms::to_string(ms::task_kind::task), "task");
  EXPECT_STREQ(ms::to_string(ms::task_kind::submit), "submit");
  EXPECT_STREQ(ms::to_string(ms::task_kind::host_launch), "host_launch");
  EXPECT_STREQ(ms::to_string(ms::task_kind::parallel_for), "parallel_for");
  EXPECT_STREQ(ms::to_string(ms::task_kind::fill), "fill");
  EXPECT_STREQ(ms::to_string(ms::task_kind::add_graph), "add_graph");
  EXPECT_STREQ(ms::to_string(ms::task_kind::cuda_kernel), "cuda_kernel");
}

TEST(Names, CopyReasonsReadAsInTheSources) {
  EXPECT_STREQ(ms::to_string(ms::copy_reason::coherence), "coherence");
  EXPECT_STREQ(ms::to_string(ms::copy_reason::write_back), "write_back");
  EXPECT_STREQ(ms::to_string(ms::copy_reason::read_back), "read_back");
}

TEST(Names, OutcomesReadAsInTheSources) {
  EXPECT_STREQ(ms::to_string(ms::outcome::done), "done");
  EXPECT_STREQ(ms::to_string(ms::outcome::failed), "failed");
  EXPECT_STREQ(ms::to_string(ms::outcome::skipped), "skipped");
}
