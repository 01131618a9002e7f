// SPDX-License-Identifier: Apache-2.0
#include "bench/cuda/harness.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <stdexcept>

namespace bench {
namespace {

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr,
               "millstream_bench_cuda: %s; give --json FILE, --only TEXT, --runs N, --most-mib N "
               "or --quick\n",
               why.c_str());
  std::exit(2);
}

std::size_t number(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value == 0) stop(option + " needs a number above 0");
  return value;
}

std::vector<double> ratios(const row& of) {
  std::vector<double> found;
  for (std::size_t i = 0; i < of.by_hand.size(); ++i)
    found.push_back(of.values[i] / of.by_hand[i]);
  return found;
}

void print(const row& of) {
  const auto [least, most] = std::minmax_element(of.values.begin(), of.values.end());
  std::printf("%-44s %10.3f %s  (%.3f to %.3f)", of.name.c_str(), median(of.values),
              of.unit.c_str(), *least, *most);
  if (of.budget > 0) std::printf("  budget %g", of.budget);
  if (!of.by_hand.empty()) {
    std::printf("  by hand %.3f, ratio %.3f", median(of.by_hand), median(ratios(of)));
  }
  if (of.ratio_budget > 0) std::printf(" of at most %.3g", of.ratio_budget);
  if (of.over_budget > 0) {
    std::printf(", %+.3f of at most +%g", median(of.values) - median(of.by_hand), of.over_budget);
  }
  std::printf("\n");
  std::fflush(stdout);
}

/// Writes JSON. Texts are ours and have no control characters.
class json_writer {
 public:
  explicit json_writer(std::ostream& to) : to_(to) {}
  void text(const std::string& what) {
    to_ << '"';
    for (const char letter : what) {
      if (letter == '"' || letter == '\\') to_ << '\\';
      to_ << letter;
    }
    to_ << '"';
  }
  void list(const std::vector<double>& values) {
    to_ << '[';
    for (std::size_t i = 0; i < values.size(); ++i)
      to_ << (i == 0 ? "" : ", ") << values[i];
    to_ << ']';
  }
  void add(const row& what) {
    to_ << "  {\"name\": ";
    text(what.name);
    to_ << ", \"unit\": ";
    text(what.unit);
    to_ << ", \"budget\": " << what.budget << ", \"ratio_budget\": " << what.ratio_budget
        << ", \"over_budget\": " << what.over_budget << ", \"values\": ";
    list(what.values);
    to_ << ", \"by_hand\": ";
    list(what.by_hand);
    to_ << '}';
  }

 private:
  std::ostream& to_;
};

}  // namespace

options parse(int count, char** arguments) {
  options made;
  for (int i = 1; i < count; ++i) {
    const std::string option = arguments[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == count) stop(option + " needs a value");
      return arguments[++i];
    };
    if (option == "--quick") {
      made.quick = true;
      made.runs = 2;
      made.most_mib = 1;
    } else if (option == "--json") {
      made.json = value();
    } else if (option == "--only") {
      made.only = value();
    } else if (option == "--runs") {
      made.runs = number(option, value());
    } else if (option == "--most-mib") {
      made.most_mib = number(option, value());
    } else {
      stop("'" + option + "' is not an option");
    }
  }
  return made;
}

double median(std::vector<double> values) {
  const std::size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void report::add(row measured) {
  print(measured);
  rows_.push_back(std::move(measured));
}

void report::write(const std::string& machine) const {
  if (how_.json.empty()) return;
  std::ofstream file(how_.json);
  json_writer json(file);
  file << "{\"machine\": ";
  json.text(machine);
  file << ", \"rows\": [\n";
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    json.add(rows_[i]);
    file << (i + 1 == rows_.size() ? "\n" : ",\n");
  }
  file << "]}\n";
  file.close();
  if (!file) throw std::runtime_error("'" + how_.json + "' cannot be written");
}

}  // namespace bench
