// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>

#include "tests/scenario/counters.hpp"
#include "tests/scenario/line_reader.hpp"
#include "tests/scenario/program.hpp"

namespace millstream::scenario {
namespace {

constexpr int most_devices = 64;
constexpr std::uint64_t most_seeds = 100'000;

struct code_name {
  std::string_view name;
  errc code;
};
// In the text a code has the name it has in the sources.
constexpr std::array<code_name, 14> codes{{
    {"usage", errc::usage},
    {"invalid_value", errc::invalid_value},
    {"invalid_type", errc::invalid_type},
    {"out_of_range", errc::out_of_range},
    {"out_of_memory", errc::out_of_memory},
    {"not_written", errc::not_written},
    {"poisoned", errc::poisoned},
    {"task_failed", errc::task_failed},
    {"deadlock", errc::deadlock},
    {"device", errc::device},
    {"device_lost", errc::device_lost},
    {"unsupported", errc::unsupported},
    {"unavailable", errc::unavailable},
    {"not_implemented", errc::not_implemented},
}};

class parser {
 public:
  parser(const std::string& file, const std::string& text) : text_(text) { result_.file = file; }

  program parse() {
    std::istringstream lines(text_);
    std::string line;
    for (std::uint32_t number = 1; std::getline(lines, line); ++number) {
      line_reader words(result_.file, number, line);
      if (words.at_end()) continue;
      if (ended_) words.fail("nothing may follow the line 'run'; move it up");
      parse_line(words);
      words.expect_end();
    }
    check_references();
    return std::move(result_);
  }

 private:
  using handler = void (parser::*)(line_reader&);
  struct keyword {
    std::string_view word;
    handler parse;
  };
  static const std::array<keyword, 19> keywords;

  void parse_line(line_reader& words) {
    const std::string& first = words.peek();
    for (const keyword& one : keywords) {
      if (!words.accept(one.word)) continue;
      (this->*one.parse)(words);
      return;
    }
    std::string all;
    for (const keyword& one : keywords)
      all += (all.empty() ? "" : ", ") + std::string(one.word);
    words.fail("'" + first + "' is no statement; use one of " + all);
  }

  template <class What>
  void add(const line_reader& words, What what) {
    result_.statements.push_back({words.line(), std::move(what)});
  }

  void devices(line_reader& words) {
    const std::uint64_t count = words.take_count("the number of devices");
    if (count < 1 || count > most_devices) words.fail("a machine has 1 to 64 devices; change it");
    if (!result_.statements.empty()) words.fail("'devices' comes too late; put it first");
    result_.devices = static_cast<int>(count);
  }

  void machine(line_reader& words) {
    result_.plan.backends = {words.take_name("the machine")};
    machine_given_ = true;
  }

  void data(line_reader& words) {
    data_statement made;
    made.name = declare(words, words.take_name("the datum"));
    made.bytes = words.take_bytes();
    if (!words.accept("at")) words.fail("'at host', 'at dev<number>' or 'at nowhere' is missing");
    if (!words.accept("nowhere")) made.home = words.take_place();
    if (words.accept("over")) take_range(words, made);
    made.readonly = words.accept("readonly");
    if (words.accept("=")) made.value = words.take_integer("the value");
    if (made.home == unplaced && (made.readonly || made.value || !made.over.empty())) {
      words.fail("data at nowhere has no content; register it at a place");
    }
    if (made.value && !made.over.empty()) words.fail("the buffer has a value already; remove it");
    add(words, std::move(made));
  }

  void take_range(line_reader& words, data_statement& made) {
    const std::string range = words.take_word("the datum whose buffer is used");
    const std::size_t plus = range.find('+');
    made.over = range.substr(0, plus);
    if (!declared_.contains(made.over)) words.fail("'" + made.over + "' is not declared; add it");
    if (plus == std::string::npos) return;
    line_reader offset(result_.file, words.line(), range.substr(plus + 1));
    made.offset = offset.take_bytes();
  }

  void token(line_reader& words) {
    add(words, token_statement{declare(words, words.take_name("the token"))});
  }

  void task(line_reader& words) { add_task(words, form::task); }
  void submit(line_reader& words) { add_task(words, form::submit); }
  void host_launch(line_reader& words) { add_task(words, form::host_launch); }
  void with(line_reader& words) { add_task(words, form::with); }
  void open(line_reader& words) { add_task(words, form::open); }

  void add_task(line_reader& words, form how) {
    task_statement made;
    made.how = how;
    made.name = new_task(words, words.take_name("the task"));
    if (how == form::open) open_[made.name] = words.line();
    if (how == form::host_launch) {
      made.place = on_host;
    } else if (place_of(words.peek())) {
      made.place = words.take_place();
    }
    made.uses_device = !words.accept("deviceless");
    if (!made.uses_device && (how == form::with || how == form::open)) {
      words.fail("a body of the submitting thread is never 'deviceless'; leave it out");
    }
    while (!words.at_end() && take_access(words, made)) {
    }
    take_body(words, made.body);
    add(words, std::move(made));
  }

