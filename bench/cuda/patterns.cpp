// SPDX-License-Identifier: Apache-2.0
// Tasks without a body in the dependence patterns of Task Bench: columns 0 .. width - 1, one task
// per column and step, which writes its column's datum of this step and reads those of the step
// before that its pattern names.
#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include "bench/cuda/groups.hpp"

namespace ms = millstream;

namespace bench {
namespace {

constexpr std::size_t width = 8;
constexpr std::size_t log_width = 3;

/// The columns that column `at` reads in step `step`, counted from 1.
using column_list = std::vector<std::size_t>;
using pattern = column_list (*)(std::size_t step, std::size_t at);

/// `at` plus each offset, where that is a column.
column_list near(std::size_t at, std::initializer_list<std::ptrdiff_t> offsets) {
  column_list found;
  for (const std::ptrdiff_t offset : offsets) {
    const auto column = static_cast<std::ptrdiff_t>(at) + offset;
    if (column >= 0 && column < static_cast<std::ptrdiff_t>(width)) {
      found.push_back(static_cast<std::size_t>(column));
    }
  }
  return found;
}

column_list trivial(std::size_t /*step*/, std::size_t /*at*/) {
  return {};
}
column_list stencil(std::size_t /*step*/, std::size_t at) {
  return near(at, {-1, 0, 1});
}
column_list fft(std::size_t step, std::size_t at) {
  const auto distance = std::ptrdiff_t{1} << ((step - 1) % log_width);
  return near(at, {-distance, 0, distance});
}
column_list sweep(std::size_t /*step*/, std::size_t at) {
  return near(at, {-1, 0});
}
/// Doubles until all columns take part, then exchanges at growing distance.
column_list tree(std::size_t step, std::size_t at) {
  const std::size_t turn = (step - 1) % (2 * log_width);
  if (turn >= log_width) {
    const std::size_t distance = std::size_t{1} << (turn - log_width);
    return {at, at ^ distance};
  }
  const std::size_t half = width >> (turn + 1);
  return {at - at % (2 * half)};
}
/// Each column with probability 1/2.
column_list random(std::size_t step, std::size_t at) {
  std::minstd_rand dice(static_cast<std::uint32_t>(step * width + at + 1));
  dice.discard(4);
  column_list found;
  for (std::size_t column = 0; column < width; ++column) {
    if (dice() % 1024 < 512) found.push_back(column);
  }
  return found;
}

struct named_pattern {
  const char* name;
  pattern columns;
  double budget;
};
constexpr std::array<named_pattern, 6> patterns{{
    {"trivial", trivial, 1.0},
    {"stencil", stencil, 1.2},
    {"fft", fft, 1.0},
    {"sweep", sweep, 1.0},
    {"tree", tree, 1.0},
    {"random", random, 1.0},
}};

/// What each task reads.
using column_steps = std::vector<std::array<column_list, width>>;

/// Made before the clock runs.
column_steps steps_of(pattern columns, std::size_t count) {
  column_steps steps(count);
  for (std::size_t step = 0; step < count; ++step) {
    for (std::size_t at = 0; at < width; ++at)
      steps[step][at] = columns(step + 1, at);
  }
  return steps;
}

using columns_data = std::vector<ms::logical_data<double>>;

void submit_step(ms::context& ctx, const columns_data& from, const columns_data& to,
                 const std::array<column_list, width>& reads) {
  for (std::size_t at = 0; at < width; ++at) {
    auto task = ctx.task();
    task.add_deps(to[at].write());
    for (const std::size_t column : reads[at])
      task.add_deps(from[column].read());
    task.start();
    task.end();
  }
}

/// The same order by hand: column `at` is in stream `at % streams`, and in each step a stream waits
/// once for each other one that has something it comes after: what it reads, and what has read the
/// datum of two steps ago that it writes over.
class hand_written_pattern {
 public:
  hand_written_pattern(const gpu& on, const column_steps& steps) : on_(on), waits_(steps.size()) {
    for (std::size_t i = 0; i < streams; ++i) {
      streams_[i] = on.make_stream();
      ends_[i] = on.make_event();
    }
    for (std::size_t step = 0; step < steps.size(); ++step) {
      for (std::size_t at = 0; at < width; ++at) {
        for (const std::size_t column : steps[step][at]) {
          add(step, at, column);
          if (step + 1 < steps.size()) add(step + 1, column, at);
        }
      }
    }
  }
  hand_written_pattern(const hand_written_pattern&) = delete;
  hand_written_pattern& operator=(const hand_written_pattern&) = delete;
  ~hand_written_pattern() {
    for (const abi::stream each : streams_)
      on_.destroy(each);
    for (const abi::event each : ends_)
      on_.destroy(each);
  }
  void submit() const {
    for (const step_waits& waits : waits_) {
      for (std::size_t from = 0; from < streams; ++from) {
        if (is_waited_for(waits, from)) record(from);
      }
      for (std::size_t to = 0; to < streams; ++to) {
        for (std::size_t from = 0; from < streams; ++from) {
          if (waits[to][from]) wait(to, from);
        }
      }
    }
  }
  void finish() const {
    for (const abi::stream each : streams_)
      on_.finish(each);
  }

