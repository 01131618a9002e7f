// SPDX-License-Identifier: Apache-2.0
// A dot product and the extremes of a vector, by reductions of parallel loops.
#include <cstdio>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

int main() {
  const std::size_t n = 1000;
  ms::context ctx(ms::machine({.name = "host"}));
  auto x = ctx.logical_data<double>(n);
  auto y = ctx.logical_data<double>(n);
  auto dot = ctx.logical_data<double>();
  auto least = ctx.logical_data<double>();
  auto greatest = ctx.logical_data<double>();

  ctx.parallel_for(x.shape(), x.write(), y.write(), [](std::size_t i, auto a, auto b) {
    a[i] = static_cast<double>(i);
    b[i] = 2.0;
  });
  ctx.parallel_for(x.shape(), x.read(), y.read(), dot.reduce(ms::reducer::sum<double>{}),
                   [](std::size_t i, auto a, auto b, double& sum) { sum += a[i] * b[i]; });
  ctx.parallel_for(x.shape(), x.read(), least.reduce(ms::reducer::min<double>{}),
                   greatest.reduce(ms::reducer::max<double>{}),
                   [](std::size_t i, auto a, double& low, double& high) {
                     low = a[i] < low ? a[i] : low;
                     high = a[i] > high ? a[i] : high;
                   });

  const double result = ctx.wait(dot);
  std::printf("dot %g, least %g, greatest %g\n", result, ctx.wait(least), ctx.wait(greatest));
  return result == 999000.0 && ctx.wait(greatest) == 999.0 ? 0 : 1;
}
