// SPDX-License-Identifier: Apache-2.0
#include "tests/model/generator.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/random.hpp"
#include "tests/scenario/oracle.hpp"

namespace millstream::model {
namespace {

using namespace scenario;  // NOLINT(google-build-using-namespace): its vocabulary throughout

/// How often what comes, drawn anew for each program so that programs differ in kind.
struct character {
  std::size_t statements = 0;
  std::size_t most_data = 0;
  double failures = 0;  // of bodies
  double faults = 0;    // rules broken on purpose
  double placed = 0;    // accesses that name a place
  bool keeps_tasks_open = false;
  double declared = 0;  // host functions that are declared not to use the device
  double turned = 0;    // tasks of devices that are such functions instead
};

struct alive_datum {
  std::string name;
  bool readonly = false;
  bool token = false;
  bool maybe_written = false;
};

class generator {
 public:
  generator(std::uint64_t seed, int devices, std::string prefix, bool together, bool may_keep_open)
      : random_(seed),
        declarations_(~seed),
        devices_(devices),
        prefix_(std::move(prefix)),
        together_(together) {
    kind_.statements = 10 + random_.uniform(60);
    kind_.most_data = 2 + random_.uniform(6);
    kind_.failures = random_.chance(0.5) ? 0.08 : 0.0;
    kind_.faults = random_.chance(0.3) ? 0.05 : 0.0;
    kind_.placed = random_.chance(0.5) ? 0.2 : 0.0;
    kind_.keeps_tasks_open = !together && random_.chance(0.3) && may_keep_open;
    if (!declarations_.chance(0.5)) return;
    kind_.declared = 0.8;
    kind_.turned = declarations_.chance(0.5) ? 0.4 : 0.0;
  }

  program run() {
    result_.file = "random";
    result_.devices = devices_;
    if (together_)
      add(data_statement{.name = shared_name, .bytes = 64, .home = on_host, .value = 5});
    for (std::size_t i = 0; i < 2; ++i)
      new_datum();
    while (result_.statements.size() < kind_.statements)
      step();
    while (!open_.empty())
      end_open();
    if (!together_ && random_.chance(0.2)) finalize();
    announce_errors(result_);
    return std::move(result_);
  }

 private:
  template <class What>
  void add(What what) {
    const auto line = static_cast<std::uint32_t>(result_.statements.size() + 2);
    result_.statements.push_back({line, std::move(what)});
  }

  void step() {
    struct choice {
      std::uint64_t weight;
      void (generator::*make)();
    };
    static constexpr std::array<choice, 9> choices{{
        {12, &generator::new_datum},
        {5, &generator::drop},
        {60, &generator::task},
        {6, &generator::fill},
        {4, &generator::wait},
        {2, &generator::fence},
        {3, &generator::open_or_close},
        {2, &generator::register_again},
        {6, &generator::add_to_shared},
    }};
    std::uint64_t total = 0;
    for (const choice& one : choices)
      total += one.weight;
    std::uint64_t drawn = random_.uniform(total);
    for (const choice& one : choices) {
      if (drawn < one.weight) return (this->*one.make)();
      drawn -= one.weight;
    }
  }

  std::string new_name(const char* kind) { return prefix_ + kind + std::to_string(++names_); }

  void new_datum() {
    if (data_.size() >= kind_.most_data) return drop();
    alive_datum made{.name = new_name("x")};
    const std::uint64_t kind = random_.uniform(10);
    if (kind == 0) {
      made.name = new_name("t");
      made.token = true;
      made.maybe_written = true;
      add(token_statement{made.name});
    } else {
      data_statement declared{.name = made.name, .bytes = size()};
      if (kind < 6) place(declared, made);
      add(declared);
    }
    data_.push_back(std::move(made));
  }