 private:
  static constexpr std::size_t streams = 4;
  using step_waits = std::array<std::array<bool, streams>, streams>;

  void add(std::size_t step, std::size_t at, std::size_t column) {
    if (at % streams != column % streams) waits_[step][at % streams][column % streams] = true;
  }
  static bool is_waited_for(const step_waits& waits, std::size_t from) {
    return std::any_of(waits.begin(), waits.end(), [from](const auto& of) { return of[from]; });
  }
  void record(std::size_t from) const {
    on_.check(on_.call()->cuEventRecord(ends_[from], streams_[from]), "record");
  }
  void wait(std::size_t to, std::size_t from) const {
    on_.check(on_.call()->cuStreamWaitEvent(streams_[to], ends_[from], abi::event_wait_flags::none),
              "wait");
  }
  const gpu& on_;
  std::vector<step_waits> waits_;
  std::array<abi::stream, streams> streams_{};
  std::array<abi::event, streams> ends_{};
};

double mean_reads(const column_steps& steps) {
  std::size_t reads = 0;
  for (const auto& step : steps) {
    for (const column_list& each : step)
      reads += each.size();
  }
  return static_cast<double>(reads) / static_cast<double>(steps.size() * width);
}

std::string with_one_digit(double value) {
  const std::string text = std::to_string(value);
  return text.substr(0, text.find('.') + 2);
}

void measure(const session& in, const named_pattern& what) {
  const auto steps = steps_of(what.columns, in.into.how().amount(2'000));
  const std::string name = std::string("C++ pattern ") + what.name + ", " +
                           with_one_digit(mean_reads(steps)) + " reads a task";
  if (!in.into.wants(name)) return;
  row measured{.name = name, .unit = "us", .budget = what.budget, .values = {}, .by_hand = {}};
  ms::context ctx{in.on};
  std::array<columns_data, 2> data;
  for (columns_data& each : data) {
    for (std::size_t at = 0; at < width; ++at)
      each.push_back(make_device_data(ctx));
  }
  const hand_written_pattern twin(in.by_hand, steps);
  const auto per_task = [&](double took) {
    return took / static_cast<double>(steps.size() * width);
  };
  for (std::size_t i = 0; i <= in.into.how().runs; ++i) {
    const double hand = us_of([&] { twin.submit(); });
    twin.finish();
    const double mine = us_of([&] {
      for (std::size_t step = 0; step < steps.size(); ++step)
        submit_step(ctx, data[step % 2], data[(step + 1) % 2], steps[step]);
    });
    drain(ctx);
    if (i == 0) continue;
    measured.by_hand.push_back(per_task(hand));
    measured.values.push_back(per_task(mine));
  }
  in.into.add(std::move(measured));
}

}  // namespace

void measure_patterns(const session& in) {
  for (const named_pattern& each : patterns)
    measure(in, each);
}

}  // namespace bench
