// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/oracle.hpp"

#include <algorithm>
#include <memory>
#include <set>

namespace millstream::scenario {
namespace {

/// A buffer of the user's; each element is tracked, because parts may be registered one by one.
struct buffer {
  std::vector<known_value> elements;
};

struct datum {
  std::string name;  // the first one it got
  std::size_t bytes = 0;
  bool token = false;
  bool readonly = false;
  bool written = false;
  bool poisoned = false;
  bool poisoned_late = false;  // by a function that may not have run yet
  known_value value;
  int home = unplaced;
  std::size_t source = 0;  // statement that made the buffer
  std::size_t offset = 0;
  std::size_t handles = 1;  // names and open tasks
  std::set<int> valid;
  std::string writer;  // last task that wrote; "" = none, or one without a name
  std::vector<std::string> readers;

  [[nodiscard]] bool registered() const { return home != unplaced; }
  [[nodiscard]] std::size_t elements() const { return bytes / sizeof(std::int64_t); }
};

/// One datum of a task, all its accesses merged.
struct use {
  datum* of = nullptr;
  access_mode mode = access_mode::none;
  int place = on_host;
  bool placed = false;  // the place was named
  std::size_t first = 0;
};

/// A task with its names looked up.
struct resolved {
  std::vector<use> uses;
  std::vector<std::size_t> use_of;  // of each access, in `uses`
  task_forecast forecast;
};

struct open_record {
  const task_statement* what = nullptr;
  resolved task;
};

class oracle {
 public:
  oracle(const program& what, const machine_traits& on) : program_(what), on_(on) {
    result_.copies.emplace();
  }

  forecast run() {
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      index_ = i;
      now_ = {};
      const expect_error* announced = announced_error(program_, i);
      std::visit([&](const auto& what) { step(what, announced); }, program_.statements[i].what);
      result_.statements.push_back(std::move(now_));
    }
    if (!finished_) finish();
    for (const auto& [source, content] : buffers_)
      result_.buffers[source] = content.elements;
    std::sort(result_.edges.begin(), result_.edges.end());
    if (!result_.failed.empty() || !result_.skipped.empty()) result_.copies.reset();
    return std::move(result_);
  }

 private:
  // Every `step` sees whether an error was announced. One that the oracle knows of must agree; it
  // is the caller's business to compare. In both cases the statement changes nothing.
  void step(const data_statement& what, const expect_error* announced) {
    if (refuse(announced, finished_ ? errc::usage : error_of(what))) return;
    std::size_t source = index_;
    if (!what.over.empty()) {
      source = sources_.at(what.over);
    } else if (what.home != unplaced) {
      const known_value first = what.value.value_or(0);
      buffers_[source].elements.assign(what.bytes / sizeof(std::int64_t), first);
    }
    sources_[what.name] = source;
    if (std::shared_ptr<datum> same = find_same(what, source)) {
      ++same->handles;
      names_[what.name] = std::move(same);
      return;
    }
    auto made = std::make_shared<datum>();
    made->name = what.name;
    made->bytes = what.bytes;
    made->readonly = what.readonly;
    made->home = home_of(what);
    made->source = source;
    made->offset = what.offset;
    if (made->registered()) {
      made->written = true;
      made->valid = {made->home};
      if (made->elements() != 0) made->value = buffers_[source].elements[first_element(*made)];
    }
    all_.push_back(made);
    names_[what.name] = std::move(made);
  }

  void step(const token_statement& what, const expect_error* announced) {
    if (refuse(announced, finished_ ? errc::usage : errc::ok)) return;
    auto made = std::make_shared<datum>();
    made->name = what.name;
    made->token = true;
    made->written = true;
    made->value = 0;
    all_.push_back(made);
    names_[what.name] = std::move(made);
  }

  void step(const task_statement& what, const expect_error* announced) {
    resolved task;
    errc fault = resolve(what, task);
    if (fault == errc::ok) fault = finished_ ? errc::usage : conflict_of(task);
    const bool skipped =
        fault == errc::ok && std::any_of(task.uses.begin(), task.uses.end(), reads_poison);
    if (!skipped && refuse(announced, fault)) return;
    order(what.name, task.uses);
    describe(what, task);
    move_data(task.uses);
    now_.task = task.forecast;
    if (skipped) {
      skip(what, task);
      return;
    }
    now_.task->runs = true;
    if (what.how == form::open) {
      for (const use& one : task.uses)
        ++one.of->handles;
      opened_.push_back({&what, std::move(task)});
    } else {
      end_task(what, task, task.forecast.fails);
    }
  }