  void place(data_statement& declared, alive_datum& made) {
    declared.home = random_.chance(0.2) ? any_device() : on_host;
    declared.readonly = made.readonly = random_.chance(0.15);
    declared.value = static_cast<std::int64_t>(random_.uniform(100));
    made.maybe_written = true;
    buffers_.push_back({made.name, declared.bytes, declared.home, declared.readonly});
  }

  int any_device() {
    return static_cast<int>(random_.uniform(static_cast<std::uint64_t>(devices_)));
  }

  std::size_t size() {
    static constexpr std::array<std::size_t, 8> sizes{64, 64, 64, 256, 256, 1024, 8, 0};
    return random_.chance(0.03) ? 64 * 1024 : sizes[random_.uniform(sizes.size())];
  }

  void drop() {
    if (data_.size() < 2) return;
    const auto gone = data_.begin() + static_cast<std::ptrdiff_t>(random_.uniform(data_.size()));
    add(drop_statement{gone->name});
    data_.erase(gone);
  }

  /// The buffer of a datum that may be alive (then it is the same datum) or not.
  void register_again() {
    if (buffers_.empty() || data_.size() >= kind_.most_data) return;
    const known_buffer& of = buffers_[random_.uniform(buffers_.size())];
    alive_datum made{.name = new_name("x"), .readonly = of.readonly, .maybe_written = true};
    data_statement declared{.name = made.name, .bytes = of.bytes, .home = of.home};
    declared.readonly = of.readonly;
    declared.over = of.name;
    add(declared);
    data_.push_back(std::move(made));
  }

  int exec_place() {
    const std::uint64_t drawn = random_.uniform(10);
    if (drawn == 0) return on_host;
    if (drawn == 1) return unplaced;
    return any_device();
  }

  access_mode mode(const alive_datum& of) {
    const bool breaks_rule = random_.chance(kind_.faults);
    if (of.readonly && !breaks_rule) return access_mode::read;
    if (!of.maybe_written && !breaks_rule) return access_mode::write;
    const std::uint64_t drawn = random_.uniform(10);
    return drawn < 5 ? access_mode::read : drawn < 8 ? access_mode::rw : access_mode::write;
  }

  std::vector<access> accesses() {
    std::vector<access> all;
    const std::uint64_t count = random_.chance(0.05) ? 0 : 1 + random_.uniform(3);
    for (std::uint64_t i = 0; i < count; ++i) {
      alive_datum& of = data_[random_.uniform(data_.size())];
      access one{mode(of), of.name, unplaced};
      if (random_.chance(kind_.placed)) {
        one.place = random_.chance(0.3) ? on_host : any_device();
      }
      if (random_.chance(kind_.faults * 0.2)) one.place = devices_ + 2;
      if (writes(one.mode)) of.maybe_written = true;
      all.push_back(std::move(one));
    }
    return all;
  }

  work body() {
    if (random_.chance(kind_.failures)) return {effect::fails, 0};
    const std::uint64_t drawn = random_.uniform(6);
    const auto number = static_cast<std::int64_t>(random_.uniform(1000));
    if (drawn == 0) return {effect::sets, number};
    return drawn < 3 ? work{effect::adds, number} : work{};
  }

  task_statement any_task() {
    static constexpr std::array<form, 8> forms{form::task,        form::task, form::task,
                                               form::task,        form::task, form::submit,
                                               form::host_launch, form::with};
    task_statement made;
    made.how = forms[random_.uniform(forms.size())];
    made.name = new_name("k");
    made.place = made.how == form::host_launch ? on_host : exec_place();
    return made;
  }

  void task() {
    task_statement made = any_task();
    made.accesses = accesses();
    made.body = body();
    declare(made);
    add(std::move(made));
  }

