// SPDX-License-Identifier: Apache-2.0
// Looking at data in the middle of a task flow, and an error that comes back to the caller.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

int main() {
  std::vector<int> values(4, 0);
  auto history = std::make_shared<std::vector<int>>();  // shared: the bodies run later

  ms::context ctx(ms::machine({.name = "host"}));
  auto data = ctx.logical_data(values).set_symbol("values");
  for (int round = 1; round <= 3; ++round) {
    ctx.task(data.rw(), [round](auto v) {
      for (int& value : v)
        value += round;
    });
    ctx.host_launch(data.read(), [history](auto v) { history->push_back(v[0]); });
  }
  ctx.host_launch({.symbol = "check"}, data.read(), [](auto v) {
    if (v[0] != 0) throw std::runtime_error("the value is not zero");
  });

  bool was_told = false;
  try {
    ctx.finalize();
  } catch (const ms::error& failure) {
    std::printf("%s\n", failure.what());
    was_told = failure.code() == ms::errc::task_failed;
  }
  return was_told && *history == std::vector<int>{1, 3, 6} ? 0 : 1;
}
