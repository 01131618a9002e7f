// SPDX-License-Identifier: Apache-2.0
#include "tests/scenario/player.hpp"

#include <thread>

#include "tests/scenario/program_player.hpp"
#include "tests/scenario/session.hpp"

namespace millstream::scenario {
namespace {

void check_stats(session& in, const std::string& file, const forecast& plan) {
  const context_stats seen = in.context->stats();
  const std::size_t most = plan.skipped.size();
  const std::size_t least = most - plan.maybe_skipped.size();
  if (seen.failed != plan.failed.size() || seen.skipped < least || seen.skipped > most) {
    in.problems.add(file, 0,
                    "the context counts " + std::to_string(seen.failed) + " failed and " +
                        std::to_string(seen.skipped) + " skipped tasks, expected " +
                        std::to_string(plan.failed.size()) + " and " + std::to_string(least) +
                        " to " + std::to_string(most));
  }
}

/// Ends the context and hands out what it has to say.
std::vector<failure> finish(session& in, const std::string& file) {
  try {
    in.context->finish();
    return in.context->take_failures();
  } catch (const std::exception& thrown) {
    in.problems.add(file, 0, std::string("finish throws: ") + thrown.what());
  }
  return {};
}

/// The first value of a shared datum and all that the programs add to it.
std::int64_t shared_total(const std::vector<forecast>& plans, std::size_t statement,
                          std::int64_t first) {
  auto total = static_cast<std::uint64_t>(first);
  for (const forecast& plan : plans) {
    total += static_cast<std::uint64_t>(*plan.buffers.at(statement).front()) -
             static_cast<std::uint64_t>(first);
  }
  return static_cast<std::int64_t>(total);
}

/// A datum that all programs use, registered once.
struct shared_buffer {
  std::size_t statement = 0;  // the same in every program
  std::int64_t first = 0;
  std::vector<std::int64_t> words;
  lent_datum lent;
};

shared_buffer share(session& in, const program& what, const std::string& name) {
  shared_buffer made;
  for (std::size_t i = 0; i < what.statements.size(); ++i) {
    const auto* declared = std::get_if<data_statement>(&what.statements[i].what);
    if (declared == nullptr || declared->name != name) continue;
    made.statement = i;
    made.first = declared->value.value_or(0);
    made.words.assign(declared->bytes / sizeof(std::int64_t), made.first);
    registration request;
    request.block = made.words.data();
    request.bytes = declared->bytes;
    request.symbol = declared->name;
    made.lent = {in.context->register_data(request), made.words.data(), on_host};
    break;
  }
  return made;
}

void check_shared(session& in, const std::vector<forecast>& plans, const std::string& file,
                  const std::string& name, const shared_buffer& buffer) {
  const std::int64_t wanted = shared_total(plans, buffer.statement, buffer.first);
  for (const std::int64_t element : buffer.words) {
    if (element == wanted) continue;
    in.problems.add(file, 0,
                    "'" + name + "' is " + std::to_string(element) + " at the end, expected " +
                        std::to_string(wanted));
    return;
  }
}

}  // namespace

std::string run_options::text() const {
  return backend + (recorded ? ", recorded" : "") +
         (seed ? ", seed " + std::to_string(*seed) : ", no seed");
}

std::vector<std::string> play(const program& what, const forecast& plan,
                              const run_options& options) {
  session in(what.file, what.devices, options);
  program_player player(in, what, plan);
  player.run();
  player.end();
  player.finish_checks(finish(in, what.file));
  check_trace(in, what, plan);
  if (in.world.has_values) check_stats(in, what.file, plan);
  check_stalls(in, what.file);
  return in.problems.all();
}

std::vector<std::string> play_together(const std::vector<program>& programs,
                                       const std::vector<forecast>& plans,
                                       const std::vector<std::string>& shared,
                                       const run_options& options) {
  const std::string& file = programs.front().file;
  session in(file, programs.front().devices, options);
  in.drops_failed = options.recorded && in.device.has_value();
  std::map<std::string, shared_buffer> buffers;
  std::map<std::string, lent_datum> lent;
  for (const std::string& name : shared) {
    buffers[name] = share(in, programs.front(), name);
    lent[name] = buffers[name].lent;
  }
  std::vector<std::unique_ptr<program_player>> players;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    players.push_back(std::make_unique<program_player>(in, programs[i], plans[i], lent));
    threads.emplace_back([player = players.back().get()] {
      player->run();
      player->end();
    });
  }
  lent.clear();
  for (std::thread& thread : threads)
    thread.join();
  for (auto& [name, buffer] : buffers)
    buffer.lent.handle = {};
  const std::vector<failure> left = finish(in, file);
  for (const auto& player : players)
    player->finish_checks(left);
  for (const auto& [name, buffer] : buffers)
    check_shared(in, plans, file, name, buffer);
  check_times(in, file, in.recorder->snapshot());
  check_stalls(in, file);
  return in.problems.all();
}

}  // namespace millstream::scenario
