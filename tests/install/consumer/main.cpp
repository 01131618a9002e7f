// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <vector>

#include <millstream/millstream.hpp>

namespace ms = millstream;

/// The library's exception is caught by type also where it comes out of a shared library.
bool use_after_finalize_is_an_error(ms::context& ctx, std::vector<double>& values) {
  try {
    static_cast<void>(ctx.logical_data(values));
  } catch (const ms::error& caught) {
    return caught.code() == ms::errc::usage;
  }
  return false;
}

int main() {
  std::vector<double> x(4, 1.0), y(4, 2.0);
  ms::context ctx(ms::machine({.name = "host"}));
  auto lx = ctx.logical_data(x);
  auto ly = ctx.logical_data(y);
  ctx.task(lx.read(), ly.rw(), [](auto from, auto to) {
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] += 3.0 * from[i];
  });
  ctx.finalize();
  std::printf("millstream %s: %g\n", MILLSTREAM_VERSION, y[3]);
  const bool is_right = y == std::vector<double>(4, 5.0);
  return is_right && use_after_finalize_is_an_error(ctx, x) ? 0 : 1;
}