  bool take_access(line_reader& words, task_statement& into) {
    access made;
    if (words.accept("read")) {
      made.mode = access_mode::read;
    } else if (words.accept("write")) {
      made.mode = access_mode::write;
    } else if (words.accept("rw")) {
      made.mode = access_mode::rw;
    } else {
      return false;
    }
    const std::string word = words.take_word("a datum");
    const std::size_t mark = word.find('@');
    made.data = known(words, word.substr(0, mark));
    if (mark != std::string::npos) {
      line_reader place(result_.file, words.line(), std::string_view(word).substr(mark + 1));
      made.place = place.take_place();
    }
    into.accesses.push_back(std::move(made));
    return true;
  }

  static void take_body(line_reader& words, work& body) {
    if (words.accept("adds")) {
      body = {effect::adds, words.take_integer("what is added")};
    } else if (words.accept("sets")) {
      body = {effect::sets, words.take_integer("what is written")};
    } else if (words.accept("fails")) {
      body = {effect::fails, 0};
    }
  }

  void close(line_reader& words) { add_close(words, false); }
  void abort(line_reader& words) { add_close(words, true); }

  void add_close(line_reader& words, bool failed) {
    std::string name = words.take_name("the task");
    if (open_.erase(name) == 0) words.fail("'" + name + "' is not open; write 'open' before");
    add(words, close_statement{std::move(name), failed});
  }

  void fill(line_reader& words) {
    fill_statement made;
    made.data = known(words, words.take_name("the datum"));
    made.value = words.take_integer("the value");
    if (words.accept("on")) made.place = words.take_place();
    if (words.accept("named")) made.name = new_task(words, words.take_name("the task"));
    add(words, std::move(made));
  }

  void drop(line_reader& words) {
    std::string name = known(words, words.take_name("the datum"));
    alive_.erase(name);
    add(words, drop_statement{std::move(name)});
  }

  void wait(line_reader& words) {
    wait_statement made;
    made.data = known(words, words.take_name("the datum"));
    if (words.accept("=")) made.value = words.take_integer("the value");
    add(words, std::move(made));
  }

  void fence(line_reader& words) { add(words, action_statement{action::fence}); }
  void check_errors(line_reader& words) { add(words, action_statement{action::check_errors}); }
  void finalize(line_reader& words) { add(words, action_statement{action::finalize}); }

  void expect(line_reader& words) {
    if (words.accept("no")) {
      if (!words.accept("edge")) words.fail("'edge' is missing behind 'expect no'; add it");
      add(words, expect_edges{expect_edges::extent::none_of, take_edges(words)});
    } else if (words.accept("edges")) {
      edges(words);
    } else if (words.accept("copies")) {
      copies(words);
    } else if (words.accept("value")) {
      value(words);
    } else if (words.accept("failed")) {
      ended(words, expect_ended::manner::failed);
    } else if (words.accept("skipped")) {
      ended(words, expect_ended::manner::skipped);
    } else if (words.accept("error")) {
      error(words);
    } else if (words.accept("order")) {
      add(words, expect_order{take_tasks(words)});
    } else {
      count(words);
    }
  }

  void edges(line_reader& words) {
    expect_edges made;
    if (words.accept("at")) {
      if (!words.accept("least")) words.fail("'least' is missing behind 'at'; add it");
      made.how = expect_edges::extent::at_least;
    }
    if (!words.accept("none")) made.edges = take_edges(words);
    add(words, std::move(made));
  }

  void copies(line_reader& words) {
    expect_copies made;
    if (!words.accept("none")) {
      while (!words.at_end()) {
        edge direction = words.take_edge();
        if (!place_of(direction.first) || !place_of(direction.second)) {
          words.fail("copies go from place to place; write such as host->dev0");
        }
        made.counts.emplace_back(std::move(direction), words.take_count("the number of copies"));
      }
      if (made.counts.empty()) words.fail("a direction is missing; write 'none' for no copy");
    }
    add(words, std::move(made));
  }

  void value(line_reader& words) {
    expect_value made;
    made.data = words.take_name("the datum");
    if (!declared_.contains(made.data)) words.fail("'" + made.data + "' is not declared; add it");
    if (!words.accept("=")) words.fail("'=' is missing; write 'expect value x = 1'");
    made.value = words.take_integer("the value");
    add(words, std::move(made));
  }

  void ended(line_reader& words, expect_ended::manner how) {
    add(words,
        expect_ended{how, words.accept("none") ? std::vector<std::string>{} : take_tasks(words)});
  }