  void step(const close_statement& what, const expect_error* announced) {
    const auto found = std::find_if(opened_.begin(), opened_.end(), [&](const open_record& one) {
      return one.what->name == what.task;
    });
    if (refuse(announced, found == opened_.end() ? errc::usage : errc::ok)) return;
    const open_record record = std::move(*found);
    opened_.erase(found);
    end_task(*record.what, record.task, what.failed || record.task.forecast.fails);
    for (const use& one : record.task.uses)
      drop_handle(one.of);
  }

  void step(const fill_statement& what, const expect_error* announced) {
    task_statement as_task;
    as_task.name = what.name;
    as_task.place = what.place;
    as_task.accesses.push_back({access_mode::write, what.data, unplaced});
    as_task.body = {effect::sets, what.value};
    step(as_task, announced);
    if (now_.task) now_.task->runs = false;  // there is no body
  }

  void step(const drop_statement& what, const expect_error* /*announced*/) {
    const auto found = names_.find(what.data);
    if (found == names_.end()) return;
    const std::shared_ptr<datum> which = std::move(found->second);
    names_.erase(found);
    drop_handle(which.get());
  }

  void step(const wait_statement& what, const expect_error* announced) {
    datum* const which = find(what.data);
    errc fault = errc::ok;
    if (which == nullptr || finished_) {
      fault = errc::usage;
    } else if (conflicts_with_open({.of = which, .mode = access_mode::read})) {
      fault = errc::usage;
    } else if (!which->written) {
      fault = errc::not_written;
    } else if (which->poisoned) {
      fault = errc::poisoned;
    }
    if (refuse(announced, fault)) return;
    now_.value = which->value;
  }

  void step(const action_statement& what, const expect_error* announced) {
    switch (what.what) {
      case action::fence: refuse(announced, finished_ ? errc::usage : errc::ok); break;
      case action::check_errors:
        if (refuse(announced, pending_ == 0 ? errc::ok : errc::task_failed)) --pending_;
        break;
      case action::finalize: finalize(announced); break;
    }
  }

  // Expectations change nothing.
  template <class Expectation>
  void step(const Expectation& /*what*/, const expect_error* /*announced*/) {}

  void finalize(const expect_error* announced) {
    if (!opened_.empty()) {
      refuse(announced, errc::usage);
      return;
    }
    if (finished_) return;
    finish();
    refuse(announced, pending_ == 0 ? errc::ok : errc::task_failed);
    pending_ = 0;
  }

  /// Whether the statement throws; remembers the code the oracle knows, else the announced one.
  bool refuse(const expect_error* announced, errc known) {
    now_.error = known != errc::ok ? known : announced != nullptr ? announced->code : errc::ok;
    return now_.error != errc::ok;
  }

  [[nodiscard]] datum* find(const std::string& name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : found->second.get();
  }

  [[nodiscard]] int home_of(const data_statement& what) const {
    return what.home >= 0 && on_.devices_use_host_memory ? on_host : what.home;
  }

  static std::size_t first_element(const datum& what) { return what.offset / sizeof(std::int64_t); }

  [[nodiscard]] errc error_of(const data_statement& what) const {
    if (what.home >= program_.devices) return errc::invalid_value;
    if (what.over.empty() || what.bytes == 0) return errc::ok;
    const auto source = sources_.find(what.over);
    if (source == sources_.end() || find_same(what, source->second)) return errc::ok;
    for (const std::shared_ptr<datum>& other : all_) {
      if (overlaps(what, source->second, *other)) return errc::invalid_value;
    }
    return errc::ok;
  }

  static bool overlaps(const data_statement& what, std::size_t source, const datum& other) {
    return other.registered() && other.source == source &&
           other.offset < what.offset + what.bytes && what.offset < other.offset + other.bytes &&
           !(other.readonly && what.readonly);
  }

  /// The datum of exactly that range.
  [[nodiscard]] std::shared_ptr<datum> find_same(const data_statement& what,
                                                 std::size_t source) const {
    if (what.over.empty() || what.bytes == 0) return nullptr;
    for (const std::shared_ptr<datum>& other : all_) {
      if (other->registered() && other->source == source && other->offset == what.offset &&
          other->bytes == what.bytes) {
        return other;
      }
    }
    return nullptr;
  }

  static bool reads_poison(const use& one) { return reads(one.mode) && one.of->poisoned; }

  /// Looks the accesses of a task up and merges them; says what is wrong with them, whatever
  /// happened before.
  errc resolve(const task_statement& what, resolved& into) const {
    const int place = what.place == unplaced ? 0 : what.place;
    if (place >= program_.devices) return errc::invalid_value;
    if (!what.uses_device && place != on_host) return errc::invalid_value;
    for (std::size_t i = 0; i < what.accesses.size(); ++i) {
      if (const errc fault = merge(what.accesses[i], i, place, into); fault != errc::ok)
        return fault;
    }
    return errc::ok;
  }

