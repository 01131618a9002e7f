// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "tests/scenario/program.hpp"

namespace millstream::scenario {
namespace {

std::string bytes_text(std::size_t bytes) {
  if (bytes != 0 && bytes % (std::size_t{1} << 20U) == 0)
    return std::to_string(bytes >> 20U) + "MiB";
  if (bytes != 0 && bytes % (std::size_t{1} << 10U) == 0)
    return std::to_string(bytes >> 10U) + "KiB";
  return std::to_string(bytes) + "B";
}

const char* form_name(form how) {
  switch (how) {
    case form::task: return "task";
    case form::submit: return "submit";
    case form::host_launch: return "host_launch";
    case form::with: return "with";
    case form::open: return "open";
  }
  return "?";
}

std::string body_text(const work& body) {
  switch (body.what) {
    case effect::mix: return "";
    case effect::adds: return " adds " + std::to_string(body.number);
    case effect::sets: return " sets " + std::to_string(body.number);
    case effect::fails: return " fails";
  }
  return "?";
}

std::string words_text(const std::vector<std::string>& words, const char* empty) {
  if (words.empty()) return std::string(" ") + empty;
  std::string text;
  for (const std::string& word : words)
    text += " " + word;
  return text;
}

std::string text_of(const data_statement& what) {
  std::string text = "data " + what.name + " " + bytes_text(what.bytes) + " at " +
                     (what.home == unplaced ? "nowhere" : place_name(what.home));
  if (!what.over.empty()) text += " over " + what.over;
  if (what.offset != 0) text += "+" + bytes_text(what.offset);
  if (what.readonly) text += " readonly";
  if (what.value) text += " = " + std::to_string(*what.value);
  return text;
}

std::string text_of(const token_statement& what) {
  return "token " + what.name;
}

std::string text_of(const task_statement& what) {
  std::string text = std::string(form_name(what.how)) + " " + what.name;
  if (what.how != form::host_launch && what.place != unplaced) text += " " + place_name(what.place);
  if (!what.uses_device) text += " deviceless";
  for (const access& one : what.accesses) {
    text += std::string(" ") + to_string(one.mode) + " " + one.data;
    if (one.place != unplaced) text += "@" + place_name(one.place);
  }
  return text + body_text(what.body);
}

std::string text_of(const close_statement& what) {
  return (what.failed ? "abort " : "close ") + what.task;
}

std::string text_of(const fill_statement& what) {
  std::string text = "fill " + what.data + " " + std::to_string(what.value);
  if (what.place != unplaced) text += " on " + place_name(what.place);
  if (!what.name.empty()) text += " named " + what.name;
  return text;
}

std::string text_of(const drop_statement& what) {
  return "drop " + what.data;
}

std::string text_of(const wait_statement& what) {
  return "wait " + what.data + (what.value ? " = " + std::to_string(*what.value) : "");
}

std::string text_of(const action_statement& what) {
  switch (what.what) {
    case action::fence: return "fence";
    case action::check_errors: return "check_errors";
    case action::finalize: return "finalize";
  }
  return "?";
}

std::string text_of(const expect_edges& what) {
  using extent = expect_edges::extent;
  std::string text = what.how == extent::none_of    ? "expect no edge"
                     : what.how == extent::at_least ? "expect edges at least"
                                                    : "expect edges";
  for (const edge& one : what.edges)
    text += " " + one.first + "->" + one.second;
  return what.edges.empty() ? text + " none" : text;
}

std::string text_of(const expect_copies& what) {
  std::string text = "expect copies";
  for (const auto& [direction, count] : what.counts) {
    text += " " + direction.first + "->" + direction.second + " " + std::to_string(count);
  }
  return what.counts.empty() ? text + " none" : text;
}

std::string text_of(const expect_value& what) {
  return "expect value " + what.data + " = " + std::to_string(what.value);
}

std::string text_of(const expect_ended& what) {
  return (what.how == expect_ended::manner::failed ? "expect failed" : "expect skipped") +
         words_text(what.tasks, "none");
}

std::string text_of(const expect_error& what) {
  std::string text = std::string("expect error ") + to_string(what.code);
  for (const std::string& word : what.words)
    text += " \"" + word + "\"";
  return text;
}

std::string text_of(const expect_order& what) {
  return "expect order" + words_text(what.tasks, "");
}

std::string text_of(const expect_count& what) {
  return "expect " + what.what + " " + std::to_string(what.count);
}

std::string list_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::string place_name(int place) {
  if (place == on_host) return "host";
  if (place == unplaced) return "nowhere";
  if (place == -2) return "managed";
  return "dev" + std::to_string(place);
}

std::string print(const statement& what) {
  return std::visit([](const auto& one) { return text_of(one); }, what.what);
}

std::string print(const program& what) {
  std::string text = "devices " + std::to_string(what.devices) + "\n";
  for (const statement& one : what.statements)
    text += print(one) + "\n";
  return text + "run " + list_text(what.plan.modes) + "; seeds " + std::to_string(what.plan.seeds) +
         "; backends " + list_text(what.plan.backends) + "\n";
}

}  // namespace millstream::scenario
