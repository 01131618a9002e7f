// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace millstream::base {
namespace {

TEST(Text, CatJoinsPartsOfEveryKind) {
  const std::string text = "s";
  EXPECT_EQ(cat(text, std::string_view("v"), "c", 'x', true, false), "svcxtruefalse");
  EXPECT_EQ(cat(1, ' ', -2L, ' ', 3U, ' ', std::numeric_limits<std::uint64_t>::max()),
            "1 -2 3 18446744073709551615");
  EXPECT_EQ(cat(), "");
}

TEST(Text, CatWritesFloatingPointInItsShortestForm) {
  EXPECT_EQ(cat(0.1, ' ', 1.0, ' ', -2.5F, ' ', 1e300), "0.1 1 -2.5 1e+300");
}

TEST(Text, CatTakesNullForAnEmptyText) {
  const char* none = nullptr;
  EXPECT_EQ(cat("<", none, ">"), "<>");
}

TEST(Text, QuotedPutsSingleQuotesAround) {
  EXPECT_EQ(quoted("x"), "'x'");
  EXPECT_EQ(quoted(""), "''");
}

TEST(Text, BytesTextPicksTheUnit) {
  constexpr std::size_t kib = 1024;
  EXPECT_EQ(bytes_text(0), "0 bytes");
  EXPECT_EQ(bytes_text(1), "1 byte");
  EXPECT_EQ(bytes_text(1023), "1023 bytes");
  EXPECT_EQ(bytes_text(kib), "1 KiB");
  EXPECT_EQ(bytes_text(kib * kib * kib * 3 / 2), "1.5 GiB");
  EXPECT_EQ(bytes_text(300 * kib * kib * kib * kib), "300 TiB");
}

TEST(Text, BytesTextRoundsIntoTheNextUnit) {
  EXPECT_EQ(bytes_text(1024 * 1024 - 1), "1 MiB");
  EXPECT_EQ(bytes_text(std::numeric_limits<std::size_t>::max()), "16 EiB");
}

TEST(Text, SiteTextNamesFileAndLineIfTheyAreKnown) {
  EXPECT_EQ(site_text({"file.py", 12}), "file.py:12");
  EXPECT_EQ(site_text({}), "");
}

}  // namespace
}  // namespace millstream::base