  [[nodiscard]] errc conflict_of(const resolved& task) const {
    for (const use& one : task.uses) {
      if (conflicts_with_open(one)) return errc::usage;
    }
    for (const use& one : task.uses) {
      if (reads(one.mode) && !one.of->written) return errc::not_written;
    }
    return errc::ok;
  }

  errc merge(const access& one, std::size_t index, int affine, resolved& into) const {
    datum* const which = find(one.data);
    if (which == nullptr) return errc::usage;
    if (one.place >= program_.devices) return errc::invalid_value;
    if (writes(one.mode) && which->readonly) return errc::invalid_value;
    const bool placed = one.place != unplaced;
    const auto known = std::find_if(into.uses.begin(), into.uses.end(),
                                    [&](const use& other) { return other.of == which; });
    into.use_of.push_back(static_cast<std::size_t>(known - into.uses.begin()));
    if (known == into.uses.end()) {
      into.uses.push_back({which, one.mode, placed ? one.place : affine, placed, index});
      return errc::ok;
    }
    if (placed && known->placed && known->place != one.place) return errc::invalid_value;
    if (placed) known->place = one.place;
    known->placed = known->placed || placed;
    known->mode = known->mode | one.mode;
    return errc::ok;
  }

  [[nodiscard]] bool conflicts_with_open(const use& one) const {
    for (const open_record& record : opened_) {
      for (const use& other : record.task.uses) {
        if (other.of == one.of && (writes(one.mode) || writes(other.mode))) return true;
      }
    }
    return false;
  }

  /// A reader comes after the last writer; a writer after the readers since, or after the last
  /// writer if there is none.
  void order(const std::string& task, const std::vector<use>& uses) {
    std::set<std::string> before;
    for (const use& one : uses) {
      datum& of = *one.of;
      if (writes(one.mode) && !of.readers.empty()) {
        before.insert(of.readers.begin(), of.readers.end());
      } else {
        before.insert(of.writer);
      }
      if (writes(one.mode)) {
        of.writer = task;
        of.readers.clear();
      } else {
        of.readers.push_back(task);
      }
    }
    for (const std::string& earlier : before) {
      if (!earlier.empty() && !task.empty()) result_.edges.emplace_back(earlier, task);
    }
  }

  /// What the body sees and leaves.
  static void describe(const task_statement& what, resolved& task) {
    task.forecast.name = what.name;
    task.forecast.place = what.place == unplaced ? 0 : what.place;
    task.forecast.fails = what.body.what == effect::fails;
    const known_value inputs = combined_inputs(what, task.uses);
    for (const std::size_t index : task.use_of) {
      const use& one = task.uses[index];
      access_forecast into;
      into.elements = one.of->elements();
      into.is_token = one.of->token;
      into.reads = reads(one.mode);
      into.writes = writes(one.mode);
      into.first = one.first;
      into.place = one.place;
      if (into.elements != 0 && into.reads) into.input = one.of->value;
      if (into.elements != 0 && into.writes) into.output = output(what.body, inputs, one);
      task.forecast.accesses.push_back(into);
    }
  }

  /// Coherence: a reader needs a valid instance at its place, a writer leaves only its own.
  void move_data(const std::vector<use>& uses) {
    for (const use& one : uses) {
      if (one.of->token) continue;
      std::set<int>& valid = one.of->valid;
      if (reads(one.mode) && !valid.contains(one.place)) count_copy(false, *one.of, one.place);
      if (writes(one.mode)) valid.clear();
      valid.insert(one.place);
    }
  }

  void count_copy(bool write_back, const datum& of, int to) {
    if (of.bytes != 0) ++(*result_.copies)[{write_back, of.name, to}];
  }

  static known_value combined_inputs(const task_statement& what, const std::vector<use>& uses) {
    const bool sums = what.body.what == effect::adds;
    known_value inputs = sums ? 0 : name_hash(what.name);
    for (const use& one : uses) {
      const bool counts = reads(one.mode) && !(sums && writes(one.mode));
      if (counts && one.of->elements() != 0)
        inputs = combine(what.body.what, inputs, one.of->value);
    }
    return inputs;
  }

  static known_value combine(effect what, known_value left, known_value right) {
    if (!left || !right) return std::nullopt;
    if (what != effect::adds) return mix(*left, *right);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(*left) +
                                     static_cast<std::uint64_t>(*right));
  }

