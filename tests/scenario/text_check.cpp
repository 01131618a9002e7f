// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "tests/scenario/oracle.hpp"

namespace millstream::scenario {
namespace {

std::string name_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += " " + name;
  return names.empty() ? " none" : text;
}

std::string edge_list(const std::vector<edge>& edges) {
  std::string text;
  for (const edge& one : edges)
    text += " " + one.first + "->" + one.second;
  return edges.empty() ? " none" : text;
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

/// Compares what a text says with what the oracle finds.
class text_check {
 public:
  text_check(const program& what, const forecast& plan) : program_(what), plan_(plan) {}

  std::vector<std::string> run() {
    for (index_ = 0; index_ < program_.statements.size(); ++index_) {
      check_error();
      std::visit([&](const auto& one) { check(one); }, program_.statements[index_].what);
    }
    return std::move(problems_);
  }

 private:
  void check_error() {
    const expect_error* announced = announced_error(program_, index_);
    const errc wanted = announced != nullptr ? announced->code : errc::ok;
    const errc found = plan_.statements[index_].error;
    if (found == wanted) return;
    complain(std::string("the statement throws ") + to_string(found) + ", but " +
             (announced != nullptr ? to_string(wanted) : "no error") + " is announced");
  }

  void check(const wait_statement& what) {
    const known_value found = plan_.statements[index_].value;
    if (!what.value || !found || *what.value == *found) return;
    complain("sequential execution gives '" + what.data + "' = " + std::to_string(*found));
  }

  void check(const expect_edges& what) {
    std::vector<edge> wanted = what.edges;
    std::sort(wanted.begin(), wanted.end());
    if (what.how == expect_edges::extent::exact) {
      if (wanted != plan_.edges) complain("the accesses ask for edges" + edge_list(plan_.edges));
      return;
    }
    const bool present = what.how == expect_edges::extent::at_least;
    for (const edge& one : wanted) {
      if (std::binary_search(plan_.edges.begin(), plan_.edges.end(), one) == present) continue;
      complain("the accesses ask for edges" + edge_list(plan_.edges));
    }
  }

  void check(const expect_ended& what) {
    const bool failed = what.how == expect_ended::manner::failed;
    const std::vector<std::string>& found = failed ? plan_.failed : plan_.skipped;
    if (sorted(what.tasks) == sorted(found)) return;
    complain(std::string(failed ? "failed tasks are" : "skipped tasks are") + name_list(found));
  }

  template <class Other>
  void check(const Other& /*what*/) {}

  void complain(const std::string& text) {
    problems_.push_back(program_.file + ":" + std::to_string(program_.statements[index_].line) +
                        ": " + text);
  }

  const program& program_;
  const forecast& plan_;
  std::size_t index_ = 0;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_text(const program& what, const forecast& plan) {
  return text_check(what, plan).run();
}

}  // namespace millstream::scenario
