// SPDX-License-Identifier: Apache-2.0
/// What comes after what on the device, by the log of the look-alike driver: tasks that have
/// nothing to do with each other are not put in a row.
#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/cuda/engine_test.hpp"

namespace millstream::test {
namespace {

const exec_place device = exec_place::device(0);
constexpr std::size_t width = 8;
constexpr std::size_t steps = 12;

/// The most kernels of which each comes after the one before, by streams and events.
std::size_t longest_chain() {
  constexpr std::size_t stream_of_launch = 8;
  std::map<std::uint64_t, std::size_t> streams;
  std::map<std::uint64_t, std::size_t> marks;
  std::size_t longest = 0;
  fake_cuda_call entry{};
  for (std::size_t i = 0; cuda_driver().control.log_entry(i, &entry) != 0; ++i) {
    const std::string name = entry.name;
    const std::uint64_t* const given = entry.argument;
    if (name == "cuLaunchKernel") {
      longest = std::max(longest, ++streams[given[stream_of_launch]]);
    } else if (name == "cuEventRecord") {
      marks[given[0]] = streams[given[1]];
    } else if (name == "cuStreamWaitEvent") {
      streams[given[0]] = std::max(streams[given[0]], marks[given[1]]);
    }
  }
  return longest;
}

/// The columns of the step before that a task of column `at` reads besides its own.
using pattern = std::vector<std::size_t> (*)(std::size_t step, std::size_t at);

std::vector<std::size_t> stencil(std::size_t /*step*/, std::size_t at) {
  std::vector<std::size_t> found;
  if (at > 0) found.push_back(at - 1);
  if (at + 1 < width) found.push_back(at + 1);
  return found;
}
std::vector<std::size_t> butterfly(std::size_t step, std::size_t at) {
  return {at ^ (std::size_t{1} << step % 3)};
}
std::vector<std::size_t> alone(std::size_t /*step*/, std::size_t /*at*/) {
  return {};
}

class EngineOrder : public testing::TestWithParam<std::pair<const char*, pattern>> {
 protected:
  void SetUp() override { MILLSTREAM_LOOK_ALIKE_ONLY(); }
};

// Two tasks of each step go to each of the four streams.
TEST_P(EngineOrder, TasksOfOneStepAreBesideEachOther) {
  untyped_context on = open("cuda", 1);
  std::array<std::vector<untyped_data>, 2> columns;
  for (auto& each : columns) {
    for (std::size_t at = 0; at < width; ++at) {
      each.push_back(on.make_data(sizeof(std::uint32_t)));
      run(on, device, {each.back().write()}, fill_words(1));
    }
  }
  const auto pass = [&] {
    for (std::size_t step = 0; step < steps; ++step) {
      const auto& from = columns[step % 2];
      for (std::size_t at = 0; at < width; ++at) {
        std::vector<task_dep> deps{columns[(step + 1) % 2][at].write(), from[at].read()};
        for (const std::size_t other : GetParam().second(step, at))
          deps.push_back(from[other].read());
        run(on, device, deps, fill_words(1));
      }
    }
  };
  for (int i = 0; i < 4; ++i)
    pass();
  cuda_driver().control.log(1);
  pass();
  cuda_driver().control.log(0);
  EXPECT_EQ(longest_chain(), 2 * steps);
  EXPECT_EQ(on.stats().queues, 4U);
  on.finalize();
}

INSTANTIATE_TEST_SUITE_P(Patterns, EngineOrder,
                         testing::Values(std::pair{"Stencil", pattern{stencil}},
                                         std::pair{"Butterfly", pattern{butterfly}},
                                         std::pair{"Alone", pattern{alone}}),
                         [](const auto& of) { return of.param.first; });

}  // namespace
}  // namespace millstream::test