  /// Draws from numbers of its own, so that the rest of the program stays what it was. A function
  /// that is declared not to use the device has no use for what is there.
  void declare(task_statement& made) {
    const bool in_caller = made.how == form::with || made.how == form::open;
    const bool is_of_host = std::all_of(made.accesses.begin(), made.accesses.end(),
                                        [](const access& one) { return one.place < 0; });
    if (in_caller || !is_of_host || kind_.declared == 0) return;
    if (made.place != on_host && declarations_.chance(kind_.turned)) {
      made.how = form::host_launch;
      made.place = on_host;
    }
    const bool breaks_rule = declarations_.chance(kind_.faults);
    if (made.place != on_host && !breaks_rule) return;
    made.uses_device = !declarations_.chance(kind_.declared);
  }

  void add_to_shared() {
    if (!together_) return task();
    task_statement made = any_task();
    made.accesses.push_back({access_mode::rw, shared_name, unplaced});
    made.body = {effect::adds, static_cast<std::int64_t>(random_.uniform(1000))};
    declare(made);
    add(std::move(made));
  }

  void open_or_close() {
    if (!kind_.keeps_tasks_open) return task();
    if (open_.size() > 1 || (!open_.empty() && random_.chance(0.5))) return end_open();
    task_statement made = any_task();
    made.how = form::open;
    made.place = exec_place();
    made.accesses = accesses();
    made.body = body();
    open_.push_back(made.name);
    add(std::move(made));
  }

  void end_open() {
    const auto ended = open_.begin() + static_cast<std::ptrdiff_t>(random_.uniform(open_.size()));
    add(close_statement{*ended, random_.chance(kind_.failures)});
    open_.erase(ended);
  }

  void fill() {
    alive_datum& of = data_[random_.uniform(data_.size())];
    if (of.token || (of.readonly && !random_.chance(kind_.faults))) return;
    of.maybe_written = true;
    add(fill_statement{.data = of.name,
                       .value = static_cast<std::int64_t>(random_.uniform(1000)),
                       .place = exec_place()});
  }

  void wait() { add(wait_statement{data_[random_.uniform(data_.size())].name, std::nullopt}); }

  /// Errors are only looked at when it is known which there are: behind a fence.
  void fence() {
    add(action_statement{action::fence});
    while (!together_ && random_.chance(0.3))
      add(action_statement{action::check_errors});
  }

  void finalize() {
    add(action_statement{action::finalize});
    if (random_.chance(0.5)) task();
    if (random_.chance(0.5)) add(action_statement{action::finalize});
  }

  struct known_buffer {
    std::string name;
    std::size_t bytes;
    int home;
    bool readonly;
  };

  base::random_source random_;
  base::random_source declarations_;
  const int devices_;
  const std::string prefix_;
  const bool together_;
  character kind_;
  program result_;
  std::size_t names_ = 0;
  std::vector<alive_datum> data_;
  std::vector<known_buffer> buffers_;
  std::vector<std::string> open_;
};

}  // namespace

void announce_errors(program& what) {
  std::vector<statement> bare;
  for (statement& one : what.statements) {
    if (!std::holds_alternative<expect_error>(one.what)) bare.push_back(std::move(one));
  }
  what.statements = std::move(bare);
  const forecast plan = predict(what);
  std::vector<statement> announced;
  for (std::size_t i = 0; i < what.statements.size(); ++i) {
    announced.push_back(std::move(what.statements[i]));
    const errc error = plan.statements[i].error;
    if (error != errc::ok) announced.push_back({0, expect_error{error, {}}});
  }
  for (std::size_t i = 0; i < announced.size(); ++i) {
    announced[i].line = static_cast<std::uint32_t>(i + 2);  // as printed, behind 'devices'
  }
  what.statements = std::move(announced);
}

program generate(std::uint64_t seed, int devices, bool may_keep_open) {
  return generator(seed, devices, "", false, may_keep_open).run();
}

std::vector<program> generate_together(std::uint64_t seed, int devices, std::size_t threads) {
  std::vector<program> all;
  for (std::size_t i = 0; i < threads; ++i) {
    all.push_back(
        generator(seed * 64 + i, devices, "p" + std::to_string(i) + "_", true, false).run());
  }
  return all;
}

}  // namespace millstream::model
