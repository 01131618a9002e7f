// SPDX-License-Identifier: Apache-2.0
// Four tasks that form a diamond. The program says what each task reads and writes; that `left` and
// `right` may overlap, and what is copied between the devices, follows from that.
#include <cstdio>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

int main() {
  const std::size_t n = 1000;
  std::vector<double> result(n);

  ms::context ctx(ms::machine({.name = "host", .devices = 2}));
  auto top = ctx.logical_data<double>(n).set_symbol("top");
  auto left = ctx.logical_data<double>(n).set_symbol("left");
  auto right = ctx.logical_data<double>(n).set_symbol("right");
  auto bottom = ctx.logical_data(result).set_symbol("bottom");

  ctx.fill(top, 1.0);
  ctx.task({.symbol = "left", .place = ms::exec_place::device(0)}, top.read(), left.write(),
           [](auto in, auto out) {
             for (std::size_t i = 0; i < out.size(); ++i)
               out[i] = in[i] + 1.0;
           });
  ctx.task({.symbol = "right", .place = ms::exec_place::device(1)}, top.read(), right.write(),
           [](auto in, auto out) {
             for (std::size_t i = 0; i < out.size(); ++i)
               out[i] = in[i] * 10.0;
           });
  ctx.task({.symbol = "bottom"}, left.read(), right.read(), bottom.write(),
           [](auto l, auto r, auto out) {
             for (std::size_t i = 0; i < out.size(); ++i)
               out[i] = l[i] + r[i];
           });
  ctx.finalize();

  const ms::context_stats stats = ctx.stats();
  std::printf("result %g; %llu tasks, %llu copies\n", result[0],
              static_cast<unsigned long long>(stats.tasks),
              static_cast<unsigned long long>(stats.copies));
  return result == std::vector<double>(n, 12.0) ? 0 : 1;
}
