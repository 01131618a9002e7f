// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/program_player.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "tests/scenario/counters.hpp"

namespace millstream::scenario {
namespace {

exec_place exec_place_of(int place) {
  if (place == unplaced) return {};
  return place == on_host ? exec_place::host() : exec_place::device(place);
}

data_place data_place_of(int place) {
  if (place == unplaced) return {};
  return place == on_host ? data_place::host() : data_place::device(place);
}

task_dep dep_of(const untyped_data& data, access_mode mode, data_place place) {
  switch (mode) {
    case access_mode::read: return data.read(place);
    case access_mode::write: return data.write(place);
    default: return data.rw(place);
  }
}

task_kind kind_of(form how) {
  switch (how) {
    case form::submit: return task_kind::submit;
    case form::host_launch: return task_kind::host_launch;
    default: return task_kind::task;
  }
}

}  // namespace

program_player::program_player(session& in, const program& what, const forecast& plan,
                               std::map<std::string, lent_datum> lent)
    : session_(in), program_(what), plan_(plan), lent_(std::move(lent)) {}

void program_player::run() {
  for (index_ = 0; index_ < program_.statements.size(); ++index_) {
    std::visit([&](const auto& one) { step(one); }, program_.statements[index_].what);
  }
}

void program_player::end() {
  index_ = program_.statements.size() - 1;
  opened_.clear();
  data_.clear();
  lent_.clear();
}

void program_player::complain(const std::string& text) {
  session_.problems.add(program_.file, program_.statements[index_].line, text);
}

source_site program_player::site() const {
  return {program_.file.c_str(), program_.statements[index_].line};
}

bool program_player::attempt(const std::function<void()>& call) {
  try {
    call();
  } catch (const error& thrown) {
    check_error(thrown);
    return false;
  } catch (const std::exception& other) {
    complain(std::string("throws something that is not millstream::error: ") + other.what());
    return false;
  }
  if (now().error == errc::ok) return true;
  complain(std::string("throws nothing, expected error ") + to_string(now().error));
  return false;
}

void program_player::check_error(const error& thrown) {
  const std::string text = thrown.what();
  const std::string seen = std::string(to_string(thrown.code())) + " \"" + text + "\"";
  if (now().error == errc::ok) return complain("throws " + seen);
  if (now().error != thrown.code()) {
    return complain(std::string("expected error ") + to_string(now().error) + ", got " + seen);
  }
  if (text.find("; ") == std::string::npos && thrown.code() != errc::task_failed) {
    complain("the text names no way out: " + seen);
  }
  const expect_error* announced = announced_error(program_, index_);
  if (announced == nullptr) return;
  for (const std::string& word : announced->words) {
    if (text.find(word) == std::string::npos) complain("'" + word + "' is missing in " + seen);
  }
}

void program_player::step(const data_statement& what) {
  named_datum made;
  made.bytes = what.bytes;
  const bool on_a_device = what.home >= 0 && !session_.traits.devices_use_host_memory;
  made.home = what.home == unplaced || on_a_device ? what.home : on_host;
  const auto lent = lent_.find(what.name);
  if (lent != lent_.end()) {
    made.handle = lent->second.handle;
    made.address = lent->second.address;
    made.lent = true;
    data_[what.name] = std::move(made);
  } else if (attempt([&] { register_buffer(what, made); })) {
    data_[what.name] = std::move(made);
  }
}

void program_player::register_buffer(const data_statement& what, named_datum& into) {
  if (what.home == unplaced) {
    into.handle = session_.context->make_data(what.bytes, what.name, site());
    return;
  }
  const std::size_t source = what.over.empty() ? index_ : sources_.at(what.over);
  user_buffer& buffer = buffers_[source];
  if (what.over.empty()) {
    buffer.words.assign(what.bytes / sizeof(std::int64_t), what.value.value_or(0));
    if (into.home >= 0 && session_.world.device != nullptr && now().error == errc::ok) {
      buffer.on_device = std::make_shared<device_buffer>(into.home, buffer.words);
    }
  }
  const auto owner = std::make_shared<int>(0);
  buffer.owner = owner;
  registration request;
  void* const whole = buffer.on_device ? buffer.on_device->address() : buffer.words.data();
  request.block = static_cast<std::byte*>(whole) + what.offset;
  request.bytes = what.bytes;
  request.place = data_place_of(what.home);
  request.readonly = what.readonly;
  request.symbol = what.name;
  request.site = site();
  request.owner = owner;
  into.address = request.block;
  into.handle = session_.context->register_data(request);
  sources_[what.name] = source;
}

void program_player::step(const token_statement& what) {
  named_datum made;
  if (attempt([&] { made.handle = session_.context->make_token(what.name, site()); })) {
    data_[what.name] = std::move(made);
  }
}

std::vector<task_dep> program_player::deps_of(const std::vector<access>& accesses) {
  std::vector<task_dep> deps;
  for (const access& one : accesses) {
    deps.push_back(dep_of(data_[one.data].handle, one.mode, data_place_of(one.place)));
    deps.back().site = site();
  }
  return deps;
}

task_record& program_player::new_record(const task_statement& what) {
  task_record& record = records_.emplace_back();
  record.line = program_.statements[index_].line;
  record.what = &what;
  if (now().task) record.forecast = &*now().task;
  for (std::size_t i = 0; i < what.accesses.size(); ++i) {
    const named_datum& datum = data_[what.accesses[i].data];
    const bool at_home =
        record.forecast != nullptr && record.forecast->accesses[i].place == datum.home;
    record.homes.push_back(at_home ? datum.address : nullptr);
    record.shared.push_back(datum.lent);
  }
  return record;
}

void program_player::step(const task_statement& what) {
  task_record& record = new_record(what);
  if (what.how == form::with || what.how == form::open) {
    start(what, record);
  } else {
    attempt([&] { submit(what, record); });
  }
}

void program_player::submit(const task_statement& what, task_record& record) {
  const std::vector<task_dep> deps = deps_of(what.accesses);
  task_spec spec;
  spec.kind = kind_of(what.how);
  spec.place = exec_place_of(what.place);
  spec.symbol = what.name;
  spec.site = site();
  spec.deps = deps;
  spec.uses_device = what.uses_device;
  session_.context->submit(
      spec, make_body([token = body_token(record), world = &session_.world](const body_call& call) {
        if (token.task().forecast != nullptr) run_body(token.task(), call, *world);
      }));
}

// A failure that is still to come would be seen only by some runs.
void program_player::settle() {
  synchronize(session_.context->fence());
}

void program_player::start(const task_statement& what, task_record& record) {
  if (now().needs_settling) settle();
  opened made;
  made.record = &record;
  const bool started = attempt([&] {
    made.task = untyped_task(*session_.context, site());
    made.task.set_place(exec_place_of(what.place));
    made.task.set_symbol(what.name);
    for (const task_dep& dep : deps_of(what.accesses))
      made.task.add_dep(dep);
    made.task.start();
  });
  if (!started || record.forecast == nullptr) return;
  check_inputs(record, made.task.call(), session_.world);
  if (what.how == form::with) {
    finish(made.task, record, false);
  } else {
    opened_[what.name] = std::move(made);
  }
}

void program_player::finish(untyped_task& task, task_record& record, bool aborted) {
  try {
    run_body(record, task.call(), session_.world);
    if (aborted) throw planned_failure(record.what->name);
  } catch (const planned_failure&) {
    task.fail(std::current_exception());
    return;
  }
  attempt([&] { task.end(); });
}

void program_player::step(const close_statement& what) {
  const auto found = opened_.find(what.task);
  if (found == opened_.end()) {
    attempt([&] { untyped_task(*session_.context, site()).end(); });
    return;
  }
  opened closing = std::move(found->second);
  opened_.erase(found);
  finish(closing.task, *closing.record, what.failed);
}

void program_player::step(const fill_statement& what) {
  attempt([&] {
    const std::vector<task_dep> deps = deps_of({{access_mode::write, what.data, unplaced}});
    const std::int64_t pattern = what.value;
    session_.context->fill(deps[0], std::as_bytes(std::span(&pattern, 1)),
                           exec_place_of(what.place), what.name);
  });
}

void program_player::step(const drop_statement& what) {
  data_.erase(what.data);
}

void program_player::step(const wait_statement& what) {
  const named_datum& datum = data_[what.data];
  std::vector<std::int64_t> seen(datum.bytes / sizeof(std::int64_t), rubbish);
  if (!attempt([&] { session_.context->read_back(datum.handle, seen.data()); })) return;
  if (!session_.world.has_values || !now().value) return;
  for (const std::int64_t element : seen) {
    if (element == *now().value) continue;
    complain("'" + what.data + "' is " + std::to_string(element) + ", expected " +
             std::to_string(*now().value));
    return;
  }
}

void program_player::step(const action_statement& what) {
  switch (what.what) {
    case action::fence: fence(); break;
    case action::check_errors:
      attempt([&] { session_.context->check_errors(); });
      if (now().error == errc::task_failed) ++handed_out_;
      break;
    case action::finalize: finalize(); break;
  }
}

bool program_player::ran_as_planned(const task_record& record) const {
  const task_forecast* const plan = record.forecast;
  if (record.runs == (plan != nullptr && plan->runs ? 1 : 0)) return true;
  const bool is_body_of_device = plan != nullptr && plan->place >= 0;
  return session_.drops_failed && is_body_of_device && plan->fails && record.runs == 0;
}

void program_player::fence() {
  const bool fenced = attempt([&] {
    const std::uint64_t stream = session_.context->fence();
    if (stream == 0) complain("the fence has number 0");
    synchronize(stream);
  });
  if (!fenced || !session_.world.has_values) return;
  for (const task_record& record : records_) {
    const bool still_open = opened_.contains(record.what->name);
    if (record.forecast == nullptr || still_open || record.forecast->may_run ||
        ran_as_planned(record)) {
      continue;
    }
    complain("task '" + record.what->name + "' had not run when the fence had ended");
  }
}

void program_player::finalize() {
  const std::size_t before = handed_out_;
  if (now().error == errc::task_failed) handed_out_ = plan_.reported.size();
  try {
    session_.context->finalize();
    if (now().error != errc::ok) complain("finalize throws nothing");
  } catch (const error& thrown) {
    check_error(thrown);
    for (std::size_t i = before; i < handed_out_; ++i) {
      if (std::string(thrown.what()).find("'" + plan_.reported[i] + "'") != std::string::npos)
        continue;
      complain("finalize does not name '" + plan_.reported[i] + "': " + thrown.what());
    }
  }
}

void program_player::step(const expect_copies& what) {
  check_copies(session_, program_.statements[index_].line, what);
}

void program_player::step(const expect_count& what) {
  const std::uint64_t seen = session_.context->stats().*find_counter(what.what)->value;
  if (seen == what.count) return;
  complain(what.what + " is " + std::to_string(seen) + ", expected " + std::to_string(what.count));
}

void program_player::finish_checks(const std::vector<failure>& left) {
  for (const task_record& record : records_) {
    const std::string who = "task '" + record.what->name + "'";
    if (record.bodies != 0) {
      session_.problems.add(program_.file, record.line,
                            who + " has " + std::to_string(record.bodies) + " bodies left");
    }
    const int runs = record.forecast != nullptr && record.forecast->runs ? 1 : 0;
    const bool either = record.forecast != nullptr && record.forecast->may_run;
    if (ran_as_planned(record) || !session_.world.has_values) continue;
    if (either && record.runs == 1) continue;
    session_.problems.add(
        program_.file, record.line,
        who + " ran " + std::to_string(record.runs) + " times, expected " + std::to_string(runs));
  }
  if (!session_.world.has_values) return;
  check_failures(left);
  for (auto& [source, buffer] : buffers_) {
    if (buffer.on_device) buffer.on_device->read(buffer.words);
    check_buffer(source);
  }
  for (index_ = 0; index_ < program_.statements.size(); ++index_) {
    const auto* value = std::get_if<expect_value>(&program_.statements[index_].what);
    if (value != nullptr) check_value(*value);
  }
}

void program_player::check_value(const expect_value& wanted) {
  const auto source = sources_.find(wanted.data);
  if (source == sources_.end())
    return complain("'" + wanted.data + "' has no buffer of the user's");
  for (const std::int64_t element : buffers_.at(source->second).words) {
    if (element == wanted.value) continue;
    return complain("'" + wanted.data + "' is " + std::to_string(element) +
                    " at the end, expected " + std::to_string(wanted.value));
  }
}

void program_player::check_failures(const std::vector<failure>& left) {
  std::vector<std::string> seen;
  for (const failure& one : left) {
    const auto of = std::find_if(records_.begin(), records_.end(), [&](const task_record& record) {
      return one.site.line == record.line && one.task.find(record.what->name) != std::string::npos;
    });
    if (of != records_.end()) seen.push_back(of->what->name);
  }
  const std::vector<std::string> wanted(
      plan_.reported.begin() +
          static_cast<std::ptrdiff_t>(std::min(handed_out_, plan_.reported.size())),
      plan_.reported.end());
  if (seen == wanted) return;
  std::string text = "failures at the end:";
  for (const std::string& name : seen)
    text += " " + name;
  text += "; expected:";
  for (const std::string& name : wanted)
    text += " " + name;
  complain(text);
}

void program_player::check_buffer(std::size_t index) {
  const user_buffer& buffer = buffers_.at(index);
  index_ = index;
  if (!buffer.owner.expired()) complain("the owner of the buffer is still kept");
  const auto plan = plan_.buffers.find(index);
  if (plan == plan_.buffers.end()) return;
  for (std::size_t i = 0; i < buffer.words.size(); ++i) {
    const known_value wanted = plan->second[i];
    if (!wanted || *wanted == buffer.words[i]) continue;
    complain("at the end element " + std::to_string(i) + " is " + std::to_string(buffer.words[i]) +
             ", expected " + std::to_string(*wanted));
    return;
  }
}

}  // namespace millstream::scenario
