// SPDX-License-Identifier: Apache-2.0
/// Measured rows, their table and their JSON. Google Benchmark is not used, because most rows are
/// pairs (ours and the same work written by hand, in turns, in one run), and because a GPU machine
/// without a network should need nothing but the sources.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

struct options {
  std::string json;          ///< file for the rows; empty = none
  std::string only;          ///< rows whose name contains this text; empty = all
  std::size_t runs = 15;     ///< values of each row
  bool quick = false;        ///< tiny amounts, to see that everything runs; the values mean nothing
  std::size_t most_mib = 0;  ///< largest block to copy; 0 = all there is

  [[nodiscard]] std::size_t amount(std::size_t full) const noexcept {
    return quick ? full / 100 + 1 : full;
  }
};

/// Exits with 2 where an argument is wrong.
[[nodiscard]] options parse(int count, char** arguments);

/// One measurement. `values[i]` and `by_hand[i]` are of the same run.
struct row {
  std::string name;
  std::string unit = "us";
  double budget = 0;        ///< of the median, in units; 0 = none
  double ratio_budget = 0;  ///< of the median of values[i] / by_hand[i]; 0 = none
  double over_budget = 0;   ///< of the median of values[i] - by_hand[i], in units; 0 = none
  std::vector<double> values;
  std::vector<double> by_hand;
};

/// Prints each row as it comes and keeps it.
class report {
 public:
  explicit report(options how) : how_(std::move(how)) {}
  [[nodiscard]] const options& how() const noexcept { return how_; }
  [[nodiscard]] bool wants(std::string_view name) const noexcept {
    return name.find(how_.only) != std::string_view::npos;
  }
  void add(row measured);
  /// Throws std::runtime_error where the file cannot be written.
  void write(const std::string& machine) const;

 private:
  options how_;
  std::vector<row> rows_;
};

/// Microseconds by the clock.
template <class Work>
[[nodiscard]] double us_of(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin)
      .count();
}

[[nodiscard]] double median(std::vector<double> values);

}  // namespace bench