  void error(line_reader& words) {
    expect_error made;
    const std::string name = words.take_name("the code");
    const auto* found = std::find_if(codes.begin(), codes.end(),
                                     [&](const code_name& one) { return one.name == name; });
    if (found == codes.end()) words.fail("'" + name + "' is no error code; see error.hpp");
    made.code = found->code;
    while (!words.at_end())
      made.words.push_back(words.take_quoted());
    if (result_.statements.empty()) words.fail("no statement comes before; move the line down");
    add(words, std::move(made));
  }

  void count(line_reader& words) {
    expect_count made;
    made.what = words.take_name("what is expected");
    if (find_counter(made.what) == nullptr) {
      words.fail("'" + made.what + "' cannot be expected; see README.md for what can");
    }
    made.count = words.take_count("the count");
    add(words, std::move(made));
  }

  void run(line_reader& words) {
    ended_ = true;
    result_.plan.modes = take_list(words, "a mode");
    while (words.accept(";")) {
      if (words.accept("seeds")) {
        result_.plan.seeds = words.take_count("the number of seeds");
        if (result_.plan.seeds > most_seeds) words.fail("too many seeds; ask for fewer");
      } else if (words.accept("backends")) {
        if (machine_given_) words.fail("'machine' says already where to run; remove one of them");
        result_.plan.backends = take_list(words, "a backend");
      } else {
        words.fail("'seeds' or 'backends' is expected behind ';'; correct it");
      }
    }
  }

  static std::vector<std::string> take_list(line_reader& words, std::string_view what) {
    std::vector<std::string> names{words.take_name(what)};
    while (words.accept(","))
      names.push_back(words.take_name(what));
    return names;
  }

  std::vector<edge> take_edges(line_reader& words) {
    std::vector<edge> edges;
    while (!words.at_end()) {
      edges.push_back(words.take_edge());
      mentioned_.emplace_back(words.line(), edges.back().first);
      mentioned_.emplace_back(words.line(), edges.back().second);
    }
    if (edges.empty()) words.fail("an edge is missing; write a->b");
    return edges;
  }

  std::vector<std::string> take_tasks(line_reader& words) {
    std::vector<std::string> tasks;
    while (!words.at_end()) {
      tasks.push_back(words.take_name("a task"));
      mentioned_.emplace_back(words.line(), tasks.back());
    }
    if (tasks.empty()) words.fail("a task is missing; name one");
    return tasks;
  }

  std::string declare(line_reader& words, std::string name) {
    if (!alive_.insert(name).second) words.fail("'" + name + "' exists already; drop it first");
    declared_.insert(name);
    return name;
  }

  std::string known(line_reader& words, std::string name) {
    if (!alive_.contains(name)) {
      words.fail("'" + name +
                 "' is not declared or was dropped; declare it with 'data' or 'token'");
    }
    return name;
  }

  std::string new_task(line_reader& words, std::string name) {
    if (!tasks_.insert(name).second) words.fail("a task '" + name + "' exists; rename this one");
    return name;
  }

  void check_references() const {
    for (const auto& [name, line] : open_) {
      line_reader(result_.file, line, "")
          .fail("'" + name + "' is never ended; 'close' or 'abort' it");
    }
    for (const auto& [line, name] : mentioned_) {
      if (tasks_.contains(name)) continue;
      line_reader(result_.file, line, "").fail("no task is named '" + name + "'; correct the name");
    }
  }

  const std::string& text_;
  program result_;
  bool ended_ = false;
  bool machine_given_ = false;
  std::set<std::string> alive_;
  std::set<std::string> declared_;
  std::set<std::string> tasks_;
  std::map<std::string, std::uint32_t> open_;  // line of its start
  std::vector<std::pair<std::uint32_t, std::string>> mentioned_;
};

const std::array<parser::keyword, 19> parser::keywords{{
    {"devices", &parser::devices},
    {"machine", &parser::machine},
    {"data", &parser::data},
    {"token", &parser::token},
    {"task", &parser::task},
    {"submit", &parser::submit},
    {"host_launch", &parser::host_launch},
    {"with", &parser::with},
    {"open", &parser::open},
    {"close", &parser::close},
    {"abort", &parser::abort},
    {"fill", &parser::fill},
    {"drop", &parser::drop},
    {"wait", &parser::wait},
    {"fence", &parser::fence},
    {"check_errors", &parser::check_errors},
    {"finalize", &parser::finalize},
    {"expect", &parser::expect},
    {"run", &parser::run},
}};

}  // namespace

program parse(const std::string& file, const std::string& text) {
  return parser(file, text).parse();
}

program load(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw parse_error(file + ":1: the file cannot be read; check the path");
  return parse(file, text.str());
}

const expect_error* announced_error(const program& in, std::size_t index) {
  if (index + 1 >= in.statements.size()) return nullptr;
  return std::get_if<expect_error>(&in.statements[index + 1].what);
}

}  // namespace millstream::scenario