  static known_value output(const work& body, known_value inputs, const use& of) {
    switch (body.what) {
      case effect::mix: return combine(effect::mix, inputs, static_cast<std::int64_t>(of.first));
      case effect::adds:
        if (reads(of.mode)) inputs = combine(effect::adds, inputs, of.of->value);
        return combine(effect::adds, inputs, body.number);
      case effect::sets: return body.number;
      case effect::fails: return rubbish;
    }
    return std::nullopt;
  }

  void end_task(const task_statement& what, const resolved& task, bool failed) {
    if (failed) {
      fail(what, task.uses);
      return;
    }
    for (const use& one : task.uses) {
      if (!writes(one.mode)) continue;
      one.of->written = true;
      one.of->poisoned = false;
      if (one.of->elements() != 0) one.of->value = task.forecast.accesses[one.first].output;
    }
  }

  /// A failure that the caller knows already is not reported again.
  void fail(const task_statement& what, const std::vector<use>& uses) {
    poison(uses, is_job(what));
    result_.failed.push_back(what.name);
    if (what.how == form::with || what.how == form::open) return;
    result_.reported.push_back(what.name);
    ++pending_;
  }

  /// Its body runs some time after it was submitted.
  static bool is_job(const task_statement& what) {
    return what.place == on_host && what.how != form::with && what.how != form::open;
  }

  static void poison(const std::vector<use>& uses, bool late) {
    for (const use& one : uses) {
      if (!writes(one.mode)) continue;
      one.of->written = true;
      one.of->poisoned = true;
      one.of->poisoned_late = late;
    }
  }

  /// Tasks that run by themselves are skipped silently; the start of the others throws.
  void skip(const task_statement& what, const resolved& task) {
    const bool late = std::none_of(task.uses.begin(), task.uses.end(), [](const use& one) {
      return reads_poison(one) && !one.of->poisoned_late;
    });
    poison(task.uses, late);
    now_.task->skipped = true;
    const bool in_caller = what.how == form::with || what.how == form::open;
    if (in_caller) now_.error = errc::poisoned;
    if (on_.bodies_run_at_once && late) {
      now_.needs_settling = in_caller;
      now_.task->may_run = !in_caller && task.forecast.place >= 0;
      if (now_.task->may_run) result_.maybe_skipped.push_back(what.name);
    }
    result_.skipped.push_back(what.name);
  }

  /// Handles are those of names and of tasks that are open.
  void drop_handle(datum* of) {
    if (--of->handles != 0 || finished_) return;
    let_go(
        *std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return one.get() == of; }));
  }

  /// The last handle is gone: the content goes home.
  void let_go(std::shared_ptr<datum> which) {
    all_.erase(std::find(all_.begin(), all_.end(), which));
    if (!which->registered()) return;
    if (!which->valid.contains(which->home) && !which->poisoned) {
      count_copy(true, *which, which->home);
    }
    std::vector<known_value>& into = buffers_[which->source].elements;
    const auto begin = into.begin() + static_cast<std::ptrdiff_t>(first_element(*which));
    std::fill(begin, begin + static_cast<std::ptrdiff_t>(which->elements()),
              which->poisoned ? known_value{} : which->value);
  }

  void finish() {
    finished_ = true;
    while (!all_.empty())
      let_go(all_.front());
  }

  const program& program_;
  const machine_traits on_;
  forecast result_;
  std::size_t index_ = 0;
  statement_forecast now_;
  bool finished_ = false;
  std::uint64_t pending_ = 0;  // failures not handed out
  std::map<std::string, std::shared_ptr<datum>> names_;
  std::map<std::string, std::size_t> sources_;  // buffer of each registered name, also when dropped
  std::vector<std::shared_ptr<datum>> all_;     // alive
  std::map<std::size_t, buffer> buffers_;
  std::vector<open_record> opened_;
};

}  // namespace

std::int64_t mix(std::int64_t left, std::int64_t right) noexcept {
  auto word = static_cast<std::uint64_t>(left) * 0x9E3779B97F4A7C15U;
  word ^= static_cast<std::uint64_t>(right) + 0x632BE59BD9B4E019U + (word << 6U) + (word >> 2U);
  word = (word ^ (word >> 29U)) * 0xBF58476D1CE4E5B9U;
  return static_cast<std::int64_t>(word ^ (word >> 32U));
}

std::int64_t name_hash(const std::string& name) noexcept {
  std::int64_t hash = 1;
  for (const char letter : name)
    hash = mix(hash, letter);
  return hash;
}

machine_traits traits_of(const std::string& backend) {
  return {.devices_use_host_memory = backend == "host", .bodies_run_at_once = backend == "cuda"};
}

forecast predict(const program& what, const machine_traits& on) {
  return oracle(what, on).run();
}

}  // namespace millstream::scenario
