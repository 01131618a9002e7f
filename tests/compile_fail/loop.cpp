// SPDX-License-Identifier: Apache-2.0
// Mistakes in the arguments of parallel_for. See check.py.
#include <millstream/millstream.hpp>

namespace ms = millstream;
using data = ms::logical_data<double, 2>;
using view = ms::view<double, 2>;

void no_shape(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.parallel_for(x.shape(), x.rw(), [](auto i, auto j, view v) { v(i, j) = 0; });
#else
  ctx.parallel_for(x.rw(), [](auto, auto, view) {});  // expect: goes over a shape, a box or a number
#endif
}

void one_index_too_few(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.parallel_for(x.shape(), x.rw(), [](std::size_t, std::size_t, view) {});
#else
  ctx.parallel_for(x.shape(), x.rw(), [](std::size_t, view) {});  // expect: one std::size_t per dimension
#endif
}

void reduction_by_value_of_another_type(ms::context& ctx, ms::logical_data<double, 0> sum) {
  const auto op = ms::reducer::sum<double>{};
#ifdef CORRECT
  ctx.parallel_for(3, sum.reduce(op), [](std::size_t, double&) {});
#else
  ctx.parallel_for(3, sum.reduce(op), [](std::size_t, float&) {});  // expect: one T& per reduction
#endif
}

struct no_identity {
  double operator()(double a, double b) const { return a + b; }
};
void operator_without_identity(ms::context& ctx, ms::logical_data<double, 0> sum) {
#ifdef CORRECT
  ctx.parallel_for(3, sum.reduce(ms::reducer::sum<double>{}), [](std::size_t, double&) {});
#else
  static_cast<void>(sum.reduce(no_identity{}));  // expect: a copyable struct with identity()
  static_cast<void>(ctx);
#endif
}

void loop_without_body(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.parallel_for(x.shape(), x.rw(), [](auto, auto, view) {});
#else
  ctx.parallel_for(x.shape(), x.rw());  // expect: the last argument must be the body, a callable
#endif
}

void bare_data(ms::context& ctx, data x) {
#ifdef CORRECT
  ctx.parallel_for(x.shape(), x.rw(), [](auto, auto, view) {});
#else
  ctx.parallel_for(x.shape(), x, [](auto, auto, view) {});  // expect: a dependency must say how
#endif
}
