// SPDX-License-Identifier: Apache-2.0
// y = y + alpha x: the smallest whole program.
#include <cstdio>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

int main() {
  const std::vector<double> x(1000, 1.0);
  std::vector<double> y(1000, 2.0);
  const double alpha = 0.5;

  ms::context ctx(ms::machine({.name = "host"}));
  auto lx = ctx.logical_data(x);
  auto ly = ctx.logical_data(y);
  ctx.task(lx.read(), ly.rw(), [alpha](ms::view<const double> a, ms::view<double> b) {
    for (std::size_t i = 0; i < b.size(); ++i)
      b[i] += alpha * a[i];
  });
  ctx.finalize();  // y has its value now

  std::printf("y[0] = %g\n", y[0]);
  return y == std::vector<double>(1000, 2.5) ? 0 : 1;
}
